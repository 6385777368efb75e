// The answer of a model: a tile for each symbol, what is right, and what a person changed of it.

const BECAME = {
  "✓": ["mended", ", became right"],
  "✗": ["broken", ", became wrong"],
  "≠": ["", ", changed"]
}

// The answer, symbol by symbol, and beside a changed one the answer without the changes.
function drawAnswer(view, isChanged) {
  const [answer, beside] = view.root.querySelectorAll(".answer")
  const [heading, tiles] = answer.children
  const said = (isChanged ? "with your changes" : "answer") + verdict(view)
  view.differences = differences(view)
  say(heading, said)
  put(heading, "title", said)
  drawTiles(view, tiles, view.now, true)
  beside.hidden = !isChanged
  if (isChanged) drawTiles(view, beside.lastElementChild, view.before, false)
}

// How the steps differ from those without a person's changes: Map t -> "✓" of a symbol that became
// right, "✗" of one that became wrong, "≠" of others.
function differences(view) {
  const signs = new Map()
  for (const [t, step] of view.now.steps.entries()) {
    const before = view.before.steps[t]
    if (before?.written === step.written) continue
    const wasRight = Boolean(before) && !view.isWrong(before, t)
    const isRight = !view.isWrong(step, t)
    signs.set(
      t,
      !view.right || wasRight === isRight ? "≠" : isRight ? "✓" : "✗"
    )
  }
  return signs
}

const rightText = ({right, symbol}) => right.map(symbol).join("")

function isRight({now: {steps, finished}, right}) {
  const isSame = right && finished && steps.length === right.length + 1
  return Boolean(isSame) && right.every((id, t) => steps[t].written === id)
}

// What is right, as far as the task knows it.
function verdict(view) {
  const isWrong = view.right && !isRight(view)
  const isUntrained = view.spec.training && !training.step
  const wrong = isUntrained ? "not trained yet" : "✗ wrong"
  const notes = [
    view.right && (isWrong ? wrong : "✓ right"),
    lengthNote(view),
    isWrong && `right is ${rightText(view)}`
  ]
  return notes
    .filter(Boolean)
    .map(note => ` · ${note}`)
    .join("")
}

function lengthNote({count, spec: {trained}}) {
  const [shortest, longest] = trained
  if (count >= shortest && count <= longest) return ""
  return `${count > longest ? "longer" : "shorter"} than trained (${shortest}-${longest})`
}

function drawTiles(view, place, {steps, finished}, isLive) {
  const tiles = steps.map((step, t) => tile(view, step, t, isLive))
  if (!finished)
    tiles.push(make("span", {className: "open", textContent: "… no end"}))
  refill(place, tiles)
}

// A symbol of the answer as a button. isLive: of the answer that a person can change; the one
// without changes is only to be compared with.
function tile(view, step, t, isLive) {
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
    onkeydown: event => tileKey(view, event, t)
  })
}

// A key on a symbol of the answer: ← and → go to the next, Backspace takes back what was typed
// there, a letter is written in its place.
function tileKey(view, event, t) {
  const move = {ArrowRight: 1, ArrowLeft: -1}[event.key]
  const next = move && event.target.parentNode.children[t + move]
  if (next?.tagName === "BUTTON") {
    next.focus()
    choose(t + move, state.position)
  } else if (event.key === "Backspace" || event.key === "Delete") {
    state.write.delete(t)
    update()
  } else if (!move && !typeAt(view, event, t)) return
  event.preventDefault()
}

// Whether a key is a symbol to write, or one that the model does not know.
function typeAt(view, event, t) {
  const isModified = event.ctrlKey || event.metaKey || event.altKey
  if (isModified || Array.from(event.key).length !== 1) return false
  const id = view.spec.target.tokens.indexOf(event.key)
  if (id >= 0) hold("write", t, id)
  else if (event.key === " ") return false
  else toast(`The model does not write ${shownSymbol(event.key)}.`)
  return true
}
