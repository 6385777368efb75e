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

// The weights of a model before training, drawn as the model's own constructor draws them.
function firstWeights({weights, snapshots, training}, random) {
  const numbers = decodeBase64(snapshots.at(-1).weights), ways = new Map(training.initial.map(([name, ...way]) => [name, way]));
  let start = 0;
  for (const [name, shape] of weights) {
    const size = product(shape), before = numbers.slice(start, start + size), [kind, a, b, fixed] = ways.get(name) || [];
    for (let k = 0; kind && k < size; k++) {
      numbers[start + k] = kind === "uniform" ? a + (b - a) * random() : a + b * Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
    }
    for (const [from, to] of kind ? fixed : []) numbers.set(before.subarray(from, to), start + from);
    start += size;
  }
  return numbers;
}

// The inputs of a graph that are random numbers.
function drawn(graph, shapes, random) {
  return Object.fromEntries(graph.inputs.filter(([name]) => name.startsWith("random.")).map(([name]) =>
    [name, tensor("float", shapes[name], Float64Array.from({length: product(shapes[name])}, random))]));
}

class Learner {
  constructor(spec, seed) {
    this.spec = spec;
    this.graph = new Graph(spec.training.train, new Map()).recycle();
    this.reset(seed);
  }

  reset(seed) {
    const numbers = firstWeights(this.spec, uniforms(3 * seed));
    this.values = {step: tensor("float", [])};
    let start = 0;
    for (const [name, shape] of this.spec.weights) {
      const own = {[name]: numbers.slice(start, start += product(shape)), [`exp_avg.${name}`]: undefined, [`exp_avg_sq.${name}`]: undefined};
      for (const [key, value] of Object.entries(own)) this.values[key] = tensor("float", shape, value);
    }
    this.random = uniforms(3 * seed + 1);
  }

  // One step on these examples: {loss, right: 1 for each example that was right throughout}.
  learn(examples, rate, mask) {
    const {warmup, shapes} = this.spec.training, step = this.values.step.data[0], share = step < warmup.length ? warmup[step] : 1;
    const result = this.graph.run({
      ...this.values, ...examples, ...drawn(this.graph, shapes, this.random),
      rate: tensor("float", [], Float64Array.of(rate * share)), mask: tensor("bool", [], Float64Array.of(mask)),
    });
    for (const name of Object.keys(this.values)) this.values[name] = result[`${name}.next`] || this.values[name];
    return {loss: result.loss.data[0], right: result.right.data, result};
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
    this.draw = new Graph(this.spec.draw, new Map());
    this.reset(seed);
  }

  reset(seed) {
    for (const learner of this.learners) learner.reset(seed);
    this.random = uniforms(3 * seed + 2);
    this.step = 0;
  }

  // One step of each: {lengths, each: [{loss, right}]}
  advance(rate, mask) {
    const examples = this.draw.run(drawn(this.draw, this.spec.drawn, this.random));
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
    if (each.some(({loss}) => !Number.isFinite(loss))) playing = false;
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
    } else if (kind !== "set" && kind !== "run") {
      playing = false;
      if (kind === "step") once();
    }
    if (!playing && (kind !== "seen" || news.length)) {
      seen = seen || kind === "reset";
      report();
    }
  };
}
