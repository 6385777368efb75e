// Scores, softmax and weights of a step as bars, a column per source position; those of the weights
// are sliders.

const BARS = {score: "scores", softmax: "softmax", weight: "weights"} // their names in a step
const KEYED = {ArrowUp: 0.05, ArrowDown: -0.05, PageUp: 0.25, PageDown: -0.25}

class Bars {
  constructor(view) {
    this.view = view
    this.grid = view.find(".bars")
    this.columns = []
  }

  draw(step, t) {
    const {sources, scale} = this.view
    if (this.columns.length !== sources.length) this.build(sources.length)
    const around = this.view.windowAt(t, " ± ")
    say(this.around, around && `┃ ${around}`)
    for (const [k, mark] of this.axis.entries()) say(mark, short(scale[1 - k]))
    for (const j of sources.keys()) this.column(step, t, j)
    for (const name of Object.keys(BARS)) this.name(name, step)
    this.scroll(this.columns[this.view.position()].symbol)
  }

  // What a row of bars says to a screen reader.
  name(name, step) {
    const told = this.view.sources.map(
      (symbol, j) => `${symbol} ${short(this.mean(step, name, j))}`
    )
    this.labels[name].setAttribute("aria-label", `${name}: ${told.join(", ")}`)
  }

  // The mean over heads of a position's numbers.
  mean(step, name, j) {
    const own = ofPosition(step[BARS[name]].data, j, this.columns.length)
    return own.reduce((sum, value) => sum + value) / own.length
  }

  column(step, t, j) {
    const column = this.columns[j]
    const isHeld = this.view.isForced(t, j)
    for (const name of Object.keys(BARS)) {
      const values = ofPosition(step[BARS[name]].data, j, this.columns.length)
      const isShown = state.numbers || (name === "weight" && isHeld)
      this.lines(
        column[name],
        values,
        name === "score" ? this.view.scale : [0, 1]
      )
      say(
        column[`${name}Number`],
        isShown ? short(this.mean(step, name, j)) : ""
      )
      this.place(column[name], name, this.view.map.outside(t, j))
    }
    this.symbol(column.symbol, t, j)
    column.weight.classList.toggle("held", isHeld)
    column.weight.setAttribute("aria-valuenow", step.weights.data[j].toFixed(3))
    column.weight.setAttribute(
      "aria-label",
      `weight of ${this.view.sources[j]}, position ${j + 1}`
    )
  }

  // A line for each head, from 0.
  lines(bar, values, [lowest, highest]) {
    const range = highest - lowest || 1
    while (bar.children.length < values.length) bar.append(make("i"))
    while (bar.children.length > values.length) bar.lastChild.remove()
    for (const [head, value] of values.entries()) {
      const line = bar.children[head]
      const height = Math.abs(value) / range
      put(line, "className", value < 0 ? "negative" : "")
      fillBar(
        line,
        (Math.min(0, value) - lowest) / range,
        lowest ? Math.max(0.01, height) : height
      )
    }
  }

  place(bar, name, isOutside) {
    const held = this.view.spec.force_reason || "drag to set the weight"
    bar.classList.toggle("outside", isOutside)
    put(
      bar,
      "title",
      isOutside ? "outside the window" : name === "weight" ? held : ""
    )
  }

  symbol(element, t, j) {
    const {map, sources} = this.view
    const classes = {
      symbol: true,
      chosen: j === this.view.position(),
      banned: map.banned(t, j),
      centre: map.centres[t].map(Math.round).includes(j)
    }
    const notes = [
      classes.banned && ", banned",
      map.outside(t, j) && ", outside the window"
    ]
    say(element, sources[j])
    put(element, "className", classesOf(classes))
    element.setAttribute(
      "aria-label",
      `position ${j + 1}, ${sources[j]}${notes.filter(Boolean).join("")}`
    )
  }

  // Brings the chosen column into view.
  scroll({offsetLeft, offsetWidth}) {
    const box = this.view.find(".attending")
    const left = offsetLeft - this.labels.weight.offsetWidth
    const isCut =
      left < box.scrollLeft ||
      offsetLeft + offsetWidth > box.scrollLeft + box.clientWidth
    if (box.scrollWidth > box.clientWidth && isCut)
      box.scrollLeft = left - box.clientWidth / 3
  }

  build(width) {
    const title =
      "the window: its centre, and how many positions it reaches to each side"
    this.axis = [make("small"), make("small")]
    this.labels = {}
    for (const name of Object.keys(BARS)) {
      this.labels[name] = make("span", {className: "label", role: "img"}, name)
    }
    this.labels.score.append(...this.axis)
    this.around = make("span", {className: "label", title})
    this.grid.replaceChildren(this.around, ...Object.values(this.labels))
    const narrowest = state.numbers ? 34 : 18
    const each = `minmax(${narrowest}px, 1fr)`
    this.grid.style.gridTemplateColumns = `max-content repeat(${width}, ${each})`
    this.columns = counted(width).map(j => this.built(j))
  }

  built(j) {
    const column = {symbol: button("", () => choose(state.step, j))}
    this.grid.append(column.symbol)
    for (const name of Object.keys(BARS)) {
      column[name] = make("div", {className: `bar ${name}`}, make("i"))
      column[`${name}Number`] = make("span", {className: "number"})
      this.grid.append(make("div", {}, column[name], column[`${name}Number`]))
    }
    this.slider(column.weight, j)
    return column
  }

  slider(slider, j) {
    const isFixed = Boolean(this.view.spec.force_reason)
    const roles = {
      role: "slider",
      tabindex: 0,
      "aria-valuemin": 0,
      "aria-valuemax": 1
    }
    for (const [name, value] of Object.entries(roles))
      slider.setAttribute(name, value)
    slider.setAttribute("aria-disabled", isFixed)
    if (isFixed) return
    // Where the bar was when it was taken hold of: the first change moves it.
    let held = null
    const drag = event =>
      setWeight(state.step, j, (held.bottom - event.clientY) / held.height)
    const on = (name, act) => slider.addEventListener(name, act)
    on("pointerdown", event => {
      held = slider.getBoundingClientRect()
      slider.setPointerCapture(event.pointerId)
      state.position = j
      drag(event)
    })
    on("pointermove", event => {
      if (slider.hasPointerCapture(event.pointerId)) drag(event)
    })
    on("dblclick", () => release(state.step, j))
    on("keydown", event => {
      if (!Object.hasOwn(KEYED, event.key)) return
      state.position = j
      setWeight(state.step, j, Number(slider.ariaValueNow) + KEYED[event.key])
      event.preventDefault()
    })
  }
}

// A position's numbers, of each head.
function ofPosition(numbers, j, width) {
  return counted(numbers.length / width, j, width).map(k => numbers[k])
}
