// What each part of a decoding step computes, at the chosen source position. A class for each kind
// of model has a method for each part, such as `score`, which returns what `drawRow` takes: {sum: a
// formula with its numbers; why: sentences; vectors: {name: numbers}}.
//
// Formulas are read off the graphs that the model runs on: `prepare` computes keys and values from
// the source, `step` computes one step. So a score that somebody has written is explained as well.

// Join sentences, without those that are "", false or null because they do not apply.
const sentences = (...parts) => parts.filter(Boolean).join(" ")

// Whether a model has a part such as a window or a history. "none" and "global" (a window over the
// whole source) are the catalogue's names for having none.
const isNamed = part =>
  Boolean(part) && part.name !== "none" && part.name !== "global"

// "NAME: SUMMARY (FORMULA)." of a part, as the catalogue has it; "" if there is none.
function described(part) {
  if (!isNamed(part) || !part.formula) return ""
  return `${part.name}: ${plainly(part.summary)} (${written(part.formula)}).`
}

// An equation such as "e₂ = s · h₂ = 0.3 × 1.2 = 0.36": sign, formula, the same with numbers, and
// value. What the formula ends with already is not repeated.
function chain(sign, {text, numbers}, value) {
  const parts = [numbers, exact(value)].filter(
    part => part && !text.endsWith(part)
  )
  return [sign, text, ...parts].join(" = ")
}

// The name of a vector of products: "their products, sum 1.2 = .4 + .9 − .1", of many the first
// four.
function summed(products) {
  const terms = products.slice(0, 4).map(short)
  if (products.length > 4) terms.push("…")
  const sum = terms.join(" + ").replaceAll("+ -", "− ").replace(/^-/, "− ")
  return `their products, sum ${exact(total(products))} = ${sum}`
}

// A sentence on what the encoder does. `layers` are those of a recurrent encoder, [[names of its
// one or two directions]]; there are none in a Transformer, and none in an encoder of a plug-in.
function encoding({layers, parts: {encoder}}) {
  if (!layers.length && !encoder)
    return "The encoder's positions attend to each other; a vector is left at each."
  if (!layers.length)
    return `The encoder (${encoder.name}) leaves a vector at each position.`
  const both = layers.at(-1).length > 1 ? ", from both directions," : ""
  return `The encoder reads the source and leaves a vector${both} at each position.`
}

// All numbers of a decoder's state: an LSTM has two tensors, and each layer its own.
const stateNumbers = state =>
  Object.values(picked(state, "state.cell")).flatMap(one => [
    ...numbersOf(one)
  ])

// The parts that models with and without attention have.
class StepParts {
  constructor(view, step, t) {
    Object.assign(this, {view, step, t, parts: view.spec.parts})
  }

  // Explain the recurrent cell, which makes the decoder's next state: of what, and whether this
  // step's query is that state or the one before.
  update() {
    const {view, step, t} = this
    const isAfter = view.attends && !view.cellIsFirst
    const read = t ? view.wrote(view.now.steps[t - 1]) : "the start"
    const [inputs, use] = isAfter
      ? [
          "[y; c]",
          "The next step asks with it: the query of this step is the state before"
        ]
      : ["y", "This step goes on with it"]
    return {
      sum: `s = f(${inputs}, s before)`,
      why: `The cell makes the next state; y is what was written before,
        ${read}. ${use}.`,
      vectors: {"": stateNumbers(step.state)}
    }
  }

  // Explain the last part: the symbol that is written, and its probability. It depends on the state
  // and, with attention, on the context; where weights cannot be set (view.whyFixed, hard monotonic
  // attention), the probabilities that each position gives are mixed by the weights.
  output() {
    const {view, step, t} = this
    const share = chancesOf(step)[step.written]
    const mixed = view.attends ? "State and context give" : "The state gives"
    const givers = view.whyFixed
      ? "Each position, by itself and as much as its weight α, gives"
      : mixed
    const isYours = state.write.has(t)
    const choice = isYours ? "What you chose" : "The likeliest"
    return {
      sum: `p(${view.wrote(step)}) = ${share.toFixed(3)}`,
      why: `${givers} each symbol a probability. ${choice} is written, and read at the next step.`
    }
  }
}

// A model without attention.
class BottleneckParts extends StepParts {
  states() {
    return {why: encoding(this.view.spec)}
  }

  // Explain the one vector that the decoder starts from: its first state.
  vector() {
    const {view} = this
    const vector = stateNumbers(view.now.encoded.first)
    return {
      sum: `${view.count} symbols → ${vector.length} numbers`,
      why: `This model has no attention.
        All that the decoder ever knows of the source is this one vector, the encoder's last state.
        However long the string is, it has to fit in here: a bottleneck.`,
      vectors: {"": vector}
    }
  }
}

// A model with attention: step t is explained at the chosen position j.
class AttentionParts extends StepParts {
  // Scores and softmax of a step have the shape (heads, S). Of several heads, the one is explained
  // that attends most to position j: `cell` is the index of (head, j) in their flat arrays.
  constructor(view, step, t) {
    super(view, step, t)
    this.j = view.position()
    this.subscript = sub(this.j + 1) // of h₁, counted from 1
    this.width = view.now.width // S, the source positions with padding
    this.heads = step.scores.data.length / this.width
    this.head = peak(ofPosition(step.softmax.data, this.j, this.width))
    this.cell = this.head * this.width + this.j
    this.explainMemory()
    this.explainStep()
  }

  // Find out how key and value of position j are made of the encoder's state there, hⱼ. An
  // `Explanation` writes a number of a graph as a formula: it goes back through the operations that
  // computed the number, until values that have a name. Here that is hⱼ, and the graph is
  // `prepare`. A recurrent encoder's states are an input of this graph. Of any other encoder, the
  // values are taken as its states, provided that the keys are made of them too. In a Transformer
  // they are not: then `encoderStates` is null, and key and value are only called k and v.
  explainMemory() {
    const {subscript} = this
    const {model, now} = this.view
    const graph = model.graphs.prepare
    const isRecurrent = graph.at("states") !== undefined
    const name = isRecurrent ? "states" : "memory.values"
    const place = graph.at(name)
    const values = now.encoded.again() // what every operation computed
    this.prepared = new Explanation(graph, values, {
      [name]: () => formula(`h${subscript}`)
    })
    const isKeyed = isRecurrent || this.prepared.reads("memory.keys", name)
    this.encoderStates = isKeyed ? values[place] : null
    this.keyFormula = this.memoryFormula("memory.keys", `k${subscript}`)
    this.valueFormula = this.memoryFormula("memory.values", `v${subscript}`)
  }

  // The formula for row j of an output of `prepare`, such as the keys (1, S, D), in terms of the
  // encoder's state; only its name, `otherwise`, if it is not made of one.
  memoryFormula(name, otherwise) {
    const {graph, values} = this.prepared
    const place = graph.at(name)
    if (!this.encoderStates || place === undefined) return formula(otherwise)
    const depth = product(values[place].shape.slice(2))
    return this.prepared.term(place, counted(depth, this.j * depth))
  }

  // Find out how the numbers of this step are made: formulas for the score e of position j, for its
  // softmax p in terms of e, and for its weight α in terms of p. An `Explanation` goes back through
  // the operations of the graph `step` until values that have a name: the query s, the keys, and C,
  // which is what a history keeps of the weights of past steps. If the score reads C, and C is one
  // number a position (isRow), `past` has these numbers, to be shown.
  explainStep() {
    const graph = this.view.model.graphs.step
    const values = this.step.trace() // what every operation computed
    const past = values[graph.at("state.past")] // undefined without a history
    const isRow = past?.shape.length === 3 && past.shape[1] === 1 // (1, 1, S)
    const layers = Object.keys(picked(graph.spec.inputs, "memory.layers")) // a Transformer's
    // how a value with a name is written
    const names = {query: () => formula("s")}
    for (const name of ["memory.keys", ...layers])
      names[name] = () => this.keyFormula
    if (isRow) names["state.past"] = this.rowFormula("C")
    const explain = more =>
      new Explanation(graph, values, {...names, ...more})
    this.scores = explain({})
    const softmax = explain({scores: this.rowFormula("e")})
    const weights = explain({softmax: this.rowFormula("p")})
    this.scoreFormula = this.scores.of("scores", this.cell)
    this.softmaxFormula = softmax.of("softmax", this.cell)
    this.weightFormula = weights.of("weights", this.j)
    this.scoreReadsPast = this.scores.reads("scores", "state.past")
    const isShown = isRow && this.scoreReadsPast && this.heads === 1
    this.past = isShown ? [...numbersOf(past)] : null
  }

  // How an `Explanation` writes elements of a row of numbers, given their indices: "e₂" for one of
  // them, "e" for several, which are the row.
  rowFormula(sign) {
    return ([first, ...others]) => {
      const position = (first % this.width) + 1
      return formula(others.length ? sign : sign + sub(position))
    }
  }

  // The encoder's state at a position, from `encoderStates` (1, S, H).
  stateAt(j) {
    return [...numbersOf(select(this.encoderStates, 1, j))]
  }

  states() {
    const why = encoding(this.view.spec)
    if (!this.encoderStates)
      return {why: `${why} Keys k and values v are made of these.`}
    return {why, vectors: {[`h${this.subscript}`]: this.stateAt(this.j)}}
  }

  // The query of the head that is explained.
  queryNumbers() {
    const {data: numbers} = this.step.query
    const size = numbers.length / this.heads
    return [...numbers.slice(this.head * size, (this.head + 1) * size)]
  }

  // Explain the query: what it is, which head's is shown, and its numbers. They are drawn without a
  // name, since the row has it already.
  query() {
    const {heads, head, parts} = this
    const {decoder} = parts
    const isState = "The decoder's state: what this step looks for"
    const what = decoder
      ? `${isState} (${decoder.name}: ${plainly(decoder.summary)}).`
      : "What this step looks for."
    const which = heads > 1 && `Head ${head + 1} of ${heads} is shown.`
    return {
      why: sentences(what, which, this.firstQuery()),
      vectors: {"": this.queryNumbers()}
    }
  }

  // A sentence if the query is not yet the decoder's own, as at the first step: it is 0, or the
  // same numbers as the encoder's last state. "" otherwise.
  firstQuery() {
    const query = this.queryNumbers()
    const last = this.view.ids.length - 1
    if (!query.some(Boolean))
      return "It is still 0, as the decoder's first state is here."
    const lastState = this.encoderStates ? this.stateAt(last) : []
    if (query.join() !== lastState.join()) return ""
    return `It is still the encoder's last state, from which the key of position ${last + 1} is
      made: the two may fit for that reason, even untrained.`
  }

  // Explain the score of position j: the score's own formula from the catalogue, then how the model
  // computes it. If it reads what a history keeps of past weights, C, the history is explained
  // here, and C is drawn.
  score() {
    const {j, subscript, past} = this
    const {score, history} = this.parts
    const general = score ? written(score.formula) : ""
    const width = general.includes("√D")
      ? `, D = ${this.queryNumbers().length}`
      : ""
    const value = this.step.scores.data[this.cell]
    const here = chain(`e${subscript}`, this.scoreFormula, value)
    const which = score ? `: ${score.name}, ${score.summary}` : ""
    const read =
      past &&
      `C${subscript} = ${exact(past[j])}: what the history ${history.name} has of this`
    const pastVector = past && {[`C of ${this.view.sources.join(" ")}`]: past}
    return {
      sum: general ? `${general}${width}: ${here}` : here,
      why: sentences(
        `How well the query fits the key${which}.`,
        this.scoreReadsPast && described(history),
        past && `${read} position so far.`
      ),
      vectors: {...pastVector, ...this.products()}
    }
  }

  // The vectors to draw for a score that is a product of two vectors, "s · hⱼ": both, and their
  // products number by number. The query s is left out, because its own row shows it.
  products() {
    const {dot} = this.scores
    if (!dot) return {}
    const {left, right, names} = dot
    const products = left.map((number, k) => number * right[k])
    const first = names[0] === "s" ? {} : {[names[0]]: left}
    return {...first, [names[1]]: right, [summed(products)]: products}
  }

  // Explain the softmax of position j, and whatever decides what takes part in it: a normaliser in
  // place of the softmax, the window, a scale by the source's length, the temperature, the mask.
  softmax() {
    const {normaliser, window: around, scalable} = this.parts
    const isUsual = !normaliser || normaliser.name === "softmax"
    const usual =
      "The exponential of each score, as a share of their sum: all are positive and sum to 1."
    const {temperature} = state
    const value = this.step.softmax.data[this.cell]
    return {
      sum: chain(`p${this.subscript}`, this.softmaxFormula, value),
      why: sentences(
        isUsual ? usual : described(normaliser),
        described(around),
        this.whereWindow(),
        scalable && `Scalable: ${scalable.summary}.`,
        temperature !== 1 &&
          `Scores are divided by the temperature, ${exact(temperature)}.`,
        !masksPadding(this.view.spec) && "Padding is not masked."
      )
    }
  }

  // A sentence on where this step's window is, and whether it leaves position j out; "" without a
  // window.
  whereWindow() {
    const {view, t, j} = this
    const place = view.windowAt(t, ", R = ")
    const isOut = view.map.outside(t, j)
    const out = isOut ? `: position ${j + 1} is outside, its weight is 0` : ""
    return place && `This step's is around position ${place}${out}.`
  }

  // Explain the weight with which the step attends to position j, in terms of the softmax. A
  // history, what a model keeps of past weights, acts either on the scores (scoreReadsPast), and is
  // explained there, or on the weights, and is explained here. Weights that cannot
  // be set (view.whyFixed) are those of hard monotonic attention, whose formulas have logarithms:
  // sums over all paths by which the attention can have come here.
  weight() {
    const {subscript, view, scoreReadsPast, parts} = this
    const paths = "A number beside ln p sums up the paths that lead here."
    const value = this.step.weights.data[this.j]
    return {
      sum: chain(`α${subscript}`, this.weightFormula, value),
      why: sentences(
        this.whyWeight(),
        !scoreReadsPast && described(parts.history),
        view.whyFixed && `${view.whyFixed} ${paths}`
      )
    }
  }

  // A sentence on where the weight of position j comes from: p is what the softmax gave.
  whyWeight() {
    const {view, t, j, step, heads} = this
    if (view.isForced(t, j)) return "You set this weight."
    if (heads > 1) return `The mean over ${heads} heads.`
    const isChanged =
      Math.abs(step.softmax.data[j] - step.weights.data[j]) >= 1e-6
    const how = isChanged ? `changed by ${this.changers()}` : "unchanged"
    return `What the step attends with: p, ${how}.`
  }

  // What has changed the weights between the softmax and the context: the user, who set one of this
  // step's; a window; a history, unless it acts on the scores. If it is none of these, it must be
  // the decoder.
  changers() {
    const {window: around, history, decoder} = this.parts
    const isYours = this.view.sources.some((_, k) =>
      this.view.isForced(this.t, k)
    )
    const found = [
      isYours && "you",
      isNamed(around) && `the window ${around.name}`,
      isNamed(history) &&
        !this.scoreReadsPast &&
        `the history ${history.name}`
    ].filter(Boolean)
    if (found.length) return found.join(" and ")
    return `the decoder ${decoder.name}: ${plainly(decoder.summary)}`
  }

  // Explain the context: the mean of all values, weighted by α. Its sum is written with the term of
  // position j in numbers and "…" for the others. Values are called h where they are made of the
  // encoder's states, else v.
  context() {
    const {valueFormula} = this
    const sign = valueFormula.text.includes("h") ? "h" : "v"
    const weight = short(this.step.weights.data[this.j])
    const value = within(valueFormula, 3) // in brackets if it is a sum or a product
    return {
      sum: `c = Σ α ${sign} = ${weight} × ${value} + …`,
      why: `The mean of what stands at each position, weighted by α${this.historyInContext()}.
        Besides its state, it is all that this step sees of the source.`,
      vectors: {"": [...this.step.context.data]}
    }
  }

  // What a history adds to the context, as the end of a sentence: there is such a history if the
  // context has more numbers than a value. "" otherwise, and with several heads, whose contexts are
  // joined.
  historyInContext() {
    const {history} = this.parts
    const {graph, values} = this.prepared
    const size = values[graph.at("memory.values")]?.shape.at(-1)
    const isLonger = this.step.context.data.length > size
    if (this.heads > 1 || !isNamed(history) || !isLonger) return ""
    return `, and how often what it reads was read before (the history ${history.name})`
  }
}
