"use strict";
// A model: its graphs, and the loops around them that the manifest describes. It knows no mechanism.

const WIDTHS = {1: Float32Array, 2: Uint8Array, 6: Int32Array, 7: BigInt64Array, 9: Uint8Array, 11: Float64Array};  // of ONNX's types

const bytesOf = text => Uint8Array.from(atob(text), letter => letter.charCodeAt(0));

// A tensor of ONNX's JSON.
function readTensor({dims = [], data_type: type, raw_data: raw = ""}) {
  return tensor(TYPES[type], dims.map(Number), Float64Array.from(new WIDTHS[type](bytesOf(raw).buffer), Number));
}

// The value of an attribute in ONNX's JSON, where int64 and numbers that are not finite are strings.
function readAttribute({type, i, f, s, t, ints = [], floats = []}) {
  return {INT: () => Number(i), FLOAT: () => Number(f), STRING: () => atob(s), TENSOR: () => readTensor(t), INTS: () => ints.map(Number), FLOATS: () => floats.map(Number)}[type]();
}

// A graph of ONNX's JSON -> {inputs: {name: shape}, outputs: [name], nodes: [[operation, inputs, outputs, attributes]], constants}
function readGraph({input, output, initializer = [], node}) {
  const sizes = ({type: {tensor_type: {shape: {dim = []} = {}}}}) => dim.map(({dim_value: size = 0}) => Number(size));
  return {
    inputs: Object.fromEntries(input.map(one => [one.name, sizes(one)])),
    outputs: output.map(one => one.name),
    nodes: node.map(({op_type: operation, input: inputs = [], output: outputs, attribute = []}) =>
      [operation, inputs, outputs, Object.fromEntries(attribute.map(one => [one.name, readAttribute(one)]))]),
    constants: Object.fromEntries(initializer.map(one => [one.name, readTensor(one)])),
  };
}

function readGraphs(graphs) { for (const name of Object.keys(graphs)) graphs[name] = readGraph(graphs[name]); }

class Graph {
  // spec: as `readGraph` returns it; weights: Map name -> tensor
  constructor(spec, weights) {
    const places = new Map();
    const place = name => {  // of a tensor in `values`
      if (!places.has(name)) places.set(name, places.size);
      return places.get(name);
    };
    this.values = [undefined];  // of the name "", an input that is left out
    place("");
    for (const [name, value] of Object.entries(spec.constants)) this.values[place(name)] = value;
    for (const [name, weight] of weights) this.values[place(name)] = weight;
    this.inputs = Object.keys(spec.inputs).map(name => [name, place(name)]);
    this.known = new Set(this.values.keys());
    this.places = places;
    this.nodes = spec.nodes.map(([operation, inputs, outputs, attributes]) =>
      ({operation, compute: OPERATIONS[operation], inputs: inputs.map(place), outputs: outputs.map(place), attributes}));
    this.outputs = spec.outputs.map(name => [name, place(name)]);
    this.makers = new Map(this.nodes.flatMap(node => node.outputs.map(made => [made, node])));
    this.weightNames = new Map(Array.from(weights.keys(), name => [place(name), name]));
    Object.assign(this, this.bind({}));
  }

  apply({compute, inputs, outputs, attributes}, values) {
    const made = compute(inputs.map(place => values[place]), attributes);
    if (Array.isArray(made)) made.forEach((one, k) => { values[outputs[k]] = one; });
    else values[outputs[0]] = made;
  }

  // This graph with some inputs given: what depends on them alone is computed here, once for many calls of `run`.
  bind(inputs) {
    const bound = Object.create(this), given = this.inputs.filter(([name]) => name in inputs), known = new Set(this.known);
    bound.values = this.values.slice();
    for (const [name, place] of given) {
      bound.values[place] = inputs[name];
      known.add(place);
    }
    bound.inputs = this.inputs.filter(([name]) => !(name in inputs));
    bound.nodes = this.nodes.filter(node => {
      if (!node.inputs.every(place => known.has(place))) return true;
      this.apply(node, bound.values);
      node.outputs.forEach(place => known.add(place));
      return false;
    });
    bound.known = known;
    return bound;
  }

  // The values of all tensors, by their place.
  trace(inputs) {
    const values = this.values.slice(), shared = new Map();
    for (const [name, place] of this.inputs) values[place] = inputs[name];
    for (const node of this.nodes) {
      this.apply(node, values);
      if (node.last) this.release(node, values, shared);
    }
    return values;
  }

  // From now on the memory of results that no later node reads is used again. The shapes must be the same in every call.
  recycle() {
    const seen = new Set(this.outputs.map(([, place]) => place));
    for (const node of this.nodes.toReversed()) {
      node.last = [...new Set([...node.inputs, ...node.outputs])].filter(place => !seen.has(place));
      node.last.forEach(place => seen.add(place));
    }
    return this;
  }

  // shared: of a node's array, as tensors may share one, how many are still to be read.
  release({inputs, outputs, last}, values, shared) {
    const buffer = place => values[place] && values[place].data.buffer, given = inputs.map(buffer);
    for (const made of outputs.map(buffer)) if (shared.has(made) || !given.includes(made)) shared.set(made, (shared.get(made) || 0) + 1);
    for (const gone of last.map(buffer).filter(one => shared.has(one))) {
      const left = shared.get(gone) - 1, length = gone.byteLength / 8;
      if (left) shared.set(gone, left);
      else {
        shared.delete(gone);
        if (!unread.has(length)) unread.set(length, []);
        unread.get(length).push(new Float64Array(gone));
      }
    }
  }

  run(inputs) {
    const values = this.trace(inputs);
    return Object.fromEntries(this.outputs.map(([name, place]) => [name, values[place]]));
  }
}

function decodeBase64(text) {
  return Float64Array.from(new Float32Array(bytesOf(text).buffer));
}

class Model {
  constructor(spec, numbers = decodeBase64(spec.snapshots.at(-1).weights)) {
    this.spec = spec;
    const weights = new Map();
    let start = 0;
    for (const [name, shape] of spec.weights) {
      weights.set(name, tensor("float", shape, numbers.subarray(start, start += product(shape))));
    }
    this.graphs = Object.fromEntries(Object.entries(spec.graphs).map(([name, graph]) => [name, new Graph(graph, weights)]));
  }
}

// Decodes with a model, and keeps what the next call may need again.
class Session {
  constructor(model) {
    this.model = model;
    this.spec = model.spec;
    this.read = {};
    this.steps = [];
    this.encoded = null;
  }

  // Everything that a source of these ids, padded, gives to each step: {memory, state}. The same source again costs nothing.
  encode(ids, padding) {
    const key = `${ids.join()}+${padding}`;
    if (this.encoded && this.encoded.key === key) return this.encoded;
    const tokens = [...ids, ...new Array(padding).fill(this.spec.pad)], width = tokens.length;
    const inputs = {
      source: tensor("int", [1, width], Float64Array.from(tokens)),
      valid: tensor("bool", [1, width], Float64Array.from(tokens, (_, j) => Number(j < ids.length))),
    };
    if (this.spec.layers.length) this.readSource(tokens, ids.length, inputs);
    const prepared = this.model.graphs.prepare.run(inputs), memory = {}, first = {};
    for (const [name, value] of Object.entries(prepared)) (name.startsWith("memory.") ? memory : first)[name] = value;
    this.encoded = {key, width, length: ids.length, first, graph: this.model.graphs.step.bind(memory), prepared: () => this.model.graphs.prepare.trace(inputs)};
    this.steps = [];
    this.graphs = new Map();
    return this.encoded;
  }

  // Recurrent layers, token by token: adds `states` and `final.*` to the inputs of `prepare`.
  readSource(tokens, length, inputs) {
    const finals = [];
    let below = tokens, last = null;
    for (const directions of this.spec.layers) {
      const outputs = [];
      for (const name of directions) {
        const positions = [...tokens.keys()];
        if (name.endsWith("backward")) positions.splice(0, length, ...positions.slice(0, length).reverse());
        const steps = this.readLine(name, positions.map(j => below[j]));
        outputs.push(Object.fromEntries(positions.map((j, k) => [j, steps[k].output])));
        last = steps[length - 1].state;
      }
      finals.push(...Object.values(last));
      below = tokens.map((_, j) => outputs.length === 1 ? outputs[0][j] : concat(outputs.map(one => one[j]), {axis: 1}));
    }
    const states = concat(below, {axis: 0});
    inputs.states = tensor("float", [1, ...states.shape], states.data);
    finals.forEach((state, k) => { inputs[`final.${k}`] = state; });
  }

  // A cell along its inputs, token ids or tensors. What it has read before is not read again, as far as it is the same.
  readLine(name, inputs) {
    const graph = this.model.graphs[name], before = this.read[name] || [], steps = [];
    let state = zeros(this.spec.graphs[name]);
    inputs.forEach((input, k) => {
      const same = before[k] && before[k].input === input && (k === 0 || before[k - 1] === steps[k - 1]);
      if (same) steps.push(before[k]);
      else {
        const token = typeof input === "number" ? tensor("int", [1], Float64Array.of(input)) : input;
        const result = graph.run({input: token, first: tensor("bool", [], Float64Array.of(k === 0)), ...state});
        steps.push({input, output: result.output, state: next(state, result)});
      }
      ({state} = steps[k]);
    });
    this.read[name] = steps;
    return steps;
  }

  // The output for source ids, changed: {force: Map "t,j" -> weight, ban: Set "t,j" or "j", write: Map t -> id, temperature,
  // padding, mask}. A step is {token, logits, weights, ...}; steps that are as in the last call are not computed again.
  decode(ids, changes, bound) {
    const encoded = this.encode(ids, changes.padding), before = this.steps, steps = [];
    let token = this.spec.sos, state = encoded.first, fresh = false;
    for (let t = 0; t < bound; t++) {
      const change = this.changeKey(t, encoded.width, changes);
      fresh = fresh || !before[t] || before[t].token !== token || before[t].change !== change;
      const step = fresh ? this.step(t, token, state, change, changes) : before[t];
      step.written = changes.write.has(t) ? changes.write.get(t) : step.likeliest;
      steps.push(step);
      ({written: token, state} = step);
      if (token === this.spec.eos) break;
    }
    this.steps = steps;
    return {steps, width: encoded.width, finished: token === this.spec.eos};
  }

  // What is changed at step t, as text: steps with the same changes share a graph.
  changeKey(t, width, {temperature, mask, ban, force}) {
    const cells = [];
    if (ban.size || force.size) {
      for (let j = 0; j < width; j++) {
        cells.push((ban.has(`${j}`) || ban.has(`${t},${j}`) ? "banned " : "") + (force.has(`${t},${j}`) ? force.get(`${t},${j}`) : ""));
      }
    }
    return [temperature, mask, cells].join(";");
  }

  // The graph of step t with its changes; it ignores those that it has no input for, such as weights that cannot be set.
  changedGraph(t, changes) {
    const {width, length, graph} = this.encoded, row = (type, value) => {
      const one = tensor(type, [1, 1, width]);
      for (let j = 0; j < width; j++) one.data[j] = value(j);
      return one;
    };
    const masked = changes.mask === null ? this.spec.mask_padding : changes.mask;
    return graph.bind({
      "change.banned": row("bool", j => changes.ban.has(`${j}`) || changes.ban.has(`${t},${j}`)),
      "change.forced": row("bool", j => changes.force.has(`${t},${j}`)),
      "change.weights": row("float", j => changes.force.get(`${t},${j}`) || 0),
      "change.temperature": tensor("float", [1, 1, 1], Float64Array.of(changes.temperature)),
      "change.valid": row("bool", j => !masked || j < length),
    });
  }

  step(t, token, state, change, changes) {
    if (!this.graphs.has(change)) this.graphs.set(change, this.changedGraph(t, changes));
    const graph = this.graphs.get(change), inputs = {...state, token: tensor("int", [1], Float64Array.of(token))}, result = graph.run(inputs);
    const {choices: {data}} = result;  // the logits of what may be written
    let likeliest = 0;
    for (let id = 1; id < data.length; id++) if (data[id] > data[likeliest]) likeliest = id;
    return {...result, token, change, likeliest, state: next(state, result), trace: () => graph.trace(inputs)};
  }
}

// In place of the state before the first token, for which a graph has its own.
const zeros = ({inputs}) => Object.fromEntries(Object.entries(inputs).filter(([name]) => name.startsWith("state.")).map(([name, shape]) => [name, tensor("float", shape)]));

// The state after a call: for each `state.*` its `state.*.next`.
const next = (state, result) => Object.fromEntries(
  Object.keys(state).filter(name => name.startsWith("state.")).map(name => [name, result[`${name}.next`] || state[name]]));
