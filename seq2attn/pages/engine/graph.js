// Graphs of operations in JSON, as seq2attn/pages/graphs.py describes them, and how they are run.

const ARRAYS = {
  float32: Float32Array,
  float64: Float64Array,
  int8: Int8Array,
  int16: Int16Array,
  int32: Int32Array
}

function decode(text, width = "float32") {
  return Float64Array.from(new ARRAYS[width](bytesOf(text).buffer))
}

const isKnown = value => value !== undefined

class Graph {
  // spec: as graphs.py describes it; weights: Map name -> tensor.
  //
  // Each input, weight, constant and result of a node has a place in the array `values`, so that a
  // run looks no names up.
  constructor(spec, weights) {
    this.spec = spec
    this.places = new Map() // name -> place in `values`
    this.values = [] // those that are known before a run
    this.inputs = Object.keys(spec.inputs).map(name => [
      name,
      this.placeNamed(name)
    ])
    this.weightNames = new Map(
      spec.weights.map(name => [this.placeNamed(name), name])
    )
    for (const [place, name] of this.weightNames)
      this.values[place] = weights.get(name)
    for (const [name, [type, shape, ...numbers]] of Object.entries(
      spec.constants
    )) {
      this.values[this.placeNamed(name)] = tensor(
        type,
        shape,
        decode(...numbers)
      )
    }
    this.nodes = spec.nodes.map(node => this.read(node))
    this.makers = new Map(this.nodes.map(node => [node.place, node]))
    this.outputs = Object.entries(spec.outputs).map(([name, value]) => [
      name,
      this.placeOf(value)
    ])
    // nodes that need no input are computed now, once: their results join `values`
    Object.assign(this, this.bind({}))
  }

  // The place of this name; a new name gets the next one.
  placeNamed(name) {
    if (!this.places.has(name)) this.places.set(name, this.places.size)
    return this.places.get(name)
  }

  // The place of an argument such as "%add"; undefined for other arguments.
  placeOf(value) {
    const isReference = typeof value === "string" && value.startsWith("%")
    return isReference ? this.places.get(value.slice(1)) : undefined
  }

  // The place of an input, or else of an output.
  at(name) {
    return new Map([...this.outputs, ...this.inputs]).get(name)
  }

  // A node of the JSON, ready to be run: `readers` return its arguments, `inputs` are the places
  // that these read, and `place` is where its result goes.
  read([name, operation, ...args]) {
    const compute = OPERATIONS[operation]
    if (!compute) throw new Error(`the operation ${operation} is missing`)
    const places = args.flat().map(value => this.placeOf(value))
    const readers = args.map(value => this.reader(value))
    return {
      operation,
      compute,
      args,
      inputs: places.filter(isKnown),
      readers,
      place: this.placeNamed(name)
    }
  }

  // A function that takes the values of a run and returns an argument of a node: one of the values,
  // a list of arguments, or always the same number or word.
  reader(value) {
    const place = this.placeOf(value)
    if (isKnown(place)) return values => values[place]
    if (Array.isArray(value)) {
      const parts = value.map(one => this.reader(one))
      return values => parts.map(read => read(values))
    }
    const constant = value?.number
      ? Number(value.number)
      : (value ?? undefined)
    return () => constant
  }

  apply({compute, readers, place}, values) {
    values[place] = compute(...readers.map(read => read(values)))
  }

  // A copy of this graph with some inputs given, which each call of `run` then leaves out. Nodes
  // that read nothing else are computed here, once for all these calls, and are not among its own.
  bind(inputs) {
    const bound = Object.create(this)
    bound.values = this.trace(inputs, [])
    bound.nodes = this.nodes.filter(node => {
      if (!node.inputs.every(place => isKnown(bound.values[place])))
        return true
      this.apply(node, bound.values)
      return false
    })
    return bound
  }

  // Runs the nodes, and returns the values of all tensors by their place. `last`: see `recycle`.
  trace(inputs, nodes = this.nodes) {
    const values = this.values.slice()
    for (const [name, place] of this.inputs)
      if (name in inputs) values[place] = inputs[name]
    for (const node of nodes) {
      this.apply(node, values)
      for (const place of node.last ?? []) reuse(values[place])
    }
    return values
  }

  run(inputs) {
    const values = this.trace(inputs)
    return Object.fromEntries(
      this.outputs.map(([name, place]) => [name, values[place]])
    )
  }

  // Saves memory for training, which runs one graph with the same shapes again and again: from now
  // on, an array is used again after the node that is the last one to read it. Of each array, that
  // is the first node from the end that makes or reads it. Results, inputs, weights and constants
  // are kept. `last` of a node: the places whose arrays are free after it.
  recycle(inputs) {
    for (const node of this.nodes) node.last = []
    const values = this.trace(inputs)
    const kept = [...this.inputs, ...this.outputs].map(
      ([, place]) => values[place]
    )
    const seen = new Set([...this.values, ...kept].map(value => value?.data))
    const isLast = place => {
      const {data} = values[place]
      const isNew = !seen.has(data)
      seen.add(data)
      return isNew
    }
    for (const node of this.nodes.toReversed()) {
      node.last = [node.place, ...node.inputs].filter(isLast)
    }
  }
}

// Lets `memory` return the array of a tensor again.
function reuse({data}) {
  if (!unread.has(data.length)) unread.set(data.length, [])
  unread.get(data.length).push(data)
}
