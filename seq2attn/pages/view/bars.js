// Scores, softmax and weights of one decoding step as bars, in a column for each source position. A
// bar of the weights is a slider: the user can set that weight.
//
// `step` is a step of the decoding: its scores and softmax have the shape (heads, S), its weights
// (S), which are what all heads together attend with.

const BARS = {score: "scores", softmax: "softmax", weight: "weights"} // kind -> field of a step
const SLIDER_KEYS = {
  ArrowUp: 0.05,
  ArrowDown: -0.05,
  PageUp: 0.25,
  PageDown: -0.25
}

// The numbers of position j, one for each head, from the flat array of (heads, width).
function ofPosition(numbers, j, width) {
  return counted(numbers.length / width, j, width).map(k => numbers[k])
}

// Draw the bars of step t. Elements are only created anew if the number of positions has changed:
// otherwise a slider would lose the focus while it is used. Beside the scores stand the ends of
// their scale, the larger one above; beside the weights stands "= softmax" if none differs from its
// softmax.
function drawBars(view, step, t) {
  const {sources} = view
  if (view.columns?.length !== sources.length) buildBars(view)
  const place = view.windowAt(t, " ± ")
  setText(view.find(".around"), place && `¦ ${place}`)
  const [lowest, highest] = view.scale.map(short)
  const [top, bottom] = view.label("score").children
  setText(top, highest)
  setText(bottom, lowest)
  for (const j of sources.keys()) drawColumn(view, step, t, j)
  for (const kind of Object.keys(BARS)) {
    const values = sources.map(
      (symbol, j) => `${symbol} ${short(view.columns[j][kind].mean)}`
    )
    view.label(kind).ariaLabel = `${kind}: ${values.join(", ")}`
  }
  const isSame = view.columns.every(
    ({softmax, weight}) => Math.abs(softmax.mean - weight.mean) < 1e-6
  )
  setText(view.label("weight").firstElementChild, isSame ? "= softmax" : "")
  showColumn(view, view.columns[view.position()].symbol)
}

// Draw the column of source position j at step t: three bars, for its score, softmax and weight. In
// a bar each head has a line; `ofPosition` takes the heads' numbers from an array (heads, S). The
// mean over heads is kept as `mean`, and written below the bar if the user wants numbers, or has
// set this weight.
function drawColumn(view, step, t, j) {
  const {sources, map} = view
  const column = view.columns[j]
  const isForced = view.isForced(t, j)
  const isOutside = map.outside(t, j)
  const titles = {weight: view.whyFixed || "drag to set the weight"}
  for (const [kind, field] of Object.entries(BARS)) {
    const values = ofPosition(step[field].data, j, sources.length)
    const mean = total(values) / values.length
    const {bar, number} = column[kind]
    const isNumbered = state.numbers || (kind === "weight" && isForced)
    const title = isOutside ? "outside the window" : (titles[kind] ?? "")
    column[kind].mean = mean
    setText(number, isNumbered ? short(mean) : "")
    drawLines(bar, values, kind === "score" ? view.scale : [0, 1])
    bar.classList.toggle("outside", isOutside)
    setIfChanged(bar, "title", title)
  }
  drawSymbol(view, column.symbol, t, j)
  const slider = column.weight.bar
  slider.classList.toggle("held", isForced)
  slider.ariaValueNow = step.weights.data[j].toFixed(3)
  slider.ariaLabel = `weight of ${sources[j]}, position ${j + 1}`
}

// Draw a line for each head into a bar, whose height stands for the range from `lowest` (0 or less)
// to `highest`: upwards from 0 for a positive value, downwards for a negative one. If 0 is not at
// the bottom, even a value of 0 is drawn, as a thin line, so that one sees where 0 is.
function drawLines(bar, values, [lowest, highest]) {
  const range = highest - lowest || 1
  const thinnest = lowest < 0 ? 0.01 : 0
  if (bar.children.length !== values.length)
    bar.replaceChildren(...values.map(() => make("i")))
  for (const [head, value] of values.entries()) {
    const line = bar.children[head]
    const start = (Math.min(0, value) - lowest) / range
    const height = Math.max(thinnest, Math.abs(value) / range)
    setIfChanged(line, "className", value < 0 ? "negative" : "")
    fillBar(line, start, height)
  }
}

// Draw the symbol above the column of position j, with marks: whether it is the chosen position,
// banned at step t, or nearest to a centre of the step's window (each head may have its own).
function drawSymbol(view, element, t, j) {
  const {map, sources} = view
  const isBanned = map.banned(t, j)
  const names = classesOf({
    symbol: true,
    chosen: j === view.position(),
    banned: isBanned,
    centre: map.centres[t].map(Math.round).includes(j)
  })
  const banned = isBanned ? ", banned" : ""
  const outside = map.outside(t, j) ? ", outside the window" : ""
  setText(element, sources[j])
  setIfChanged(element, "className", names)
  element.ariaLabel = `position ${j + 1}, ${sources[j]}${banned}${outside}`
}

// Scroll the chosen column into view, if the columns need scrolling. Labels stay at the left edge,
// over the columns.
function showColumn(view, {offsetLeft, offsetWidth}) {
  const box = view.find(".attending")
  const left = offsetLeft - view.label("weight").offsetWidth
  const isRight = offsetLeft + offsetWidth > box.scrollLeft + box.clientWidth
  if (left < box.scrollLeft || isRight)
    box.scrollLeft = left - box.clientWidth / 3
}

// Create the columns anew, after the labels, which are part of the template and stay.
function buildBars(view) {
  const grid = view.find(".bars")
  grid.replaceChildren(...grid.querySelectorAll(".label"))
  view.columns = view.sources.map((_, j) => builtColumn(view, grid, j))
}

// Create the elements of the column of position j and append them to the grid: {symbol: a button
// that chooses the position, score, softmax and weight: {bar, number}}.
function builtColumn(view, grid, j) {
  const column = {symbol: button("", () => choose(state.step, j))}
  grid.append(column.symbol)
  for (const kind of Object.keys(BARS)) {
    const bar = make("div", {className: `bar ${kind}`})
    const number = make("span", {className: "number"})
    column[kind] = {bar, number}
    grid.append(make("div", {}, bar, number))
  }
  prepareSlider(view, column.weight.bar, j)
  return column
}

// Let the bar of the weight of position j be a slider. It sets the weight at the chosen step: by
// dragging, or by keys; a double click releases it. Where weights cannot be set (view.whyFixed says
// why) it is marked as disabled and hears nothing.
function prepareSlider(view, slider, j) {
  const isFixed = Boolean(view.whyFixed)
  Object.assign(slider, {
    role: "slider",
    tabIndex: 0,
    ariaValueMin: 0,
    ariaValueMax: 1,
    ariaDisabled: isFixed
  })
  if (isFixed) return
  // Measured when dragging begins: the first change may move the bar under the pointer.
  let box = null
  const setFromPointer = ({clientY}) =>
    setWeight(state.step, j, (box.bottom - clientY) / box.height)
  slider.onpointerdown = event => {
    box = slider.getBoundingClientRect()
    slider.setPointerCapture(event.pointerId)
    state.position = j
    setFromPointer(event)
  }
  slider.onpointermove = event => {
    if (slider.hasPointerCapture(event.pointerId)) setFromPointer(event)
  }
  slider.ondblclick = () => release(state.step, j)
  slider.onkeydown = event => {
    const change = SLIDER_KEYS[event.key]
    if (!change) return
    state.position = j
    setWeight(state.step, j, Number(slider.ariaValueNow) + change)
    event.preventDefault() // otherwise the page would scroll
  }
}
