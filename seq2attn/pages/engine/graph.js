// Graphs of operations in JSON, as seq2attn/pages/graphs.py describes them, and how they are run.

const ARRAYS = {
  float32: Float32Array,
  float64: Float64Array,
  int8: Int8Array,
  int16: Int16Array,
  int32: Int32Array
};

function decode(text, width = "float32") {
  return Float64Array.from(new ARRAYS[width](bytesOf(text).buffer));
}

class Graph {
  // weights: Map name -> tensor
  constructor(spec, weights) {
    this.spec = spec;
    this.places = new Map(); // name -> place in `values`
    this.values = [];
    this.inputs = Object.keys(spec.inputs).map(name => [
      name,
      this.place(name)
    ]);
    for (const name of spec.weights)
      this.values[this.place(name)] = weights.get(name);
    for (const [name, constant] of Object.entries(spec.constants)) {
      const [type, shape, width, text] = constant;
      this.values[this.place(name)] = tensor(type, shape, decode(text, width));
    }
    this.known = new Set(this.values.keys());
    for (const [name] of this.inputs) this.known.delete(this.places.get(name));
    this.nodes = spec.nodes.map(node => this.read(node));
    this.outputs = Object.entries(spec.outputs).map(([name, value]) => [
      name,
      this.placeOf(value)
    ]);
    this.makers = new Map(this.nodes.map(node => [node.place, node]));
    this.weightNames = new Map(
      spec.weights.map(name => [this.places.get(name), name])
    );
    Object.assign(this, this.bind({}));
  }

  place(name) {
    if (!this.places.has(name)) this.places.set(name, this.places.size);
    return this.places.get(name);
  }

  // The place of a value such as "%add"; undefined for other arguments.
  placeOf(value) {
    return typeof value === "string" && value[0] === "%"
      ? this.places.get(value.slice(1))
      : undefined;
  }

  read([name, operation, ...args]) {
    const compute = OPERATIONS[operation];
    if (!compute) throw new Error(`the operation ${operation} is missing`);
    const inputs = args
      .flat(Infinity)
      .map(one => this.placeOf(one))
      .filter(place => place !== undefined);
    const readers = args.map(value => this.reader(value));
    return {operation, compute, args, inputs, readers, place: this.place(name)};
  }

  // An argument as a function of the values.
  reader(value) {
    const place = this.placeOf(value);
    if (place !== undefined) return values => values[place];
    if (Array.isArray(value)) {
      const parts = value.map(one => this.reader(one));
      return values => parts.map(read => read(values));
    }
    const constant = value?.number
      ? Number(value.number.replace("inf", "Infinity"))
      : (value ?? undefined);
    return () => constant;
  }

  // The place of an input or an output.
  at(name) {
    const [, place] =
      [...this.inputs, ...this.outputs].find(([own]) => own === name) ?? [];
    return place;
  }

  apply({compute, readers, place}, values) {
    values[place] = compute(...readers.map(read => read(values)));
  }

  // This graph with some inputs given: what depends on them alone is computed here, once for many calls of `run`.
  bind(inputs, isGiven = () => true) {
    const bound = Object.create(this);
    const known = new Set(this.known);
    bound.values = this.values.slice();
    for (const [name, place] of this.inputs) {
      if (!(name in inputs && isGiven(name))) continue;
      bound.values[place] = inputs[name];
      known.add(place);
    }
    bound.nodes = this.nodes.filter(node => {
      if (!node.inputs.every(place => known.has(place))) return true;
      this.apply(node, bound.values);
      known.add(node.place);
      return false;
    });
    bound.known = known;
    return bound;
  }

  // The values of all tensors, by their place.
  trace(inputs) {
    const values = this.values.slice();
    for (const [name, place] of this.inputs)
      if (name in inputs) values[place] = inputs[name];
    for (const node of this.nodes) {
      this.apply(node, values);
      for (const place of node.last ?? []) reuse(values[place]);
    }
    return values;
  }

  run(inputs) {
    const values = this.trace(inputs);
    return Object.fromEntries(
      this.outputs.map(([name, place]) => [name, values[place]])
    );
  }

  // From now on, arrays that no later node reads are used again. The shapes must be the same in every call.
  recycle(inputs) {
    const values = this.trace(inputs);
    const kept = [
      ...this.values,
      ...this.inputs.map(([, place]) => values[place]),
      ...this.outputs.map(([, place]) => values[place])
    ];
    const seen = new Set(kept.map(value => value?.data));
    for (const node of this.nodes.toReversed()) {
      node.last = [];
      for (const place of [node.place, ...node.inputs]) {
        const {data} = values[place];
        if (!data || seen.has(data)) continue;
        seen.add(data);
        node.last.push(place);
      }
    }
    return this;
  }
}

function reuse({data}) {
  if (!unread.has(data.length)) unread.set(data.length, []);
  unread.get(data.length).push(data);
}
