// Scores, softmax and weights of a step as bars, a column per source position; those of the weights
// are sliders.

const BARS = {score: "scores", softmax: "softmax", weight: "weights"} // their names in a step
const KEYED = {
  ArrowUp: 0.05,
  ArrowDown: -0.05,
  PageUp: 0.25,
  PageDown: -0.25
}

// A position's numbers, of each head.
function ofPosition(numbers, j, width) {
  return counted(numbers.length / width, j, width).map(k => numbers[k])
}

// The bars of step t. Columns are built once for a number of positions, then only redrawn: that
// keeps the focus on a slider, and is faster. If no weight differs from its softmax, it says so.
function drawBars(view, step, t) {
  const {sources, scale} = view
  if (view.columns?.length !== sources.length) buildBars(view)
  const place = view.windowAt(t, " ± ")
  say(view.find(".around"), place && `¦ ${place}`)
  for (const [k, mark] of [...view.label("score").children].entries())
    say(mark, short(scale[1 - k]))
  for (const j of sources.keys()) drawColumn(view, step, t, j)
  for (const name of Object.keys(BARS)) {
    const told = sources.map(
      (symbol, j) => `${symbol} ${short(view.columns[j][name].mean)}`
    )
    view.label(name).ariaLabel = `${name}: ${told.join(", ")}`
  }
  const isSame = view.columns.every(
    ({softmax, weight}) => Math.abs(softmax.mean - weight.mean) < 1e-6
  )
  say(view.label("weight").firstElementChild, isSame ? "= softmax" : "")
  showColumn(view, view.columns[view.position()].symbol)
}

// The numbers of position j at step t: of several heads a line for each, and their mean.
function drawColumn(view, step, t, j) {
  const {sources, scale, map} = view
  const column = view.columns[j]
  const isHeld = view.isForced(t, j)
  const isOutside = map.outside(t, j)
  const titles = {weight: view.whyFixed || "drag to set the weight"}
  for (const [name, key] of Object.entries(BARS)) {
    const values = ofPosition(step[key].data, j, sources.length)
    const {bar, number} = column[name]
    const mean = total(values) / values.length // over heads
    column[name].mean = mean
    say(
      number,
      state.numbers || (name === "weight" && isHeld) ? short(mean) : ""
    )
    drawLines(bar, values, name === "score" ? scale : [0, 1])
    bar.classList.toggle("outside", isOutside)
    put(bar, "title", isOutside ? "outside the window" : (titles[name] ?? ""))
  }
  drawSymbol(view, column.symbol, t, j)
  const slider = column.weight.bar
  slider.classList.toggle("held", isHeld)
  slider.ariaValueNow = step.weights.data[j].toFixed(3)
  slider.ariaLabel = `weight of ${sources[j]}, position ${j + 1}`
}

// A line for each head, upwards from 0 or downwards below it. The bar's height stands for the range
// from `lowest` to `highest`; where that goes below 0, a value of 0 still gets a thin line.
function drawLines(bar, values, [lowest, highest]) {
  const range = highest - lowest || 1
  if (bar.children.length !== values.length)
    bar.replaceChildren(...values.map(() => make("i")))
  for (const [head, value] of values.entries()) {
    const line = bar.children[head]
    const height = Math.max(lowest && 0.01, Math.abs(value) / range)
    put(line, "className", value < 0 ? "negative" : "")
    fillBar(line, (Math.min(0, value) - lowest) / range, height)
  }
}

// The symbol above a column, with its marks: chosen, banned, or the centre of the window.
function drawSymbol(view, element, t, j) {
  const {map, sources} = view
  const classes = {
    symbol: true,
    chosen: j === view.position(),
    banned: map.banned(t, j),
    centre: map.centres[t].map(Math.round).includes(j)
  }
  const banned = classes.banned ? ", banned" : ""
  const outside = map.outside(t, j) ? ", outside the window" : ""
  say(element, sources[j])
  put(element, "className", classesOf(classes))
  element.ariaLabel = `position ${j + 1}, ${sources[j]}${banned}${outside}`
}

// Brings the chosen column into view.
function showColumn(view, {offsetLeft, offsetWidth}) {
  const box = view.find(".attending")
  const left = offsetLeft - view.label("weight").offsetWidth
  const isRight = offsetLeft + offsetWidth > box.scrollLeft + box.clientWidth
  if (box.scrollWidth > box.clientWidth && (left < box.scrollLeft || isRight))
    box.scrollLeft = left - box.clientWidth / 3
}

// The columns behind the labels, which stand in the page.
function buildBars(view) {
  const grid = view.find(".bars")
  grid.replaceChildren(...grid.querySelectorAll(".label"))
  view.columns = view.sources.map((_, j) => builtColumn(view, grid, j))
}

// The elements of a column: {symbol, and for each kind of bar {bar, number}}.
function builtColumn(view, grid, j) {
  const column = {symbol: button("", () => choose(state.step, j))}
  grid.append(column.symbol)
  for (const name of Object.keys(BARS)) {
    const bar = make("div", {className: `bar ${name}`})
    const number = make("span", {className: "number"})
    column[name] = {bar, number}
    grid.append(make("div", {}, bar, number))
  }
  prepareSlider(view, column.weight.bar, j)
  return column
}

// Make the bar of a weight a slider: it is dragged, or moved with keys, and a double click takes
// that back. Where weights cannot be set it stays as it is.
function prepareSlider(view, slider, j) {
  const isFixed = Boolean(view.whyFixed)
  const values = {
    ariaValueMin: 0,
    ariaValueMax: 1,
    ariaDisabled: String(isFixed)
  }
  Object.assign(slider, {role: "slider", tabIndex: 0, ...values})
  if (isFixed) return
  let box = null // where the bar was when it was taken hold of: the first change moves it
  const drag = ({clientY}) =>
    setWeight(state.step, j, (box.bottom - clientY) / box.height)
  const on = (name, act) => slider.addEventListener(name, act)
  on("pointerdown", event => {
    box = slider.getBoundingClientRect()
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
