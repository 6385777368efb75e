// The map of a model, beside it the one without a person's changes, and what can be done with the
// chosen cell.

// Whether a window leaves a position out at a step: of several heads, each of theirs.
function isOutside({allowed, weights: {data: weights}}, j) {
  if (!allowed || weights[j] !== 0) return false
  return ofPosition(allowed.data, j, weights.length).every(one => !one)
}

// A click on the map chooses the cell below the pointer.
function listenToMap(view) {
  const {canvas} = view
  canvas.addEventListener("click", ({clientX, clientY}) => {
    const {left, top, cell} = view.layout
    const bounds = canvas.getBoundingClientRect()
    const at = (place, start) => Math.floor((place - start) / cell)
    active = view
    choose(at(clientY, bounds.top + top), at(clientX, bounds.left + left))
    canvas.focus()
  })
}

// The map, and after a change the map without it: beside it where both fit, else below. The map
// keeps the height of a right answer, so that the page does not jump while a model learns.
function drawMaps(view, isChanged) {
  const {canvas} = view
  const room = view.find(".maps").clientWidth
  const beside = view.find("figure.untouched")
  const title = isChanged ? "with your changes" : "attention: a row per step"
  const isMarked = view.spec.parts.window?.radius
  const marks = isMarked ? "; ▨ outside the window, ¦ its centre" : ""
  beside.hidden = !isChanged
  say(view.find("figcaption span"), title + marks)
  view.map = changedMap(view)
  view.layout = mapLayout(view.map, room, largestCell(view))
  const {top, cell, width} = view.layout
  const count = view.right ? view.right.length + 1 : 0
  canvas.parentNode.style.minHeight = `${top + count * cell + 3}px`
  view
    .find(".maps")
    .classList.toggle("pair", isChanged && 2 * width + 28 <= room)
  paintMap(canvas, view.map, view.layout)
  if (isChanged) {
    const map = untouchedMap(view)
    paintMap(beside.querySelector("canvas"), map, mapLayout(map, room, cell))
  }
  nameMap(view)
  drawTools(view)
}

function paintMap(canvas, map, layout) {
  const pen = new Pen(canvas, layout.width, layout.height)
  new MapPainter(pen, map, layout, look).paint()
}

// The largest size of the cells of both maps, changed or not.
function largestCell({spec, sources, now}) {
  const rows = spec.training ? sources.length + 2 : now.steps.length
  return between((innerHeight - 430) / rows, 24, 48)
}

// What a map shows of the steps of an answer.
function mapOf(view, {steps}) {
  return {
    rows: steps.map(step => view.wrote(step)),
    weights: steps.map(step => step.weights.data),
    centres: steps.map(step => [...(step.centre?.data ?? [])]),
    outside: (t, j) => !view.map.masked(j) && isOutside(steps[t], j)
  }
}

// What the map shows with a person's changes, for `MapPainter`.
function changedMap(view) {
  return {
    ...mapOf(view, view.now),
    columns: view.sources,
    chosen: [state.step, view.position()],
    held: new Set(view.whyFixed ? [] : state.force.keys()),
    banned: (t, j) => !view.isForced(t, j) && isIn(state.ban, t, j),
    masked: j => j >= view.ids.length && masksPadding(),
    different: view.differences,
    shown: t => isUncovered(t)
  }
}

// The same without them.
function untouchedMap(view) {
  return {
    ...view.map,
    ...mapOf(view, view.before),
    columns: view.sources.slice(0, view.before.width),
    chosen: null,
    held: new Set(),
    banned: () => false,
    different: new Map()
  }
}

// Tell a screen reader where each step looks most, of the steps that are not covered.
function nameMap(view) {
  const uncovered = [...view.now.steps.keys()].filter(t => isUncovered(t))
  const heaviest = uncovered
    .map(t => `${t + 1} ${strongest(view, t).symbol}`)
    .join(", ")
  const keys = "attention map: arrow keys choose step and position"
  view.canvas.ariaLabel = `${keys}. Each step attends most to: ${heaviest}`
}

// What can be done with the chosen cell, as with keys.
function listenToTools(view) {
  for (const tool of view.find(".cell").querySelectorAll("button")) {
    tool.onclick = () => {
      active = view
      actOn(tool.dataset.key, state.step, view.position())
    }
  }
}

// Below the map: what the chosen cell is, and which of the tools for it are in use.
function drawTools(view) {
  const t = state.step
  const j = view.position()
  const cell = `${t},${j}`
  const isForced = view.isForced(t, j)
  const [said, whole, here, everywhere, undo] = view.find(".cell").children
  const isWritten = t in view.now.steps
  view.find(".cell").hidden = !isWritten
  if (isWritten) say(said, cellText(view, t, j))
  whole.ariaPressed = String(isForced && state.force.get(cell) === 1)
  here.ariaPressed = String(state.ban.has(cell))
  everywhere.ariaPressed = String(state.ban.has(`${j}`))
  whole.disabled = Boolean(view.whyFixed)
  whole.title = view.whyFixed
  undo.disabled = !isForced
}

function cellText({sources, map}, t, j) {
  const weight = short(map.weights[t][j])
  const outside = map.outside(t, j) ? ", outside the window" : ""
  return `step ${t + 1}, position ${j + 1}: ${sources[j]} with the weight ${weight}${outside}`
}
