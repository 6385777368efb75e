"use strict";
// Training: the exported step, over and over. It runs in a worker, so that the page can be typed in meanwhile.

const REPORT = 150;  // milliseconds between two reports at least

// Numbers in [0, 1) in steps of 2^-24, so that float32 holds them exactly (mulberry32).
const uniforms = seed => () => {
  seed = seed + 0x6D2B79F5 | 0;
  let t = Math.imul(seed ^ seed >>> 15, 1 | seed);
  t = t + Math.imul(t ^ t >>> 7, 61 | t) ^ t;
  return ((t ^ t >>> 14) >>> 8) / 16777216;
};

// The share of the learning rate with which a step, counted from 0, is taken.
const warmed = ({warmup}, step) => step < warmup.length ? warmup[step] : 1;

// The outputs of a graph for these inputs, and for random numbers.
function sample(graph, {inputs}, random, given = {}) {
  const drawn = Object.entries(inputs).filter(([name]) => name.startsWith("random.")).map(([name, shape]) =>
    [name, tensor("float", shape, Float64Array.from({length: product(shape)}, random))]);
  return graph.run({...given, ...Object.fromEntries(drawn)});
}

class Learner {
  constructor(spec, seed) {
    this.spec = spec;
    this.first = new Graph(spec.training.graphs.first, new Map());
    this.graph = new Graph(spec.training.graphs.train, new Map()).recycle();
    this.reset(seed);
  }

  reset(seed) {
    this.values = {step: tensor("float", []), ...sample(this.first, this.spec.training.graphs.first, uniforms(3 * seed))};
    for (const [name, shape] of this.spec.weights) for (const moment of ["exp_avg", "exp_avg_sq"]) this.values[`${moment}.${name}`] = tensor("float", shape);
    this.random = uniforms(3 * seed + 1);
  }

  // One step on these examples: {loss, right: 1 for each example that was right throughout}. mask: null is the config's own.
  learn(examples, rate, mask) {
    const {training, mask_padding} = this.spec, share = warmed(training, this.values.step.data[0]), masked = mask === null ? mask_padding : mask;
    const result = sample(this.graph, training.graphs.train, this.random, {
      ...this.values, ...examples, rate: tensor("float", [], Float64Array.of(rate * share)), mask: tensor("bool", [], Float64Array.of(masked)),
    });
    for (const name of Object.keys(this.values)) this.values[name] = result[`${name}.next`] || this.values[name];
    return {loss: result.loss.data[0], right: result.right.data};
  }

  weights() {
    const parts = this.spec.weights.map(([name]) => this.values[name].data), numbers = new Float64Array(parts.reduce((sum, {length}) => sum + length, 0));
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
    this.spec = specs[0].training;
    this.graph = new Graph(this.spec.graphs.draw, new Map());
    this.reset(seed);
  }

  reset(seed) {
    for (const learner of this.learners) learner.reset(seed);
    this.random = uniforms(3 * seed + 2);
    this.step = 0;
  }

  // One step of each: {lengths, each: [{loss, right}]}
  advance(rate, mask) {
    const examples = sample(this.graph, this.spec.graphs.draw, this.random);
    this.step += 1;
    return {examples, lengths: Array.from(examples.source_lengths.data), each: this.learners.map(learner => learner.learn(examples, rate, mask))};
  }
}

// What the worker does: {kind: "start", specs} begins, "run", "pause", "step" and "reset" are the buttons; "seen" asks for the next report.
function serve() {
  let race = null, playing = false, seen = true, reported = 0, settings = {}, news = [];
  const report = () => {
    if (!seen || (playing && performance.now() - reported < REPORT)) return;
    [seen, reported] = [false, performance.now()];
    postMessage({round: settings.round, step: race.step, news, weights: race.learners.map(learner => learner.weights())});
    news = [];
  };
  const once = () => {
    const {lengths, each} = race.advance(settings.rate, settings.mask);
    news.push({lengths, losses: each.map(({loss}) => loss), right: each.map(({right}) => Array.from(right))});
    if (race.step === settings.until || each.some(({loss}) => !Number.isFinite(loss))) playing = false;
  };
  const tick = () => {
    if (playing) {
      once();
      setTimeout(tick);
    }
    report();
  };
  onmessage = ({data: {kind, specs, ...given}}) => {
    Object.assign(settings, given);
    if (kind === "start") race = new Race(specs, settings.seed);
    if (kind === "reset") {
      race.reset(settings.seed);
      news = [];
    }
    if (kind === "seen") seen = true;
    else if (kind === "run" && !playing) {
      playing = true;
      setTimeout(tick);
    } else if (kind !== "run") {
      playing = false;
      if (kind === "step") once();
    }
    if (!playing && (kind !== "seen" || news.length)) {
      seen = seen || kind === "reset";
      report();
    }
  };
}
