// The answer of a model: a tile for each symbol, what is right, and what a person changed of it.

const BECAME = {
  "✓": ["mended", ", became right"],
  "✗": ["broken", ", became wrong"],
  "≠": ["", ", changed"]
}

class Answer {
  constructor(view) {
    this.view = view
    this.find = view.find
  }

  draw(isChanged) {
    const {view, find} = this
    view.differences = this.differences()
    this.tiles(find(".answer .tiles"), view.now, true)
    const heading = find(".answer h3")
    const said = `${isChanged ? "with your changes" : "answer"}${this.verdict(view.now)}`
    say(heading, said)
    put(heading, "title", said)
    find(".answer.untouched").hidden = !isChanged
    if (isChanged)
      this.tiles(find(".answer.untouched .tiles"), view.before, false)
  }

  // How the steps differ from those without a person's changes: Map t -> "✓" of a symbol that
  // became right, "✗" of one that became wrong, "≠" of others.
  differences() {
    const {view} = this
    const signs = new Map()
    for (const [t, step] of view.now.steps.entries()) {
      const before = view.before.steps[t]
      if (before?.written === step.written) continue
      const was = Boolean(before) && !view.isWrong(before, t)
      const is = !view.isWrong(step, t)
      signs.set(t, !view.right || was === is ? "≠" : is ? "✓" : "✗")
    }
    return signs
  }

  // What is right, as far as the task knows it.
  verdict(result) {
    const {view} = this
    const notes = [this.length(), this.compared()]
    if (view.right) {
      const isWrong = this.isWrong(result)
      notes.unshift(isWrong ? "✗ wrong" : "✓ right")
      if (isWrong)
        notes.push(`right is ${view.right.map(view.symbol).join("")}`)
    }
    return notes
      .filter(Boolean)
      .map(note => ` · ${note}`)
      .join("")
  }

  isWrong({steps, finished}) {
    const {right} = this.view
    const isOther = (id, t) => steps[t].written !== id
    return !finished || steps.length !== right.length + 1 || right.some(isOther)
  }

  length() {
    const {count, spec} = this.view
    const [shortest, longest] = spec.trained
    if (count >= shortest && count <= longest) return ""
    return `${count > longest ? "longer" : "shorter"} than trained (${shortest}-${longest})`
  }

  // How it compares with the other model's.
  compared() {
    const other = views.find(view => view !== this.view && view.now)
    if (!other || other.problem) return ""
    const [one, two] = [this.view, other].map(view =>
      view.now.steps.map(step => step.written)
    )
    const [longer, shorter] = one.length < two.length ? [two, one] : [one, two]
    const from = longer.findIndex((id, t) => id !== shorter[t])
    const {name} = other.spec
    return from < 0
      ? `the same as ${name}`
      : `differs from ${name} from step ${from + 1} on`
  }

  tiles(place, {steps, finished}, isLive) {
    const focused = isLive
      ? [...place.children].indexOf(document.activeElement)
      : -1
    place.replaceChildren(...steps.map((step, t) => this.tile(step, t, isLive)))
    if (!finished)
      place.append(make("span", {className: "open", textContent: "… no end"}))
    place.children[focused]?.focus()
  }

  tile(step, t, isLive) {
    const {view} = this
    const symbol = view.wrote(step)
    const isWrong = view.isWrong(step, t)
    const sign = isLive ? view.differences.get(t) : undefined
    const [mark, became] = BECAME[sign] ?? ["", ""]
    const classes = {
      chosen: isLive && t === state.step,
      differs: sign,
      [mark]: mark,
      written: isLive && state.write.has(t),
      special: step.written < UNKNOWN,
      wrong: isWrong
    }
    const should = isWrong
      ? `, wrong; right is ${view.symbol(view.rightAt(t))}`
      : ""
    return button(symbol, () => choose(t, state.position), {
      disabled: !isLive,
      title: isLive ? `step ${t + 1}: click, then type another symbol` : "",
      ariaLabel: `step ${t + 1}: ${symbol}${became}${should}`,
      className: classesOf(classes),
      onkeydown: event => this.key(event, t)
    })
  }

  key(event, t) {
    const move = {ArrowRight: 1, ArrowLeft: -1}[event.key]
    if (move) this.move(event.target.parentNode.children[t + move], t + move)
    else if (event.key === "Backspace" || event.key === "Delete") {
      state.write.delete(t)
      update()
    } else if (!this.type(event, t)) return
    event.preventDefault()
  }

  move(tile, t) {
    if (tile?.tagName !== "BUTTON") return
    tile.focus()
    choose(t, state.position)
  }

  // Whether a key is a symbol to write, or one that the model does not know.
  type(event, t) {
    const isModified = event.ctrlKey || event.metaKey || event.altKey
    if (isModified || Array.from(event.key).length !== 1) return false
    const id = this.view.spec.target.tokens.indexOf(event.key)
    if (id >= 0) hold("write", t, id)
    else if (event.key === " ") return false
    else toast(`The model does not write ${shownSymbol(event.key)}.`)
    return true
  }
}
