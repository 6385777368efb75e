// The map of a model (map.js paints it), beside it the map without the user's changes, and the
// tools below it for the chosen cell.

// Whether the window of a step leaves source position j out: all heads do, and its weight is 0.
// (The user may have set a weight there nevertheless.) allowed: (heads, S), absent without a
// window.
function isOutside({allowed, weights: {data: weights}}, j) {
  if (!allowed || weights[j] !== 0) return false
  return ofPosition(allowed.data, j, weights.length).every(head => !head)
}

// A click on the map chooses the cell below the pointer, and lets keys act on this model.
function listenToMap(view) {
  const {canvas} = view
  canvas.onclick = ({offsetX, offsetY}) => {
    const {left, top, cell} = view.layout
    const t = Math.floor((offsetY - top) / cell)
    const j = Math.floor((offsetX - left) / cell)
    active = view
    choose(t, j)
    canvas.focus()
  }
}

// Draw the map, and if the user has changed anything the map without the changes: beside it if both
// fit, else below it (the style sheet does that, by the class "pair"). The map has at least the
// height that a right answer needs, so that the page does not jump while a model learns to end.
function drawMaps(view, isChanged) {
  const {canvas} = view
  const maps = view.find(".maps")
  const room = maps.clientWidth
  const untouched = view.find("figure.untouched")
  const title = isChanged ? "with your changes" : "attention: a row per step"
  const legend = view.spec.parts.window?.radius
    ? "; ▨ outside the window, ¦ its centre"
    : ""
  untouched.hidden = !isChanged
  setText(view.find("figcaption span"), title + legend)
  view.map = changedMap(view)
  view.layout = mapLayout(view.map, room, largestCell(view))
  const {top, cell, width} = view.layout
  const rows = view.right ? view.right.length + 1 : 0 // and the end
  const gap = 28
  canvas.parentNode.style.minHeight = `${top + rows * cell + 3}px`
  maps.classList.toggle("pair", isChanged && 2 * width + gap <= room)
  paintMap(canvas, view.map, view.layout)
  if (isChanged) {
    const map = untouchedMap(view)
    const layout = mapLayout(map, room, cell) // cells of the same size
    paintMap(untouched.querySelector("canvas"), map, layout)
  }
  nameMap(view)
  drawTools(view)
}

function paintMap(canvas, map, layout) {
  const pen = new Pen(canvas, layout.width, layout.height)
  new MapPainter(pen, map, layout).paint()
}

// The largest size of a cell with which all rows fit below what else is on the screen. A model that
// this page trains writes answers of varying length: two rows more than the source has symbols are
// assumed, so that cells keep their size.
function largestCell({spec, sources, now}) {
  const rows = spec.training ? sources.length + 2 : now.steps.length
  return between((innerHeight - 430) / rows, 24, 48)
}

// What a map shows of a decoding, {steps}. Masked padding is not called outside the window.
function mapOf(view, {steps}) {
  return {
    rows: steps.map(step => view.wrote(step)),
    weights: steps.map(step => step.weights.data),
    centres: steps.map(step => [...(step.centre?.data ?? [])]),
    outside: (t, j) => !view.map.masked(j) && isOutside(steps[t], j)
  }
}

// What the map with the user's changes shows, as `MapPainter` takes it. A position whose weight the
// user has set at a step counts as not banned there, even if it is banned at every step.
function changedMap(view) {
  return {
    ...mapOf(view, view.now),
    columns: view.sources,
    chosen: [state.step, view.position()],
    forced: (t, j) => view.isForced(t, j),
    banned: (t, j) => !view.isForced(t, j) && isIn(state.ban, t, j),
    masked: j => j >= view.ids.length && masksPadding(view.spec),
    different: view.differences
  }
}

// What the map without the user's changes shows: the other decoding, fewer columns if the user has
// added padding, and none of the marks that changes have.
function untouchedMap(view) {
  return {
    ...view.map,
    ...mapOf(view, view.before),
    columns: view.sources.slice(0, view.before.width),
    chosen: null,
    forced: () => false,
    banned: () => false,
    different: new Map()
  }
}

// Tell a screen reader the symbol that each step attends to most, of the steps that the tour does
// not hide.
function nameMap(view) {
  const heaviest = [...view.now.steps.keys()]
    .filter(isUncovered)
    .map(t => `${t + 1} ${strongest(view, t).symbol}`)
    .join(", ")
  const keys = "attention map: arrow keys choose step and position"
  view.canvas.ariaLabel = `${keys}. Each step attends most to: ${heaviest}`
}

// The buttons below the map do to the chosen cell what the key in their data-key does.
function listenToTools(view) {
  for (const tool of view.find(".cell").querySelectorAll("button")) {
    tool.onclick = () => {
      active = view
      actOn(tool.dataset.key, state.step, view.position())
    }
  }
}

// Draw the line below the map: a text about the chosen cell, then buttons: all attention here, ban
// here, ban at every step, forget (of a model with coverage), release. Those that are in force look
// pressed. Of two models this one may have written fewer steps than the chosen one: then there is
// no such cell, and no line.
function drawTools(view) {
  const t = state.step
  const j = view.position()
  const cell = `${t},${j}`
  const tools = view.find(".cell")
  const [text, forceAll, banHere, banEverywhere, forgetIt, undo] =
    tools.children
  const isForced = view.isForced(t, j)
  const isWritten = t in view.now.steps
  tools.hidden = !isWritten
  if (isWritten) setText(text, cellText(view, t, j))
  forceAll.ariaPressed = isForced && state.force.get(cell) === 1
  banHere.ariaPressed = state.ban.has(cell)
  banEverywhere.ariaPressed = state.ban.has(`${j}`)
  forgetIt.ariaPressed = state.forget.has(`${j}`)
  forgetIt.hidden = !remembers(view)
  forceAll.disabled = Boolean(view.whyFixed)
  forceAll.title = view.whyFixed
  undo.disabled = !isForced
}

function cellText({sources, map}, t, j) {
  const weight = short(map.weights[t][j])
  const outside = map.outside(t, j) ? ", outside the window" : ""
  return `step ${t + 1}, position ${j + 1}: ${sources[j]} with the weight ${weight}${outside}`
}
