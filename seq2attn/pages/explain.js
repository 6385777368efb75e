"use strict";
// How a graph computes one of its numbers, read off its nodes. It knows the operations of ONNX, and no mechanism.

const SHAPING = new Set(["Identity", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Cast", "Dropout"]);  // the same elements in the same order
const BETWEEN = {Add: [" + ", 1], Sub: [" − ", 1], Mul: [" × ", 2], Div: [" / ", 2], Pow: ["^", 2.5]};
const CALLED = {Log: "ln ", Sqrt: "√", Neg: "−", Tanh: "tanh", Sigmoid: "sigmoid", Exp: "exp"};
const REDUCED = {ReduceL2: ["|", "|"], ReduceSum: ["Σ(", ")"], ReduceMean: ["mean(", ")"], ReduceMax: ["max(", ")"]};
const LONGEST_FORMULA = 90;

const short = value => Math.abs(value) >= 1e5 ? value.toExponential(1) : Math.abs(value) >= 100 ? value.toFixed(0) : Math.abs(value) >= 10 ? value.toFixed(1) : value.toFixed(2).replace(/^(-?)0\./, "$1.");
const exact = value => Math.abs(value) >= 1e5 || (value !== 0 && Math.abs(value) < 1e-3) ? value.toExponential(1) : Number.isInteger(value) ? String(value) : Number(value.toPrecision(4)).toString();

// Where element `cell` of a result of shape `from` comes from in an array of shape `to` that is repeated to fit.
function origin(cell, from, to) {
  const steps = strides(to, from.length);
  let place = 0;
  for (let axis = from.length - 1, rest = cell; axis >= 0; axis--) {
    place += (rest % from[axis]) * steps[axis];
    rest = Math.floor(rest / from[axis]);
  }
  return place;
}

// The text of a formula, and how tightly it binds: 1 sum, 2 product, 2.5 power, 3 one thing.
const formula = (text, binding = 3) => ({text, binding});
const within = (part, least) => part.binding < least ? `(${part.text})` : part.text;

class Explanation {
  // values: of all tensors of the graph, as `Graph.trace` returns them; names: {tensor: cells => formula} of those that are not
  // taken apart.
  constructor(graph, values, names) {
    Object.assign(this, {graph, values});
    const known = Object.entries(names).filter(([name]) => graph.places.has(name));
    this.names = new Map(known.map(([name, say]) => [this.root(graph.places.get(name)), say]));
    this.dot = null;  // the two vectors of the first product of vectors that was met
  }

  root(place) {
    for (let node = this.graph.makers.get(place); node && SHAPING.has(node.operation); node = this.graph.makers.get(place)) [place] = node.inputs;
    return place;
  }

  // How one element of a named tensor is made: {text, numbers}: as a formula, and with the numbers that its last operation combines.
  of(name, cell) {
    let at = this.root(this.graph.places.get(name)), node = this.names.has(at) ? null : this.graph.makers.get(at);
    while (node && node.operation === "Where") {  // which of the two it is
      const [chosen, ...both] = node.inputs, shape = this.values[at].shape, picked = both[this.values[chosen].data[origin(cell, shape, this.values[chosen].shape)] ? 0 : 1];
      cell = origin(cell, shape, this.values[picked].shape);
      at = this.root(picked);
      node = this.names.has(at) ? null : this.graph.makers.get(at);
    }
    const made = this.term(at, [cell]), numbers = node ? this.numbers(node, at, cell) : "";
    return {text: made.text, numbers};
  }

  numbers(node, at, cell) {
    const {shape} = this.values[at];
    if (node.operation === "Softmax") {
      const {data} = this.values[node.inputs[0]], first = cell - cell % shape.at(-1), total = data.slice(first, first + shape.at(-1)).reduce((sum, one) => sum + Math.exp(one), 0);
      return `${exact(Math.exp(data[cell]))} / ${exact(total)}`;
    }
    if (!(node.operation in BETWEEN)) return "";
    const parts = node.inputs.map(place => this.values[place].data[origin(cell, shape, this.values[place].shape)]);
    return parts.some(part => part === 1) && node.operation !== "Add" ? "" : parts.map(part => part < 0 ? `(${exact(part)})` : exact(part)).join(BETWEEN[node.operation][0]);
  }

  // Some elements of a tensor, one of them or a vector, as a formula.
  term(place, cells) {
    const at = this.root(place), {shape, data} = this.values[at], say = this.names.get(at), node = this.graph.makers.get(at), one = cells.length === 1 || data.length === 1;
    if (say) return say(cells, this.values[at]);
    if (this.graph.weightNames.has(at) && data.length > 1) return formula(this.graph.weightNames.get(at).replace(/history\.map/, "w").replace(/\.(weight|bias)$/, "").split(".").at(-1));
    const made = node && this.made(node, cells, shape);
    return made && made.text.length < LONGEST_FORMULA ? made : one ? formula(exact(data[cells[0]]), data[cells[0]] < 0 ? 1 : 3) : formula(this.source(at));
  }

  // What an operation makes; undefined for one that is not taken apart.
  made(node, cells, shape) {
    const {operation, inputs} = node, part = (k, found = cells) => this.term(inputs[k], found);
    const repeated = k => cells.map(cell => origin(cell, shape, this.values[inputs[k]].shape));
    const value = k => this.values[inputs[k]].data.length === 1 ? this.values[inputs[k]].data[0] : NaN;
    if (operation in BETWEEN) {
      const [sign, binding] = BETWEEN[operation], neutral = binding === 1 ? 0 : 1;
      if (value(1) === neutral) return part(0, repeated(0));
      if (value(0) === neutral && (operation === "Add" || operation === "Mul")) return part(1, repeated(1));
      const least = Math.ceil(binding);
      return formula(within(part(0, repeated(0)), least) + sign + within(part(1, repeated(1)), operation === "Sub" || operation === "Div" ? binding + 1 : least), binding);
    }
    if (operation === "Where") return part(this.values[inputs[0]].data[repeated(0)[0]] ? 1 : 2, repeated(this.values[inputs[0]].data[repeated(0)[0]] ? 1 : 2));
    if (operation === "Split" || operation === "Slice") return this.names.has(this.root(inputs[0])) ? part(0) : undefined;
    if (operation === "Clip" || operation === "Expand") return part(0, repeated(0));
    if (operation === "Abs") return formula(`|${part(0).text}|`);
    if (operation === "Softmax" && cells.length === 1) return formula(`exp(${part(0).text}) / Σ exp`, 2);
    if (operation in REDUCED) {  // along the last axis
      const from = this.values[inputs[0]].shape, axes = inputs[1] ? list(this.values[inputs[1]]) : [], width = from.at(-1), [before, after] = REDUCED[operation];
      const {text} = part(0, Array.from({length: width}, (_, k) => cells[0] * width + k)), known = text !== this.source(inputs[0]);
      return known && axes.length === 1 && axisOf(axes[0], from.length) === from.length - 1 ? formula(before + text + after) : undefined;
    }
    if (operation === "Transpose") {
      const from = this.values[inputs[0]].shape, perm = node.attributes.perm || [...from.keys()].reverse(), steps = full(from), moved = perm.map(axis => steps[axis]);
      return part(0, cells.map(cell => full(shape).reduce((place, step, axis) => place + Math.floor(cell / step) % shape[axis] * moved[axis], 0)));
    }
    if (operation === "MatMul" || operation === "Gemm") return this.multiplied(node, cells, shape);
    if (inputs.length === 1) return formula(CALLED[operation] && /\W$/.test(CALLED[operation]) ? CALLED[operation] + within(part(0), 3) : `${CALLED[operation] || operation.toLowerCase()}(${part(0).text})`);
    return undefined;
  }

  multiplied({inputs, attributes}, cells, shape) {
    const [a, b] = inputs.map(place => this.values[place]);
    if (a.shape.length < 2 || b.shape.length < 2 || attributes.transA) return undefined;
    const size = a.shape.at(-1), rows = a.shape.at(-2), columns = shape.at(-1), batch = cell => Math.floor(cell / (columns * rows)), lies = attributes.transB ? [1, size] : [columns, 1];
    const row = cell => Array.from({length: size}, (_, k) => (a.data.length === rows * size ? 0 : batch(cell) * rows * size) + Math.floor(cell / columns) % rows * size + k);
    const column = cell => Array.from({length: size}, (_, k) => (b.data.length === size * columns ? 0 : batch(cell) * size * columns) + k * lies[0] + cell % columns * lies[1]);
    const [cell] = cells, one = cells.length === 1;
    const matrix = place => this.graph.weightNames.has(this.untransposed(place));
    const left = this.term(inputs[0], row(cell)), right = this.term(inputs[1], one || !matrix(inputs[1]) ? column(cell) : [0, 1]);
    if (one) this.dot = this.dot || {left: row(cell).map(k => a.data[k]), right: column(cell).map(k => b.data[k]), names: [left.text, right.text]};
    const [outer, inner] = matrix(inputs[1]) ? [right, left] : [left, right];  // as it is written: the weights first
    return formula(within(outer, 3) + (!one ? " " : size === 1 ? " × " : " · ") + within(inner, 3), 2);
  }

  untransposed(place) {
    const at = this.root(place), node = this.graph.makers.get(at);
    return node && node.operation === "Transpose" ? this.root(node.inputs[0]) : at;
  }

  // Every tensor that a tensor is made of, itself first.
  origins(place) {
    const found = new Set([place]);
    for (const at of found) for (const one of (this.graph.makers.get(at) || {inputs: []}).inputs) found.add(one);
    return found;
  }

  // What is not taken apart, by the module whose weights it comes from.
  source(place) {
    const modules = Array.from(this.origins(place), at => /\.(history|window|score|cell)\./.exec(this.graph.weightNames.get(at) || ""));
    return (modules.find(found => found) || ["", "…"])[1];
  }

  // A distribution per key, (1, D, S), or one of all keys, (D, 1), of which a named tensor is made and `before` is not; undefined if there is none.
  distribution(name, before) {
    const earlier = this.origins(this.graph.places.get(before)), made = Array.from(this.origins(this.graph.places.get(name)));
    const found = made.filter(at => !earlier.has(at) && (this.graph.makers.get(at) || {}).operation === "Softmax");
    if (found.length !== 1) return undefined;
    const {shape, data} = this.values[found[0]];
    return {shape: shape.length === 1 ? [...shape, 1] : shape, data};
  }

  // Whether a named tensor depends on an input.
  reads(name, input) { return this.origins(this.graph.places.get(name)).has(this.graph.places.get(input)); }
}
