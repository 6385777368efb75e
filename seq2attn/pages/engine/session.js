// A model, and the loops around its graphs that the manifest describes. It knows no mechanism.

class Model {
  // spec: a model of the page's data. numbers: those of all its weights, one after the other, in
  // one array, of which each weight is a part; by default those at the end of its training.
  constructor(spec, numbers = decode(spec.snapshots.at(-1).weights)) {
    this.spec = spec
    const weights = new Map()
    let start = 0
    for (const [name, shape] of spec.weights) {
      const end = start + product(shape)
      weights.set(name, tensor("float", shape, numbers.subarray(start, end)))
      start = end
    }
    this.graphs = mapValues(spec.graphs, graph => new Graph(graph, weights))
  }
}

const integers = ids => tensorOf("int", [1, ids.length], j => ids[j])

// The values whose names begin with `start`, such as all states of `state.`.
function picked(values, start) {
  return Object.fromEntries(
    Object.entries(values).filter(([name]) => name.startsWith(start))
  )
}

// What a person can change in a decoding, before anything is.
const unchanged = () => ({
  temperature: 1,
  padding: 0,
  beside: false,
  mask: null,
  force: new Map(),
  ban: new Set(),
  forget: new Set(),
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

  // Reads a source, with so much padding, into `this.encoded`: `first`, the first state of the
  // decoder, `graph`, that of a decoding step with the memory (what the encoder made of the source)
  // already in it, the padded tokens, and sizes. The same source again costs nothing; with another
  // one, the steps and the changed graphs that were kept are of no more use. `again` runs `prepare`
  // once more for explanations, which need the values of all its nodes.
  encode(ids, padding) {
    const key = `${ids.join()}+${padding}`
    if (this.encoded?.key === key) return
    const {length} = ids
    const tokens = [...ids, ...new Array(padding).fill(this.spec.pad)]
    const width = tokens.length
    const inputs = {
      source: integers(tokens),
      valid: tensorOf("bool", [1, width], j => j < length)
    }
    if (this.spec.layers.length)
      Object.assign(inputs, this.readSource(tokens, length))
    const {prepare, step} = this.model.graphs
    const prepared = prepare.run(inputs)
    this.encoded = {
      key,
      tokens,
      width,
      length,
      first: picked(prepared, "state."),
      graph: step.bind(picked(prepared, "memory.")),
      again: () => prepare.trace(inputs)
    }
    this.steps = []
    this.graphs = new Map() // what is changed, as text -> the graph of a step
  }

  // Runs the layers of a recurrent encoder, each of one direction or two: `spec.layers` has a list
  // of the names of their graphs for each layer. The lowest reads the ids, each other the outputs
  // of the one below, those of both directions side by side. Returns what the graph `prepare`
  // takes: `states`, the outputs (1, S, H) of the highest, and `final.0`, `final.1` and so on, the
  // last states of each layer; of two directions, those of the backward one.
  readSource(tokens, length) {
    let below = tokens.map(id => filled([1], id, "int"))
    const finals = []
    for (const names of this.spec.layers) {
      const lines = names.map(name => this.readLine(name, below, length))
      const outputsAt = j => lines.map(({outputs}) => outputs[j])
      below = tokens.map((_, j) => cat(outputsAt(j), 1))
      finals.push(...Object.values(lines.at(-1).last))
    }
    return {
      states: unsqueeze(cat(below, 0), 0),
      ...Object.fromEntries(finals.map((state, k) => [`final.${k}`, state]))
    }
  }

  // Runs the cell of one layer and direction, the graph of this name, along its inputs: `length`
  // tokens, then padding. A backward one reads the tokens in reverse, and the padding after them,
  // so that padding changes no state of a token. Returns the outputs by position, and the state
  // after the last token that is read. In the first run, `first` tells the graph to begin with a
  // state of its own; the zeros only have the right shape.
  readLine(name, inputs, length) {
    const graph = this.model.graphs[name]
    const order = [...inputs.keys()]
    if (name.endsWith("backward"))
      order.splice(0, length, ...order.slice(0, length).reverse())
    const states = picked(graph.spec.inputs, "state.")
    const outputs = []
    let state = mapValues(states, shape => filled(shape, 0))
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

  // Decodes source ids, with what a person has changed: {force: Map "t,j" -> weight of step t at
  // position j, ban: Set of "t,j", or of "j" for all steps, forget: Set of "j", write: Map t -> id,
  // temperature, padding, mask}. bound: the most steps.
  //
  // Returns {steps: [{token: the id that a step reads, written: the id that it writes, logits,
  // weights, ...}], width: the positions with padding, encoded: as `encode` keeps it, finished:
  // whether it ended with <eos>}. Most calls come after one more change by hand: steps before the
  // first one that it concerns (`isNew`) are kept from the last call. A step's likeliest id is
  // written, unless `write` has another.
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
    return {
      steps,
      width,
      encoded: this.encoded,
      finished: token === eos
    }
  }

  // What is changed of the attention of step t, as text: the temperature, the mask, what is
  // forgotten and, if anything is banned or forced, whether each position is and to which weight.
  // Steps with the same text share a graph.
  changeKey(t, {temperature, mask, ban, force, forget}) {
    const cells = []
    for (let j = 0; j < (ban.size + force.size && this.encoded.width); j++) {
      cells.push(isIn(ban, t, j), force.get(`${t},${j}`))
    }
    return [temperature, mask, ...forget, ...cells].join(";")
  }

  // The graph of step t with its changes, as tensors (1, 1, S), among its inputs. Those that it has
  // no input for are ignored: the weights of a model without attention, for example.
  changedGraph(t, {ban, force, mask, temperature}) {
    const {width, length, graph} = this.encoded
    const isMasked = mask ?? this.spec.mask_padding
    const shape = [1, 1, width]
    return graph.bind({
      "change.banned": tensorOf("bool", shape, j => isIn(ban, t, j)),
      "change.forced": tensorOf("bool", shape, j => force.has(`${t},${j}`)),
      "change.weights": tensorOf(
        "float",
        shape,
        j => force.get(`${t},${j}`) ?? 0
      ),
      "change.temperature": filled([1, 1, 1], temperature),
      "change.valid": tensorOf("bool", shape, j => !isMasked || j < length)
    })
  }

  // Computes step t, which reads `token` in `state`. key: its `changeKey`, by which its graph is
  // kept. Returns the results of the graph, and more: `state` of the next step, `likeliest`, the id
  // that it writes by itself (`choices` are the logits of what may be written), and `trace`, for
  // explanations.
  step(t, token, state, key, changes) {
    const {forget} = changes
    if (!this.graphs.has(key))
      this.graphs.set(key, this.changedGraph(t, changes))
    const graph = this.graphs.get(key)
    const inputs = {...state, token: filled([1], token, "int")}
    const past = state["state.past"]
    if (past && forget.size)
      inputs["state.past"] = withoutForgotten(past, forget)
    const result = graph.run(inputs)
    return {
      // without the rest of the arrays that views show
      ...mapValues(result, x => tensor(x.type, x.shape, numbersOf(x))),
      token,
      key,
      likeliest: peak(numbersOf(result.choices)),
      state: picked(result, "state."),
      trace: () => graph.trace(inputs)
    }
  }
}

// Whether a position is banned at a step, or at all.
const isIn = (ban, t, j) => ban.has(`${j}`) || ban.has(`${t},${j}`)

// What a history keeps of past weights, (1, C, S), with 0 at each position that is to be forgotten.
function withoutForgotten(past, forget) {
  const numbers = numbersOf(past)
  const width = past.shape.at(-1)
  return tensorOf("float", past.shape, k =>
    forget.has(`${k % width}`) ? 0 : numbers[k]
  )
}

// The softmax of an array: exp(x) / sum of exp(x). The largest number is subtracted first, which
// changes no share: its exponential could be infinite.
function probabilities(logits) {
  const largest = Math.max(...logits)
  const powers = logits.map(logit => Math.exp(logit - largest))
  const sum = total(powers)
  return powers.map(power => power / sum)
}
