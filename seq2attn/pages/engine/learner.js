// Training: the exported step, over and over.

// A generator of random numbers in [0, 1), the same ones for the same seed: mulberry32, by Tommy
// Ettinger. Steps of 2^-24: float32 holds them exactly.
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

// Values for the random inputs of a graph, drawn from the generator `random`.
function randomInputs({inputs}, random) {
  const draw = (_, k, numbers) => {
    numbers[k] = random()
  }
  return made(picked(inputs, "random."), shape => {
    const drawn = tensor("float", shape)
    drawn.data.forEach(draw)
    return drawn
  })
}

// One model in training.
class Learner {
  // It begins with weights that the graph `first` draws, averages of the gradients (`exp_avg`) that
  // are 0, and no step taken. First weights, dropout and batches have a generator each, so that the
  // batches of a seed are the same for every model: hence the factor 3.
  constructor(spec, seed) {
    this.spec = spec
    this.graphs = made(
      spec.training.graphs,
      graph => new Graph(graph, new Map())
    )
    const {first, train} = this.graphs
    const {inputs} = train.spec
    const zeros = {...picked(inputs, "exp_avg"), step: inputs.step}
    const weights = first.run(randomInputs(first.spec, uniforms(3 * seed)))
    this.values = {
      ...made(zeros, shape => filled(shape, 0)),
      ...weights
    }
    this.random = uniforms(3 * seed + 1)
  }

  // One step on these examples: {loss, right: 1 for each example that was right throughout}. mask:
  // whether padding gets no attention; null: as the config says. The results of the graph are the
  // next weights and averages, by the names of the inputs that they are in the next step.
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
    if (step === 0) train.recycle(inputs) // later steps use its memory again
    const {loss, right, ...values} = train.run(inputs)
    this.values = values
    return {loss: loss.data[loss.offset], right: numbersOf(right)}
  }

  // The weights one after the other, as `Model` takes them.
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

  // One step of each: {examples, lengths, each: [{loss, right}]}
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
