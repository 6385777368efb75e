// The panel of one decoding step: a diagram of its parts, bars, the likeliest symbols, and a row
// for each part, with its formula. A part is an intermediate result of the step, such as "score";
// page.html has a box for each in its diagram (.stages), whose class is the name of the part.

const OF_ATTENTION = ["query", "score", "softmax", "weight", "context"]
const SHOWN_NEXT = 5

// Prepare the panel when the page is built: its buttons, and a row for each part that the model
// has; the boxes of other parts are removed from the diagram. A model without attention has one
// vector in place of the parts of attention. One whose weights cannot be set has no context: its
// weights are probabilities of being at a position, and it mixes the answers of the positions, not
// what stands there. The cell's box comes after the context's, as in Bahdanau's decoder, unless the
// graph of a step makes the new state before the context, as in Luong's: then it comes first.
function buildStep(view) {
  const onMove = steps => () => choose(state.step + steps, state.position)
  view.find(".previous").onclick = onMove(-1)
  view.find(".next").onclick = onMove(1)
  view.find(".play").onclick = togglePlay
  // name -> slot: what is made later has a higher one
  const made = new Map(view.model.graphs.step.outputs)
  const newState = made.get("state.cell.0") // a Transformer has none
  const absent = [
    newState === undefined && "update",
    ...(view.attends ? ["vector", view.whyFixed && "context"] : OF_ATTENTION)
  ]
  view.cellIsFirst = newState < made.get("context")
  const stages = view.find(".stages")
  if (view.cellIsFirst)
    stages.firstElementChild.after(stages.querySelector(".update"))
  view.rows = {}
  for (const box of [...stages.children]) {
    if (absent.includes(box.className)) box.remove()
    else addRow(view, box)
  }
  view.parts = Object.keys(view.rows)
}

// Add the row that explains the part of a box in the diagram, such as "h states". A click on the
// box highlights the part and scrolls to its row.
function addRow(view, box) {
  const part = box.className
  const [sign, name] = [...box.childNodes].map(node =>
    node.textContent.trim()
  )
  const row = copyOf("part")
  setText(row.firstElementChild, `${name} ${sign}`)
  row.ariaLabel = name
  view.rows[part] = row
  view.find(".parts").append(row)
  box.onclick = () => {
    light(part)
    row.scrollIntoView({block: "nearest", behavior: "smooth"})
    row.focus({preventScroll: true}) // a plain focus() would scroll without being smooth
  }
}

// Draw the step that is shown, part by part.
function drawStep(view) {
  const {steps} = view.now
  const t = view.shownStep()
  // Read before anything is written: a width that is read after it makes the browser lay out anew.
  const room = Math.max(100, view.find(".parts").clientWidth - 20)
  drawHeading(view, steps, t)
  if (view.attends) drawBars(view, steps[t], t)
  drawLikeliest(view, steps[t], view.before.steps[t], t)
  const Parts = view.attends ? AttentionParts : BottleneckParts
  const parts = new Parts(view, steps[t], t)
  for (const part of view.parts) drawRow(view, part, parts[part](), room)
  showLit(view)
}

// Write "step 2 of 6: reads h, writes e": a step reads the symbol that the step before wrote, the
// first one the start symbol. The buttons to the neighbouring steps are disabled at the ends.
function drawHeading(view, steps, t) {
  const start = `${view.symbol(view.spec.sos)} (start)`
  const [number, read, written] = view.find(".heading h3").children
  setText(number, `step ${t + 1} of ${steps.length}`)
  setText(read, t ? view.wrote(steps[t - 1]) : start)
  setText(written, view.wrote(steps[t]))
  view.find(".previous").disabled = t === 0
  view.find(".next").disabled = t === steps.length - 1
}

// Highlight the part that is "lit" (state.part, a name or a place; null: none), by a click in the
// diagram, by playing or by the tour: its box in the diagram, its row, and the label of its bars,
// if it has bars.
function showLit(view) {
  const boxes = view.find(".stages").children
  for (const [k, part] of view.parts.entries()) {
    const isLit = [part, k].includes(state.part)
    const elements = [boxes[k], view.rows[part], view.label(part)]
    for (const element of elements) element?.classList.toggle("lit", isLit)
    boxes[k].ariaCurrent = isLit ? "step" : "false"
  }
}

// Fill the row of a part with its explanation: sum, a formula with its numbers; why, some
// sentences; vectors: {name: numbers}, each drawn as bars on a canvas `room` pixels wide. Canvases
// are kept where their number stays the same, since this is done at every keystroke.
function drawRow(view, part, {sum = "", why, vectors = {}}, room) {
  const [, formulaLine, sentence, box] = view.rows[part].children
  const entries = Object.entries(vectors)
  setText(formulaLine, sum)
  setText(sentence, flowing(why))
  if (box.children.length !== entries.length) {
    const place = () =>
      make("div", {}, make("span"), make("canvas", {role: "img"}))
    box.replaceChildren(...entries.map(place))
  }
  for (const [k, [name, numbers]] of entries.entries()) {
    const [label, canvas] = box.children[k].children
    const first = numbers.slice(0, 4).map(exact).join(", ")
    setText(label, name)
    canvas.ariaLabel = `${name || part}: ${numbers.length} numbers, ${first} …`
    paintVector(canvas, numbers, room)
  }
}

// Draw the five likeliest symbols of step t with their probabilities. before: the same step without
// the user's changes, undefined if there is none. If the user has changed anything, the probability
// without the changes is marked at each symbol, and the symbol that was likeliest without them is
// always shown, in place of the fifth if need be.
function drawLikeliest(view, step, before, t) {
  const shares = chancesOf(step)
  const sharesBefore = before && view.now !== view.before && chancesOf(before)
  const ids = ranked(step).slice(0, SHOWN_NEXT)
  if (sharesBefore && !ids.includes(before.likeliest))
    ids[SHOWN_NEXT - 1] = before.likeliest
  const rows = ids.flatMap(id =>
    candidate(view, id, t, shares[id], sharesBefore?.[id])
  )
  const legend = sharesBefore ? "; the tick ❙: without your changes" : ""
  setText(view.find(".beside h3"), `Likeliest next${legend}`)
  refill(view.find(".likeliest"), rows)
}

// The probabilities of all target symbols at a step, in the order of their ids.
const chancesOf = ({logits}) => probabilities(logits.data)

// The ids of the symbols that a step may write, the likeliest first. `choices` has -Infinity for
// those that it may not, such as the start symbol.
function ranked({choices: {data: logits}}) {
  const allowed = [...logits.keys()].filter(id => logits[id] > -Infinity)
  return allowed.sort((a, b) => logits[b] - logits[a])
}

// The elements for one of the likeliest symbols: a button that lets step t write it, its
// probability `share` as a bar, and as a number. before: its probability without the user's
// changes, marked on the bar; undefined if there are none.
function candidate(view, id, t, share, before) {
  const symbol = view.symbol(id)
  const number = share.toFixed(3)
  const bar = make("i", {style: `--size: ${100 * share}%`})
  const track = make("div", {className: "track"}, bar)
  if (before !== undefined) {
    const mark = {
      title: `without your changes: ${before.toFixed(3)}`,
      style: `--at: min(calc(100% - 3px), ${100 * before}%)`
    }
    track.append(make("u", mark))
  }
  const write = button(symbol, () => hold("write", t, id), {
    title: "write this symbol",
    ariaLabel: `write ${symbol}, probability ${number}`,
    className: state.write.get(t) === id ? "changed" : ""
  })
  return [write, track, make("span", {textContent: number})]
}
