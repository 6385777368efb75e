// One model on the page: its answer, its maps, and the panel of a step.

const cannotSet = reason => `These weights cannot be set: ${plainly(reason)}.`
const LONG = 22 // source positions from which on a map takes the whole width

class View {
  // spec: a model of the page's data; number: its place among the models.
  constructor(spec, number) {
    this.spec = spec
    this.number = number
    this.attends = spec.attends
    // why its weights cannot be set, if they cannot
    this.whyFixed = spec.force_reason && cannotSet(spec.force_reason)
    this.root = copyOf("model")
    this.find = name => this.root.querySelector(name)
    this.label = part => this.find(`.label.${part}`) // of bars
    this.canvas = this.find("canvas")
    this.symbol = id => shownSymbol(spec.target.tokens[id])
    this.head()
    this.snapshots()
    buildStep(this)
    listenToMap(this)
    listenToTools(this)
  }

  // What is known of the model before it answers; on a page of its own the page's head has it.
  head() {
    const isAlone = data.models.length === 1
    say(this.find("h2"), this.spec.name)
    this.find("h2").classList.toggle("unseen", isAlone)
    this.find(".about").replaceChildren(...describe(this.spec))
    this.find(".about").hidden = isAlone
    this.find(".maps").hidden = !this.attends
    this.find("figcaption i").style.background =
      `linear-gradient(90deg, ${data.colours})`
    this.root.classList.toggle("without", !this.attends)
    this.root.addEventListener("focusin", () => {
      active = this
    })
  }

  // A slider through the weights that training kept, where there is more than one set.
  snapshots() {
    const {snapshots} = this.spec
    const slider = this.find(".snapshot input")
    this.find(".snapshot").hidden = snapshots.length < 2
    slider.max = snapshots.length - 1
    slider.addEventListener("input", () => {
      state.snapshots[this.number] = Number(slider.value)
      this.load()
      update()
    })
    this.load()
  }

  // Make sessions of the weights that were learnt in this page, or else of the chosen snapshot: one
  // without a person's changes and one with them.
  load() {
    const {snapshots} = this.spec
    const chosen = state.snapshots[this.number]
    const number = chosen in snapshots ? chosen : snapshots.length - 1
    const {label, weights} = snapshots[number]
    const model = new Model(this.spec, this.learnt ?? decode(weights))
    this.plain = new Session(model)
    this.changed = new Session(model)
    this.find(".snapshot input").value = number
    say(this.find(".snapshot output"), label)
  }

  // Answer the string that was typed, with a person's changes and without: `now` and `before`, the
  // same object where nothing is changed. A string that cannot be read leaves the last answer.
  compute() {
    const {spec} = this
    const read = tokenise(spec, state.text, state.features)
    const {ids, plain, bound, strange, problem, ...more} = read
    const names = strange?.map(symbol =>
      symbol === " " ? "␣ (space)" : shownSymbol(symbol)
    )
    Object.assign(this, {offer: undefined, ...more})
    this.problem = names ? `${problem} ${names.join(" ")}` : problem
    this.empty = !ids && !problem
    if (!ids) return
    this.ids = ids
    this.right = rightAnswer(this.plain.model, state.text, plain)
    this.before = this.plain.decode(ids, untouched, bound)
    this.now = isChanged()
      ? this.changed.decode(ids, {...state, padding: paddingOf(this)}, bound)
      : this.before
    const pads = new Array(this.now.width - ids.length).fill(spec.pad)
    this.sources = [...ids, ...pads].map(id =>
      shownSymbol(spec.source.tokens[id])
    )
    this.scale = this.attends ? this.scoreRange() : [0, 0]
  }

  // The least and the largest score: the same scale at every step.
  scoreRange() {
    const rows = [...this.now.steps, ...this.before.steps].map(
      step => step.scores.data
    )
    const least = rows.map(row => Math.min(...row))
    const most = rows.map(row => Math.max(...row))
    return [Math.min(0, ...least), Math.max(0, ...most)]
  }

  // The symbol that a step writes. A model that copies writes `<unk>` for symbols of the source
  // that its vocabulary of answers lacks: the one with the largest weight is shown.
  wrote(step) {
    const isCopied =
      this.spec.copies && step.written === UNKNOWN && this.copyable.size
    if (!isCopied) return this.symbol(step.written)
    const weight = j => step.weights.data[j]
    const [best] = [...this.copyable.keys()].sort(
      (one, other) => weight(other) - weight(one)
    )
    return shownSymbol(this.copyable.get(best))
  }

  // Whether a person has set the weight of this cell of this model.
  isForced(t, j) {
    return !this.whyFixed && state.force.has(`${t},${j}`)
  }

  // The session that shows what is on the screen.
  session() {
    return this.now === this.before ? this.plain : this.changed
  }

  // Draw the answer, the maps and the step. While the string cannot be read, the last answer stays,
  // paler. A long string has its map above the step, not beside it: where its columns, of 38 pixels
  // with numbers and 14 without, and 60 for the rows' names need too much of the window.
  draw() {
    const isStale = this.problem !== undefined || this.empty || !this.now
    this.root.classList.toggle("stale", isStale)
    if (isStale) {
      if (this.shown)
        say(this.find(".answer h3"), `answer to ${shownText(this.shown)}`)
      return
    }
    this.shown = state.text
    const hasChanges = this.now !== this.before
    const share = data.models.length > 1 ? 0.18 : 0.42
    const {length} = this.sources
    const isWide =
      length * (state.numbers ? 38 : 14) + 60 > innerWidth * share
    this.root.classList.toggle("long", length > LONG || isWide)
    drawAnswer(this, hasChanges)
    if (this.attends) drawMaps(this, hasChanges)
    drawStep(this)
  }

  // The right symbol at a step.
  rightAt(t) {
    return this.right[t] ?? this.spec.eos
  }

  isWrong(step, t) {
    return Boolean(this.right) && step.written !== this.rightAt(t)
  }

  // The chosen source position; while none is chosen, that of the largest weight.
  position() {
    if (state.position !== null)
      return Math.min(state.position, this.sources.length - 1)
    if (!this.attends) return 0
    const {steps} = this.now
    return peak(steps[Math.min(state.step, steps.length - 1)].weights.data)
  }

  // The centre of a step's window, counted as positions are, and its radius after `sign`; empty
  // without a window.
  windowAt(t, sign) {
    const places = this.map.centres[t].map(centre =>
      Number((centre + 1).toFixed(1))
    )
    const {radius} = this.spec.parts.window ?? {}
    const centres = [...new Set(places)].join(" ")
    return centres && radius ? `${centres}${sign}${radius}` : centres
  }
}
