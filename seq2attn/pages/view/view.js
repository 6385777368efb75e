// One model on the page: what it has decoded, and the elements that show it.

const LONG = 22 // with more source positions than these a map takes the whole width

class View {
  // Create the elements of a model, not yet in the page. spec: the model in the page's data;
  // number: its index there.
  constructor(spec, number) {
    this.spec = spec
    this.number = number
    this.attends = spec.attends
    // why the user cannot set weights, as a sentence; undefined if they can be set
    this.whyFixed =
      spec.force_reason &&
      `These weights cannot be set: ${plainly(spec.force_reason)}.`
    this.root = copyOf("model")
    this.find = selector => this.root.querySelector(selector)
    this.label = kind => this.find(`.label.${kind}`) // of the bars of a step
    this.canvas = this.find("canvas")
    this.symbol = id => shownSymbol(spec.target.tokens[id])
    this.prepareHeading()
    this.prepareSnapshots()
    buildStep(this)
    listenToMap(this)
    listenToTools(this)
  }

  // Fill in what does not depend on an answer: name, facts, and the legend of the map's colours.
  // Keys act on the model that had the focus last. (The style sheet hides name and facts of a
  // page's only model, which the head of the page has, and of a model without attention all that
  // shows weights.)
  prepareHeading() {
    const {find, spec} = this
    setText(find("h2"), spec.name)
    find(".about").replaceChildren(...describe(spec))
    find("figcaption i").style.background =
      `linear-gradient(90deg, ${data.colours})`
    this.root.classList.toggle("without", !this.attends)
    this.root.addEventListener("focusin", () => {
      active = this
    })
  }

  // Load the weights, and prepare the slider by which the user chooses among the snapshots: the
  // weights that training kept at several moments. With one snapshot there is no slider.
  prepareSnapshots() {
    const {snapshots} = this.spec
    const slider = this.find(".snapshot input")
    this.find(".snapshot").hidden = snapshots.length < 2
    slider.max = snapshots.length - 1
    slider.oninput = () => {
      state.snapshots[this.number] = Number(slider.value)
      this.load()
      update()
    }
    this.load()
  }

  // Load weights into a model: those that this page has learnt, if it trains, or else those of the
  // chosen snapshot. Two sessions decode with it, one without the user's changes and one with them:
  // a session keeps its last steps, so that only what a change touches is computed again.
  load() {
    const {snapshots} = this.spec
    const chosen = state.snapshots[this.number] // a link may name one that does not exist
    const number = chosen in snapshots ? chosen : snapshots.length - 1
    const {label, weights} = snapshots[number]
    this.model = new Model(this.spec, this.learnt ?? decode(weights))
    this.untouchedSession = new Session(this.model)
    this.changedSession = new Session(this.model)
    this.find(".snapshot input").value = number
    setText(this.find(".snapshot output"), label)
  }

  // Decode the string that the user has typed: `now` with the user's changes and `before` without
  // them, which are the same object if nothing is changed. If the string cannot be read, `problem`
  // says why (`empty`: there is none), `offer` may be a spelling that can be read, and the last
  // answer stays.
  compute() {
    const {spec} = this
    const read = tokenise(spec, state.text, state.features)
    const {ids, plain, bound, strange, problem} = read
    const unknown = strange?.map(symbol =>
      symbol === " " ? "␣ (space)" : shownSymbol(symbol)
    )
    Object.assign(this, {problem, offer: null, ...read})
    if (unknown) this.problem = `${problem} ${unknown.join(" ")}`
    this.empty = !ids && !problem
    if (!ids) return
    // plain: the ids without the end, and with -1 for symbols that the model does not know
    this.right = rightAnswer(this.model, plain)
    this.before = this.untouchedSession.decode(ids, untouched, bound)
    const changes = {...state, padding: paddingOf(this)}
    this.now = isChanged(this)
      ? this.changedSession.decode(ids, changes, bound)
      : this.before
    this.sources = this.now.encoded.tokens.map(id =>
      shownSymbol(spec.source.tokens[id])
    )
    this.scale = this.attends ? this.scoreRange() : [0, 0]
  }

  // [lowest, highest] of all scores of both decodings, and 0: bars of scores have this scale at
  // every step, so that steps can be compared.
  scoreRange() {
    const rows = [...this.now.steps, ...this.before.steps].map(
      step => step.scores.data
    )
    const extreme = pick => pick(0, ...rows.map(row => pick(...row)))
    return [extreme(Math.min), extreme(Math.max)]
  }

  // The symbol that a step writes. A model that can copy from the source writes `<unk>` for a
  // symbol that its target vocabulary lacks. What is shown then is the symbol that it copies: of
  // those, `copyable` (a Map position -> symbol), the one that it attends to most.
  wrote(step) {
    const {copyable, spec} = this
    const isCopied = spec.copies && step.written === UNKNOWN && copyable.size
    if (!isCopied) return this.symbol(step.written)
    const weight = j => step.weights.data[j]
    const heavier = (one, other) =>
      weight(other) > weight(one) ? other : one
    const position = [...copyable.keys()].reduce(heavier)
    return shownSymbol(copyable.get(position))
  }

  // Whether the user has set the weight of this cell of this model.
  isForced(t, j) {
    return !this.whyFixed && state.force.has(`${t},${j}`)
  }

  // Draw the answer, the maps and the step. If the string cannot be read, the last answer stays,
  // paler, under the string that it belongs to.
  draw() {
    const isStale = Boolean(this.problem || this.empty || !this.now)
    this.root.classList.toggle("stale", isStale)
    if (!isStale) {
      const hasChanges = this.now !== this.before
      this.answered = state.text
      this.root.classList.toggle("long", this.isLong())
      drawAnswer(this, hasChanges)
      if (this.attends) drawMaps(this, hasChanges)
      drawStep(this)
    } else if (this.answered) {
      setText(
        this.find(".answer h3"),
        `answer to ${shownText(this.answered)}`
      )
    }
  }

  // Whether the map is too wide to stand beside the step, so that it is put above it. A column
  // needs 14 pixels, or 38 with numbers, and the names of the rows need 60.
  isLong() {
    const {length} = this.sources
    const share = hasOneModel ? 0.42 : 0.18 // of the window
    const width = length * (state.numbers ? 38 : 14) + 60
    return length > LONG || width > innerWidth * share
  }

  // The id of the right symbol at a step; after the answer it is the end.
  rightAt(t) {
    return this.right[t] ?? this.spec.eos
  }

  isWrong(step, t) {
    return Boolean(this.right) && step.written !== this.rightAt(t)
  }

  // The chosen source position; while the user has chosen none, the one that the step attends to
  // most. Another model on the page may have more steps and positions than this one.
  position() {
    if (state.position !== null)
      return Math.min(state.position, this.sources.length - 1)
    return this.attends ? strongest(this, this.shownStep()).j : 0
  }

  // The step that is shown: the chosen one, or this model's last if it has fewer steps; of two
  // models on a page, the other may write a longer answer.
  shownStep() {
    return Math.min(state.step, this.now.steps.length - 1)
  }

  // Where the window of step t is, such as "3.5 ± 2" for the sign " ± ": its centre, with positions
  // counted from 1, and its radius if it has one. Heads with other centres add theirs. "" without a
  // window.
  windowAt(t, sign) {
    const fromOne = centre => Number((centre + 1).toFixed(1))
    const centres = [...new Set(this.map.centres[t].map(fromOne))].join(" ")
    const {radius} = this.spec.parts.window ?? {}
    return centres && radius ? `${centres}${sign}${radius}` : centres
  }
}
