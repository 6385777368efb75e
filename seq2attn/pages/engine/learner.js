// Training: the exported step, over and over.

// A generator of random numbers in [0, 1), the same ones for the same seed: mulberry32, a published
// generator by Tommy Ettinger, whose constants these are. Of its 32 bits, the upper 24 are used: as
// multiples of 2^-24 = 1 / 16777216, float32 holds them exactly.
function uniforms(seed) {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 8) / 16777216
  }
}

// The share of the learning rate with which a step, counted from 0, is taken.
const warmed = ({warmup}, step) => warmup[step] ?? 1

// What a graph draws at random are inputs of it, `random.0` and so on. Returns a tensor of their
// shape for each of them, drawn from the generator `random`.
function randomInputs({inputs}, random) {
  return mapValues(picked(inputs, "random."), shape =>
    tensorOf("float", shape, random)
  )
}

// One model in training.
class Learner {
  // spec: a model of the page's data. `values` are what a training step reads and makes anew: the
  // weights, at first as the graph `first` draws them, Adam's running averages of the gradients and
  // of their squares (`exp_avg...`), and the number of the step, at first 0. First weights, dropout
  // and batches have the random seeds 3n, 3n + 1 and 3n + 2 (see `Race`), so that a seed n gives
  // every model the same batches.
  constructor(spec, seed) {
    this.spec = spec
    this.graphs = mapValues(
      spec.training.graphs,
      graph => new Graph(graph, new Map())
    )
    const {first, train} = this.graphs
    const {inputs} = train.spec
    const zeros = {...picked(inputs, "exp_avg"), step: inputs.step}
    const weights = first.run(randomInputs(first.spec, uniforms(3 * seed)))
    this.values = {
      ...mapValues(zeros, shape => filled(shape, 0)),
      ...weights
    }
    this.random = uniforms(3 * seed + 1)
  }

  // Takes one step on these examples, tensors by the names of the graph's inputs: {loss, right: 1
  // for each example that was right throughout, else 0}. mask: whether padding gets no attention;
  // null: as the model's config says. The graph returns the next weights and Adam's averages by the
  // names of its inputs, so that they are the inputs of the next step. All steps have the same
  // shapes: the first one shows the graph which arrays can be used again (`recycle`).
  learn(examples, rate, mask) {
    const {train} = this.graphs
    const [step] = this.values.step.data
    const inputs = {
      ...this.values,
      ...examples,
      ...randomInputs(train.spec, this.random),
      rate: filled([], rate * warmed(this.spec.training, step)),
      mask: filled([], mask ?? this.spec.mask_padding, "bool")
    }
    if (step === 0) train.recycle(inputs)
    const {loss, right, ...values} = train.run(inputs)
    this.values = values
    return {loss: loss.data[loss.offset], right: numbersOf(right)}
  }

  // All numbers of the weights one after the other, as `Model` takes them.
  weights() {
    const parts = this.spec.weights.map(([name]) =>
      flatten(this.values[name])
    )
    return cat(parts).data
  }
}

// One model or two that train on the same batches, and take the same exam.
class Race {
  constructor(specs, seed) {
    this.learners = specs.map(spec => new Learner(spec, seed))
    this.random = uniforms(3 * seed + 2)
    this.strings = examStrings(this.learners[0].graphs, uniforms(seed + 1e6))
    this.step = 0
  }

  // What each learner has right of the strings of the exam.
  examine(mask) {
    return this.learners.map(learner =>
      examine(new Model(learner.spec, learner.weights()), this.strings, mask)
    )
  }

  // Draws a batch, and takes one step of each model on it: {examples: the batch, as tensors,
  // lengths: of its sources, each: for each model {loss, right}, as `learn` returns them}.
  advance(rate, mask) {
    const {draw} = this.learners[0].graphs
    const examples = draw.run(randomInputs(draw.spec, this.random))
    this.step += 1
    const each = this.learners.map(learner =>
      learner.learn(examples, rate, mask)
    )
    return {
      examples,
      lengths: [...numbersOf(examples.source_lengths)],
      each
    }
  }
}
