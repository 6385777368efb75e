// Training: the exported step, over and over.

// Numbers in [0, 1) in steps of 2^-24, so that float32 holds them exactly (mulberry32).
function uniforms(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 8) / 16777216;
  };
}

// The share of the learning rate with which a step, counted from 0, is taken.
const warmed = ({warmup}, step) => warmup[step] ?? 1;

// The random inputs of a graph.
function randomInputs({inputs}, random) {
  const drawn = {};
  for (const [name, shape] of Object.entries(inputs)) {
    if (!name.startsWith("random.")) continue;
    drawn[name] = tensor(
      "float",
      shape,
      Float64Array.from({length: product(shape)}, random)
    );
  }
  return drawn;
}

class Learner {
  constructor(spec, seed) {
    const {first, train} = spec.training.graphs;
    this.spec = spec;
    this.first = new Graph(first, new Map());
    this.graph = new Graph(train, new Map());
    this.recycles = false;
    this.reset(seed);
  }

  reset(seed) {
    const {first, train} = this.spec.training.graphs;
    const moments = Object.entries(train.inputs).filter(([name]) =>
      /^(step$|exp_avg)/.test(name)
    );
    this.values = made(Object.fromEntries(moments), shape => filled(shape, 0));
    Object.assign(
      this.values,
      this.first.run(randomInputs(first, uniforms(3 * seed)))
    );
    this.random = uniforms(3 * seed + 1);
  }

  // One step on these examples: {loss, right: 1 for each example that was right throughout}. mask: null is the config's own.
  learn(examples, rate, mask) {
    const {training, mask_padding} = this.spec;
    const share = warmed(training, this.values.step.data[0]);
    const inputs = {
      ...this.values,
      ...examples,
      ...randomInputs(training.graphs.train, this.random),
      rate: filled([], rate * share),
      mask: flag(mask ?? mask_padding)
    };
    if (!this.recycles) this.graph.recycle(inputs);
    this.recycles = true;
    const {loss, right, ...values} = this.graph.run(inputs);
    this.values = values;
    return {loss: numbersOf(loss)[0], right: numbersOf(right)};
  }

  weights() {
    const parts = this.spec.weights.map(([name]) =>
      numbersOf(this.values[name])
    );
    const numbers = new Float64Array(
      parts.reduce((count, {length}) => count + length, 0)
    );
    let start = 0;
    for (const part of parts) {
      numbers.set(part, start);
      start += part.length;
    }
    return numbers;
  }
}

// All learners on the same batches.
class Race {
  constructor(specs, seed) {
    this.learners = specs.map(spec => new Learner(spec, seed));
    this.graph = new Graph(specs[0].training.graphs.draw, new Map());
    this.reset(seed);
  }

  reset(seed) {
    for (const learner of this.learners) learner.reset(seed);
    this.random = uniforms(3 * seed + 2);
    this.step = 0;
  }

  // One step of each: {examples, lengths, each: [{loss, right}]}
  advance(rate, mask) {
    const examples = this.graph.run(randomInputs(this.graph.spec, this.random));
    this.step += 1;
    const each = this.learners.map(learner =>
      learner.learn(examples, rate, mask)
    );
    return {examples, lengths: [...numbersOf(examples.source_lengths)], each};
  }
}
