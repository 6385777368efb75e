// What each part of a step computes, at the chosen position: {sum: a formula with its numbers, read
// off the model's own graph; why: a sentence; vectors: {name: numbers}}.

const sentences = (...parts) => parts.filter(Boolean).join(" ")
const isNamed = part =>
  Boolean(part) && part.name !== "none" && part.name !== "global"
const signOf = number => (number < 0 ? "−" : "+")

function described(part) {
  if (!isNamed(part) || !part.formula) return ""
  return `${part.name}: ${plainly(part.summary)} (${written(part.formula)}).`
}

// A chain such as "e₂ = s · h₂ = 1.2 = 1.2", without what it would say twice.
function chain(sign, {text, numbers}, value) {
  const parts = [numbers, exact(value)].filter(
    part => part && !text.endsWith(part)
  )
  return [sign, text, ...parts].join(" = ")
}

function summed(products) {
  const few = products
    .slice(0, 4)
    .map(one => `${signOf(one)} ${short(Math.abs(one))}`)
  if (products.length > 4) few.push("+ …")
  return `their products, sum ${exact(total(products))} = ${few.join(" ").replace(/^\+ /, "")}`
}

function encoding({layers, parts: {encoder}}) {
  if (!layers.length && !encoder)
    return "The encoder's positions attend to each other; a vector is left at each."
  if (!layers.length)
    return `The encoder (${encoder.name}) leaves a vector at each position.`
  const both = layers.at(-1).length > 1 ? ", from both directions," : ""
  return `The encoder reads the source and leaves a vector${both} at each position.`
}

// The last part of a step: the symbol that is written, and its probability.
function output(view, step, t) {
  const share = chancesOf(step)[step.written]
  const mixed = view.attends ? "State and context give" : "The state gives"
  const givers = view.whyFixed
    ? "Each position, by itself and as much as its weight α, gives"
    : mixed
  const written = state.write.has(t) ? "What you chose" : "The likeliest"
  return {
    sum: `p(${view.wrote(step)}) = ${share.toFixed(3)}`,
    why: `${givers} each symbol a probability. ${written} is written, and read at the next step.`
  }
}

// What a model without attention has instead.
function bottleneck(view) {
  const states = picked(view.session().encoded.first, "state.cell")
  const vector = Object.values(states).flatMap(state => [...numbersOf(state)])
  const why = `This model has no attention.
    All that the decoder ever knows of the source is this one vector, the encoder's last state.
    However long the string is, it has to fit in here: a bottleneck.`
  const sum = `${view.count} symbols → ${vector.length} numbers`
  return {
    states: {why: encoding(view.spec)},
    vector: {sum, why, vectors: {"": vector}}
  }
}

// What explains step t of a model with attention, at the chosen position j; n is its subscript. Of
// several heads one is explained, which attends most to j: `cell` is its place in an array
// (heads, S). `prepare` and `trace` read formulas off the two graphs of the model.
class AttentionParts {
  constructor(view, step, t) {
    Object.assign(this, {view, step, t, parts: view.spec.parts})
    this.j = view.position()
    this.n = sub(this.j + 1)
    this.width = view.now.width
    this.heads = step.scores.data.length / this.width
    this.head = peak(ofPosition(step.softmax.data, this.j, this.width))
    this.cell = this.head * this.width + this.j
    this.prepare()
    this.trace()
  }

  // How keys and values are made of the encoder's states, h: read off the model's own graph
  // `prepare`, so that a part that somebody has written is explained as well. Where no key is made
  // of a state, as in a Transformer, they are only named.
  prepare() {
    const {encoded, model} = this.view.session()
    const graph = model.graphs.prepare
    const name = graph.at("states") === undefined ? "memory.values" : "states"
    const values = encoded.again()
    this.prepared = new Explanation(graph, values, {
      [name]: () => formula(`h${this.n}`)
    })
    const place = graph.at(name)
    const isPart =
      name === "states" || (place && this.prepared.reads("memory.keys", name))
    this.states = isPart ? values[place] : null // that a key is made of
    this.key = this.rowOf("memory.keys", `k${this.n}`)
    this.value = this.rowOf("memory.values", `v${this.n}`)
  }

  // This position's row of what `prepare` makes, as it is made from the encoder's state.
  rowOf(name, otherwise) {
    const {graph, values} = this.prepared
    const place = graph.at(name)
    if (!this.states || place === undefined) return formula(otherwise)
    const depth = product(values[place].shape.slice(2))
    return this.prepared.term(place, counted(depth, this.j * depth))
  }

  // How this step's numbers are made: score e, softmax p and weight α as formulas, each in terms of
  // the one before, read off the graph `step`. C is what a history has kept of past weights.
  trace() {
    const graph = this.view.session().model.graphs.step
    const values = this.step.trace()
    const past = values[graph.at("state.past")]
    const isRow = past?.shape.length === 3 && past.shape[1] === 1
    const keys = [
      "memory.keys",
      ...Object.keys(picked(graph.spec.inputs, "memory.layers"))
    ]
    const named = {query: () => formula("s")}
    for (const name of keys) named[name] = () => this.key
    if (isRow) named["state.past"] = this.ofColumns("C")
    const explain = more =>
      new Explanation(graph, values, {...named, ...more})
    this.e = explain()
    this.readsPast = Boolean(past) && this.e.reads("scores", "state.past")
    this.past =
      isRow && this.readsPast && this.heads === 1
        ? [...numbersOf(past)]
        : null
    this.scored = this.e.of("scores", this.cell)
    this.p = explain({scores: this.ofColumns("e")}).of("softmax", this.cell)
    this.a = explain({softmax: this.ofColumns("p")}).of("weights", this.j)
  }

  // A row by its sign, or one of its numbers.
  ofColumns(sign) {
    return cells =>
      formula(
        cells.length > 1 ? sign : sign + sub((cells[0] % this.width) + 1)
      )
  }

  // What is said of each part, by the names of PARTS.
  all() {
    return {
      states: this.ofStates(),
      query: this.ofQuery(),
      score: this.ofScore(),
      softmax: this.ofSoftmax(),
      weight: this.ofWeight(),
      context: this.ofContext()
    }
  }

  // The encoder's state at a position.
  stateAt(j) {
    return [...numbersOf(select(this.states, 1, j))]
  }

  ofStates() {
    const why = encoding(this.view.spec)
    if (!this.states)
      return {why: `${why} Keys k and values v are made of these.`}
    return {why, vectors: {[`h${this.n}`]: this.stateAt(this.j)}}
  }

  // The query of the head.
  query() {
    const {data: numbers} = this.step.query
    const size = numbers.length / this.heads
    return [...numbers.slice(this.head * size, (this.head + 1) * size)]
  }

  // Whose state the query is, and its numbers.
  ofQuery() {
    const {heads, head, parts} = this
    const {decoder} = parts
    const state = "The decoder's state: what this step looks for"
    const from = decoder
      ? `${state} (${decoder.name}: ${plainly(decoder.summary)}).`
      : "What this step looks for."
    const which = heads > 1 && `Head ${head + 1} of ${heads} is shown.`
    return {
      why: sentences(from, which, this.firstQuery()),
      vectors: {"": this.query()}
    }
  }

  // What the first query is, where it is not yet the decoder's: the state that the encoder left, or
  // zeros.
  firstQuery() {
    const query = this.query()
    const last = this.view.ids.length - 1
    if (!query.some(Boolean))
      return "It is still 0, as the decoder's first state is here."
    if (!this.states || `${query}` !== `${this.stateAt(last)}`) return ""
    return `It is still the encoder's last state, from which the key of position ${last + 1} is
      made: once trained, the two may fit for that reason.`
  }

  // The score's own formula, with the numbers at this position. Where the score reads what a
  // history keeps of the past weights of each position, C, that is told as well.
  ofScore() {
    const {j, n, past} = this
    const {score, history} = this.parts
    const own = score ? written(score.formula) : ""
    const width = own.includes("√D") ? `, D = ${this.query().length}` : ""
    const made = chain(`e${n}`, this.scored, this.step.scores.data[this.cell])
    const which = score ? `: ${score.name}, ${score.summary}` : ""
    const said =
      past &&
      `C${n} = ${exact(past[j])}: what the history ${history.name} has of this`
    return {
      sum: own ? `${own}${width}: ${made}` : made,
      why: sentences(
        `How well the query fits the key${which}.`,
        this.readsPast && described(history),
        past && `${said} position so far.`
      ),
      vectors: {
        ...(past && {[`C of ${this.view.sources.join(" ")}`]: past}),
        ...this.products()
      }
    }
  }

  // The two vectors whose product is the score, and the products that are added up.
  products() {
    if (!this.e.dot) return {}
    const {left, right, names} = this.e.dot
    const products = left.map((number, k) => number * right[k])
    const first = names[0] === "s" ? {} : {[names[0]]: left}
    return {...first, [names[1]]: right, [summed(products)]: products}
  }

  // The share of the score after the softmax, and everything that decides what takes part in it.
  ofSoftmax() {
    const {normaliser, window: around, scalable} = this.parts
    const isUsual = !normaliser || normaliser.name === "softmax"
    const usual =
      "The exponential of each score, as a share of their sum: all are positive and sum to 1."
    return {
      sum: chain(`p${this.n}`, this.p, this.step.softmax.data[this.cell]),
      why: sentences(
        isUsual ? usual : described(normaliser),
        described(around),
        this.around(),
        scalable && `Scalable: ${scalable.summary}.`,
        this.heated(),
        !this.view.spec.mask_padding && "Padding is not masked in this model."
      )
    }
  }

  // Where this step's window is, centre and radius, and whether it leaves the position out.
  around() {
    const {view, t, j} = this
    const around = view.windowAt(t, ", R = ")
    const isOut = view.map.outside(t, j)
    const out = isOut ? `: position ${j + 1} is outside, its weight is 0` : ""
    return (
      around &&
      `Counted from 1, this step's is around position ${around}${out}.`
    )
  }

  // What the temperature does to the scores.
  heated() {
    return state.temperature === 1
      ? ""
      : `Scores are divided by the temperature, ${exact(state.temperature)}.`
  }

  // The weight with which the step attends, and what made it differ from the softmax, if it does. A
  // history is told of here unless the score has told of it. Weights that cannot be set are those
  // of hard monotonic attention, whose formulas have logarithms.
  ofWeight() {
    const history = !this.readsPast && described(this.parts.history)
    return {
      sum: chain(`α${this.n}`, this.a, this.step.weights.data[this.j]),
      why: sentences(
        this.attending(),
        history,
        this.view.whyFixed &&
          `${this.view.whyFixed} A number beside ln p sums up the paths that lead here.`
      )
    }
  }

  // How the weight that the step uses came from p, that of the softmax.
  attending() {
    const {view, t, j, step, heads} = this
    const isYours = view.sources.some((_, k) => view.isForced(t, k))
    const isSame =
      Math.abs(step.softmax.data[j] - step.weights.data[j]) < 1e-6
    const made = "What the step attends with:"
    if (view.isForced(t, j)) return "You set this weight."
    if (isSame) return `${made} p, unchanged.`
    if (heads > 1) return `The mean over ${heads} heads.`
    return `${made} p, changed by ${this.changers(isYours)}.`
  }

  // Who has changed the weight after the softmax: a person, a window, a history, or, if none of
  // them, the decoder. A history whose past weights the scores read changes scores, not weights.
  changers(isYours) {
    const {window: around, history, decoder} = this.parts
    const found = [
      isYours && "you",
      isNamed(around) && `the window ${around.name}`,
      isNamed(history) && !this.readsPast && `the history ${history.name}`
    ].filter(Boolean)
    if (found.length) return found.join(" and ")
    return `the decoder ${decoder.name}: ${plainly(decoder.summary)}`
  }

  // The weighted mean that the step reads, with the term of this position in figures.
  ofContext() {
    const sign = this.value.text.includes("h") ? "h" : "v"
    const weight = short(this.step.weights.data[this.j])
    return {
      sum: `c = Σ α ${sign} = ${weight} × ${within(this.value, 3)} + …`,
      why: `The mean of what stands at each position, weighted by α${this.counts()}.
        Besides its state, it is all that this step sees of the source.`,
      vectors: {"": [...this.step.context.data]}
    }
  }

  // What a history adds to the context: more numbers than a value has.
  counts() {
    const {history} = this.parts
    const {graph, values} = this.prepared
    const size = values[graph.at("memory.values")]?.shape.at(-1)
    const isMore = this.step.context.data.length > size
    if (this.heads > 1 || !isNamed(history) || !isMore) return ""
    return `, and how often what it reads was read before (the history ${history.name})`
  }
}
