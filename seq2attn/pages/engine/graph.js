// Graphs of operations in JSON, as seq2attn/pages/graphs.py describes them, and how they are run.

const ARRAYS = {
  float32: Float32Array,
  float64: Float64Array,
  int8: Int8Array,
  int16: Int16Array,
  int32: Int32Array
}

function decode(text, width = "float32") {
  return new Float64Array(new ARRAYS[width](bytesOf(text).buffer))
}

const isKnown = value => value !== undefined

class Graph {
  // spec: as graphs.py describes it, with nodes such as ["add_2", "add", "%x", 1]; weights: Map
  // name -> tensor.
  //
  // Each input, weight, constant and result of a node has a slot, an index in the array `values`,
  // so that a run looks no names up. Nodes stand after those that they read.
  constructor(spec, weights) {
    this.spec = spec
    this.slots = new Map() // name -> slot in `values`
    this.values = [] // those that are known before a run
    this.inputs = Object.keys(spec.inputs).map(name => [
      name,
      this.slotNamed(name)
    ])
    this.weightNames = new Map(
      spec.weights.map(name => [this.slotNamed(name), name])
    )
    for (const [slot, name] of this.weightNames)
      this.values[slot] = weights.get(name)
    for (const [name, constant] of Object.entries(spec.constants)) {
      const [type, shape, ...numbers] = constant
      this.values[this.slotNamed(name)] = tensor(
        type,
        shape,
        decode(...numbers)
      )
    }
    this.nodes = spec.nodes.map(node => this.read(node))
    this.makers = new Map(this.nodes.map(node => [node.slot, node]))
    this.outputs = Object.entries(spec.outputs).map(([name, value]) => [
      name,
      this.slotOf(value)
    ])
    // nodes that need no input are computed now, once: their results join `values`, and `nodes` are
    // the others
    Object.assign(this, this.bind({}))
  }

  // The slot of this name; a new name gets the next one.
  slotNamed(name) {
    if (!this.slots.has(name)) this.slots.set(name, this.slots.size)
    return this.slots.get(name)
  }

  // The slot of an argument such as "%add"; undefined for other arguments.
  slotOf(value) {
    const isReference = typeof value === "string" && value.startsWith("%")
    return isReference ? this.slots.get(value.slice(1)) : undefined
  }

  // The slot of an input, or else of an output.
  at(name) {
    return new Map([...this.outputs, ...this.inputs]).get(name)
  }

  // A node of the JSON, ready to be run: `compute` is its operation as a function, `readers` return
  // its arguments, `inputs` are the slots that these read, and `slot` is where its result goes.
  read([name, operation, ...args]) {
    const compute = OPERATIONS[operation]
    if (!compute) throw new Error(`the operation ${operation} is missing`)
    const slots = args.flat().map(value => this.slotOf(value))
    return {
      operation,
      compute,
      args,
      inputs: slots.filter(isKnown),
      readers: args.map(value => this.reader(value)),
      slot: this.slotNamed(name)
    }
  }

  // A function from the values of a run to an argument of a node: one of the values for "%add", a
  // list of arguments, or always the same number or word. null becomes undefined, so that a
  // function of JavaScript takes its default.
  reader(value) {
    const slot = this.slotOf(value)
    if (isKnown(slot)) return values => values[slot]
    if (Array.isArray(value)) {
      const parts = value.map(one => this.reader(one))
      return values => parts.map(read => read(values))
    }
    const constant = value?.number
      ? Number(value.number)
      : (value ?? undefined)
    return () => constant
  }

  // Computes a node, and stores its result among the values of the run.
  apply({compute, readers, slot}, values) {
    values[slot] = compute(...readers.map(read => read(values)))
  }

  // A copy of this graph with some inputs given, such as the memory of all steps of a decoding: its
  // `run` takes the other inputs only. Nodes that need no others are computed here, once for all
  // runs, and the copy no longer has them.
  bind(inputs) {
    const bound = Object.create(this)
    bound.values = this.trace(inputs, [])
    bound.nodes = this.nodes.filter(node => {
      if (!node.inputs.every(slot => isKnown(bound.values[slot]))) return true
      this.apply(node, bound.values)
      return false
    })
    return bound
  }

  // Runs the nodes, and returns all values by their slot. After a node, the arrays that no later
  // one reads may be used again: `last`, which `recycle` sets.
  trace(inputs, nodes = this.nodes) {
    const values = this.values.slice()
    for (const [name, slot] of this.inputs)
      if (name in inputs) values[slot] = inputs[name]
    for (const node of nodes) {
      this.apply(node, values)
      for (const slot of node.last ?? []) reuse(values[slot])
    }
    return values
  }

  // Runs the graph: {name of an input: tensor} -> {name of an output: tensor}.
  run(inputs) {
    const values = this.trace(inputs)
    return Object.fromEntries(
      this.outputs.map(([name, slot]) => [name, values[slot]])
    )
  }

  // Saves memory for training, which runs one graph with the same shapes again and again: from now
  // on, an array is used for another tensor after the node that is the last one to make or read it.
  // Tensors may share an array, so that a run on these inputs has to show which do. Going back from
  // the end, the first node at which an array is met (`isNew`) is its last: its slot joins `last`
  // of that node. Results, inputs, weights and constants count as met before: they are kept.
  recycle(inputs) {
    for (const node of this.nodes) node.last = []
    const values = this.trace(inputs)
    const kept = [...this.inputs, ...this.outputs].map(
      ([, slot]) => values[slot]
    )
    const seen = new Set([...this.values, ...kept].map(value => value?.data))
    const isLast = slot => {
      const {data} = values[slot]
      const isNew = !seen.has(data)
      seen.add(data)
      return isNew
    }
    for (const node of this.nodes.toReversed()) {
      node.last = [node.slot, ...node.inputs].filter(isLast)
    }
  }
}

// Lets `memory` return the array of a tensor again.
function reuse({data}) {
  if (!unread.has(data.length)) unread.set(data.length, [])
  unread.get(data.length).push(data)
}
