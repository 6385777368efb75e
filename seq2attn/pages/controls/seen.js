// What the tour says of the answers of the models.

// The steps that write a symbol of the answer: all but the last, which writes its end.
const writing = ({now: {steps, finished}}) => counted(steps.length - finished)

function answerOf(view, {steps} = view.now) {
  const written = steps.filter(step => step.written !== view.spec.eos)
  return written.map(step => view.wrote(step)).join("")
}

// Where a step attends most.
function strongest(view, t, {steps} = view.now) {
  const {data: row} = steps[t].weights
  const j = peak(row)
  return {
    j,
    symbol: view.sources[j],
    value: row[j],
    weight: short(row[j])
  }
}

const place = ({symbol, j}) => `${symbol}, position ${j + 1}`
const positions = view => view.sources.map((symbol, j) => symbol + sub(j + 1))
const letters = view => [...new Set(view.sources.slice(0, view.count))]

const firstWrong = view =>
  view.now.steps.findIndex((step, t) => view.isWrong(step, t))

// The first step that the changes made write something else, or the first.
function firstChanged({now, before}) {
  const isOther = (step, t) => step.written !== before.steps[t]?.written
  return Math.max(0, now.steps.findIndex(isOther))
}

// A position that the first step does not attend to by itself, with another symbol where there is
// one.
function elsewhere(view) {
  const {symbol} = strongest(view, 0, view.before)
  const isOther = (other, j) => j > 0 && other !== symbol
  return Math.max(0, view.sources.slice(0, view.count).findIndex(isOther))
}

// Which way the largest weight moves while the answer is written.
function direction(view) {
  const peaks = writing(view).map(t => strongest(view, t).j)
  const moves = peaks.slice(1).map((j, k) => Math.sign(j - peaks[k]))
  if (!moves.some(Boolean)) return "it stays"
  if (!moves.includes(-1)) return "to the right"
  return moves.includes(1) ? "it jumps" : "to the left"
}

const endsAsBefore = ({now, before}) =>
  now.finished && now.steps.length === before.steps.length

const isSame = view => answerOf(view) === answerOf(view, view.before)

function taught(view) {
  return view.right
    ? `and should write ${rightText(view)}`
    : "and writes an answer"
}

function compared(view) {
  const now = answerOf(view)
  const before = answerOf(view, view.before)
  return isSame(view)
    ? `The answer stays ${now}`
    : `The answer was ${before} and is now ${now}`
}

function judged(view) {
  const wrong = view.right ? `; right is ${rightText(view)}` : ""
  return `It writes ${answerOf(view)}${isRight(view) ? ", which is right" : wrong}.`
}

// A string of so many symbols: the first example, over and over.
function textOf(view, count) {
  const word = Array.from(data.models[0].examples[0].split("\t")[0])
  const symbols = counted(count).map(k => word[k % word.length])
  return symbols.join(view.spec.source.separator)
}

const total = numbers => numbers.reduce((sum, one) => sum + one, 0)

// The empty positions that a string lacks to be as long as the longest of training, and the share
// of a step's attention that goes to empty positions.
const lacking = view =>
  between(view.spec.trained[1] - view.count, 1, MOST_PADDING)
const emptyShare = (view, t) =>
  total(view.now.steps[t].weights.data.slice(view.ids.length))

// ---- two models ----

// Of two models, the one that is wrong where the other is right.
let loser
let winner

function rivals() {
  loser = views.find(view => !isRight(view))
  winner = views.find(isRight)
  return loser && winner
}

function differing(kind) {
  const names = new Set(views.map(({spec}) => spec.parts[kind]?.name))
  return views.length === 2 && names.size === 2
}

const each = tellOne =>
  views.map(view => `${tellOne(view)} (${view.spec.name})`).join(" and ")
const modelNames = () => views.map(view => view.spec.name)

// What two models differ in, as a sentence: a formula for a score or a window, else a summary.
function contrast() {
  const called = ({name, formula, summary}, kind) => {
    if (name === "none") return "nothing"
    const isFormula = formula && /score|window/.test(kind)
    return isFormula ? written(formula) : plainly(summary)
  }
  const told = ["score", "window", "history", "decoder"]
    .filter(differing)
    .map(
      kind => `${kind}: ${each(({spec}) => called(spec.parts[kind], kind))}`
    )
  return told.length ? `They differ in the ${told.join("; the ")}` : ""
}

// The model for which a number is largest.
function modelWithMost(rate) {
  const [one, other] = views
  return (rate(other) > rate(one) ? other : one).spec.name
}

// The attention that each position has had before a step.
function readBefore({now}, t) {
  const rows = now.steps.slice(0, t).map(step => step.weights.data)
  return counted(now.width).map(j => total(rows.map(row => row[j])))
}

const leastRead = () =>
  peak(readBefore(winner, state.step).map(read => -read))

function showScores(view) {
  light("score")
  view.rows.score.scrollIntoView({block: "center"})
}
