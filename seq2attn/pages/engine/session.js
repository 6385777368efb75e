// A model, and the loops around its graphs that the manifest describes. It knows no mechanism.

class Model {
  // spec: a model of the page's data. numbers: its weights, one after the other, by default the
  // last that it was trained to.
  constructor(spec, numbers = decode(spec.snapshots.at(-1).weights)) {
    this.spec = spec
    const weights = new Map()
    let start = 0
    for (const [name, shape] of spec.weights) {
      const end = start + product(shape)
      weights.set(name, tensor("float", shape, numbers.subarray(start, end)))
      start = end
    }
    this.graphs = made(spec.graphs, graph => new Graph(graph, weights))
  }
}

const integers = ids => row("int", [1, ids.length], j => ids[j])

// The values whose names begin with `start`, such as all states of `state.`.
function picked(values, start) {
  const named = Object.entries(values).filter(([name]) =>
    name.startsWith(start)
  )
  return Object.fromEntries(named)
}

// What a person can change in a decoding, before anything is.
const unchanged = () => ({
  temperature: 1,
  padding: 0,
  beside: false,
  mask: null,
  force: new Map(),
  ban: new Set(),
  write: new Map()
})

// Decodes with a model, and keeps what the next call may need again.
class Session {
  constructor(model) {
    this.model = model
    this.spec = model.spec
    this.steps = []
    this.encoded = null
  }

  // Reads a source, padded, into `this.encoded`: the first state of the decoder, and the graph of a
  // step with the memory already in it. The same source again costs nothing; another one makes all
  // steps and changed graphs that were kept useless. `again`: for explanations, which need every
  // value.
  encode(ids, padding) {
    const key = `${ids.join()}+${padding}`
    if (this.encoded?.key === key) return
    const {length} = ids
    const tokens = [...ids, ...new Array(padding).fill(this.spec.pad)]
    const width = tokens.length
    const inputs = {
      source: integers(tokens),
      valid: row("bool", [1, width], j => j < length)
    }
    if (this.spec.layers.length)
      Object.assign(inputs, this.readSource(tokens, length))
    const {prepare, step} = this.model.graphs
    const prepared = prepare.run(inputs)
    const graph = step.bind(picked(prepared, "memory."))
    const first = picked(prepared, "state.")
    this.encoded = {
      key,
      width,
      length,
      first,
      graph,
      again: () => prepare.trace(inputs)
    }
    this.steps = []
    this.graphs = new Map() // what is changed, as text -> the graph of a step
  }

  // Runs the layers of a recurrent encoder, each of one direction or two. The lowest reads the ids,
  // each other the outputs of the one below, of both directions side by side. Returns what
  // `prepare` takes: `states`, the outputs of the highest, and `final.*`, the last state of each
  // layer; of two directions, that of the backward one.
  readSource(tokens, length) {
    let below = tokens.map(id => filled([1], id, "int"))
    const finals = []
    for (const names of this.spec.layers) {
      const lines = names.map(name => this.readLine(name, below, length))
      below = tokens.map((_, j) =>
        cat(
          lines.map(({outputs}) => outputs[j]),
          1
        )
      )
      finals.push(...Object.values(lines.at(-1).last))
    }
    const named = finals.map((state, k) => [`final.${k}`, state])
    return {
      states: unsqueeze(cat(below, 0), 0),
      ...Object.fromEntries(named)
    }
  }

  // Runs the cell of one layer and direction along its inputs: `length` tokens, then padding. A
  // backward one reads the tokens in reverse before the padding, so that padding changes nothing.
  // Returns its outputs by position, and its state after the last token that it reads.
  readLine(name, inputs, length) {
    const graph = this.model.graphs[name]
    const order = [...inputs.keys()]
    if (name.endsWith("backward"))
      order.splice(0, length, ...order.slice(0, length).reverse())
    const states = picked(graph.spec.inputs, "state.")
    const outputs = []
    let state = made(states, shape => filled(shape, 0)) // not read
    let last = null
    for (const [k, j] of order.entries()) {
      const first = filled([], k === 0, "bool")
      const result = graph.run({input: inputs[j], first, ...state})
      outputs[j] = result.output
      state = picked(result, "state.")
      if (k === length - 1) last = state
    }
    return {outputs, last}
  }

  // Decodes source ids, with changes as in `unchanged`: {force: Map "t,j" -> weight, ban: Set of
  // "t,j" or "j", write: Map t -> id, temperature, padding, mask}. bound: the most steps.
  //
  // Returns steps {token, written, logits, weights, ...}: what each reads, and what it writes.
  // Steps before the first one that differs from the last call are kept from there: most calls come
  // after one more change by hand.
  decode(ids, changes, bound) {
    this.encode(ids, changes.padding)
    const {first, width} = this.encoded
    const {sos, eos} = this.spec
    const before = this.steps
    const steps = []
    let [token, state, isNew] = [sos, first, false]
    for (let t = 0; t < bound && (t === 0 || token !== eos); t++) {
      const key = this.changeKey(t, changes)
      isNew ||= before[t]?.token !== token || before[t].key !== key
      const step = isNew
        ? this.step(t, token, state, key, changes)
        : before[t]
      step.written = changes.write.get(t) ?? step.likeliest
      steps.push(step)
      ;({written: token, state} = step)
    }
    this.steps = steps
    return {steps, width, finished: token === eos}
  }

  // What is changed of the attention of step t, as text: the temperature, the mask, and what is set
  // at each position. Steps with the same text share a graph.
  changeKey(t, {temperature, mask, ban, force}) {
    const cells = []
    for (let j = 0; j < (ban.size + force.size && this.encoded.width); j++) {
      cells.push(isIn(ban, t, j), force.get(`${t},${j}`))
    }
    return [temperature, mask, ...cells].join(";")
  }

  // The graph of step t with its changes; it ignores those that it has no input for, such as
  // weights that cannot be set.
  changedGraph(t, {ban, force, mask, temperature}) {
    const {width, length, graph} = this.encoded
    const isMasked = mask ?? this.spec.mask_padding
    const shape = [1, 1, width]
    return graph.bind({
      "change.banned": row("bool", shape, j => isIn(ban, t, j)),
      "change.forced": row("bool", shape, j => force.has(`${t},${j}`)),
      "change.weights": row("float", shape, j => force.get(`${t},${j}`) ?? 0),
      "change.temperature": filled([1, 1, 1], temperature),
      "change.valid": row("bool", shape, j => !isMasked || j < length)
    })
  }

  // Computes step t. key: its `changeKey`, by which its graph is kept.
  step(t, token, state, key, changes) {
    if (!this.graphs.has(key))
      this.graphs.set(key, this.changedGraph(t, changes))
    const graph = this.graphs.get(key)
    const inputs = {...state, token: filled([1], token, "int")}
    const result = graph.run(inputs)
    return {
      ...made(result, compact),
      token,
      key,
      likeliest: peak(numbersOf(result.choices)), // of what may be written
      state: picked(result, "state."),
      trace: () => graph.trace(inputs)
    }
  }
}

// Whether a position is banned at a step, or at all.
const isIn = (ban, t, j) => ban.has(`${j}`) || ban.has(`${t},${j}`)

// A copy of a tensor, a view for example, whose array holds its own numbers only, in order.
const compact = x => tensor(x.type, x.shape, numbersOf(x))

// The softmax of an array.
function probabilities(logits) {
  const largest = Math.max(...logits)
  const powers = Array.from(logits, logit => Math.exp(logit - largest))
  const total = powers.reduce((sum, power) => sum + power)
  return powers.map(power => power / total)
}
