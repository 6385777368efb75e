// The answer of a model: a tile for each symbol, whether it is right, and how it differs from the
// answer without the user's changes.
//
// `view` is the View of one model: view.now is its decoding with the user's changes, view.before
// the one without them, each {steps, finished: whether it wrote the end}.

// For each sign of `differences`: a class of the tile, and words for a screen reader.
const DIFFERENCES = {
  "✓": ["mended", ", became right"],
  "✗": ["broken", ", became wrong"],
  "≠": ["", ", changed"]
}

// Draw the answer with its heading, which judges nothing while the tour hides a step. If the user
// has changed anything, the answer without the changes is drawn beside it.
function drawAnswer(view, isChanged) {
  const [answer, untouched] = view.root.querySelectorAll(".answer")
  const [heading, tiles] = answer.children
  const isWhole = view.now.steps.every((_, t) => isUncovered(t))
  const text = isWhole ? headingText(view, isChanged) : "answer"
  view.differences = differences(view)
  setText(heading, text)
  setIfChanged(heading, "title", text) // the whole of it, where the heading is cut off
  drawTiles(view, tiles, view.now, true)
  untouched.hidden = !isChanged
  if (isChanged)
    drawTiles(view, untouched.lastElementChild, view.before, false)
}

// Which steps write another symbol with the user's changes (view.now) than without them
// (view.before): a Map from the step t to "✓" if the symbol became right by the changes, "✗" if it
// became wrong, and "≠" if it was wrong and still is, or if the right answer is not known.
function differences(view) {
  const signs = new Map()
  for (const [t, step] of view.now.steps.entries()) {
    const before = view.before.steps[t]
    if (before?.written === step.written) continue
    const wasRight = isRightAt(view, before, t)
    const isRight = isRightAt(view, step, t)
    if (!view.right || wasRight === isRight) signs.set(t, "≠")
    else signs.set(t, isRight ? "✓" : "✗")
  }
  return signs
}

// Whether step t, if there is one, writes what is right there. After the end of the right answer
// nothing is.
function isRightAt(view, step, t) {
  const isBeyond = t > view.right?.length
  return Boolean(step) && !isBeyond && !view.isWrong(step, t)
}

const rightText = ({right, symbol}) => right.map(symbol).join("")

// Whether the whole answer is right, which includes that it ends where it should; false if the
// right answer is not known.
function isRight({now: {steps, finished}, right}) {
  if (!right || !finished || steps.length !== right.length + 1) return false
  return right.every((id, t) => steps[t].written === id)
}

// What a model would write itself at each step, where the user writes something else, too.
const ownText = ({now: {steps}, symbol}) =>
  steps.map(step => symbol(step.likeliest)).join("")

// The heading of an answer, such as "answer · ✗ wrong · right is olleh". If the task does not know
// the right answer, nothing is said of it. A model that this page is about to train is not called
// wrong before its first batch. Nor is it called right for symbols that the user wrote, where it
// would have written others.
function headingText(view, isChanged) {
  const isWrong = view.right && !isRight(view)
  const isYours = view.now.steps.some(
    ({likeliest, written}) => likeliest !== written
  )
  const good = isYours ? `it would write ${ownText(view)}` : "✓ right"
  const isUntrained = view.spec.training && !training.step
  const wrong = isUntrained ? "not trained yet" : "✗ wrong"
  const parts = [
    isChanged ? "with your changes" : "answer",
    view.right && (isWrong ? wrong : good),
    lengthNote(view),
    isWrong && `right is ${rightText(view)}`
  ]
  return parts.filter(Boolean).join(" · ")
}

function lengthNote({count, spec: {trained}}) {
  const [shortest, longest] = trained
  if (count >= shortest && count <= longest) return ""
  return `${count > longest ? "longer" : "shorter"} than trained (${shortest}-${longest})`
}

function drawTiles(view, place, {steps, finished}, isEditable) {
  const tiles = steps.map((step, t) => tile(view, step, t, isEditable))
  if (!finished)
    tiles.push(make("span", {className: "open", textContent: "… no end"}))
  refill(place, tiles)
}

// The symbol that step t wrote, as a button: a click chooses the step, and a key typed on it writes
// another symbol. isEditable: false in the answer without the user's changes, which is only there
// for comparison: its tiles are disabled, and only wrong symbols are marked.
function tile(view, step, t, isEditable) {
  const symbol = view.wrote(step)
  const isWrong = view.isWrong(step, t)
  const isYours = isEditable && state.write.has(t)
  const sign = isEditable && !isYours ? view.differences.get(t) : undefined
  const [differenceClass, became] = DIFFERENCES[sign] ?? ["", ""]
  const should = isWrong
    ? `, wrong; right is ${view.symbol(view.rightAt(t))}`
    : ""
  return button(symbol, () => choose(t, state.position), {
    disabled: !isEditable,
    title: isEditable ? `step ${t + 1}: click, then type another symbol` : "",
    ariaLabel: `step ${t + 1}: ${symbol}${became}${should}`,
    className: classesOf({
      chosen: isEditable && t === state.step,
      unseen: isEditable && !isUncovered(t),
      differs: sign,
      [differenceClass]: differenceClass,
      written: isYours,
      special: step.written < UNKNOWN, // such as the end
      wrong: isWrong
    }),
    onkeydown: event => tileKey(view, event, t)
  })
}

// A key pressed on the tile of step t: ← and → move to its neighbour, if there is one; Backspace
// and Delete undo what the user wrote there; and a symbol is written in its place. Any other key
// goes on to the browser and to `onKey`, which listens on the whole page.
function tileKey(view, event, t) {
  const move = {ArrowRight: 1, ArrowLeft: -1}[event.key]
  const neighbour = move && event.target.parentNode.children[t + move]
  if (neighbour?.tagName === "BUTTON") {
    neighbour.focus()
    choose(t + move, state.position)
  } else if (event.key === "Backspace" || event.key === "Delete") {
    state.write.delete(t)
    update()
  } else if (!move && !typeAt(view, event, t)) return
  event.preventDefault()
}

// Let step t write the symbol of a key instead of the model's own; say so if the model has no such
// symbol. Returns whether the key was used: not if it is a command such as Ctrl+C, has a name such
// as "Tab", or is a space that the model does not write, which presses the button as usual.
function typeAt(view, event, t) {
  const isCharacter = Array.from(event.key).length === 1
  if (isCommand(event) || !isCharacter) return false
  const id = view.spec.target.tokens.indexOf(event.key)
  if (id >= 0) hold("write", t, id)
  else if (event.key === " ") return false
  else toast(`The model does not write ${shownSymbol(event.key)}.`)
  return true
}
