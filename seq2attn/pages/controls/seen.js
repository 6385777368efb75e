// What the tour says of the answers of the models.

// The steps that write a symbol of the answer.
function writing({spec, now}) {
  return [...now.steps.keys()].filter(t => now.steps[t].written !== spec.eos)
}

function answerOf(view, {steps} = view.now) {
  const own = steps.filter(step => step.written !== view.spec.eos)
  return own.map(step => view.wrote(step)).join("")
}

// Where a step attends most.
function strongest(view, t, {steps} = view.now) {
  const {data: row} = steps[t].weights
  const j = peak(row)
  return {j, symbol: view.sources[j], value: row[j], weight: short(row[j])}
}

const place = ({symbol, j}) => `${symbol}, position ${j + 1}`
const positions = view => view.sources.map((symbol, j) => symbol + sub(j + 1))
const letters = view => [...new Set(view.sources.slice(0, view.count))]

const second = view => Math.min(1, view.now.steps.length - 1)
const third = view => Math.min(2, view.now.steps.length - 1)

// The step whose largest weight is the least, but for the first, whose query may be no state of the
// decoder.
function flattest(view) {
  let best = second(view)
  for (const t of writing(view).slice(1)) {
    if (strongest(view, t).value < strongest(view, best).value) best = t
  }
  return best
}

// Whether the softmax of that step, of the first head, would saturate without √D.
function saturates(view) {
  const scores = view.now.steps[flattest(view)].scores.data.slice(
    0,
    view.sources.length
  )
  return (
    Math.max(...probabilities(scores.map(score => score * rootOf(view)))) > 0.9
  )
}

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
  const moves = peaks.slice(1).map((j, k) => j - peaks[k])
  if (moves.every(move => move === 0)) return "it stays"
  if (moves.every(move => move >= 0)) return "to the right"
  return moves.every(move => move <= 0) ? "to the left" : "it jumps"
}

const rightText = view => view.right.map(view.symbol).join("")
const taught = view =>
  view.right ? `and should write ${rightText(view)}` : "and writes an answer"
const isSame = view => answerOf(view) === answerOf(view, view.before)
const isRight = view => view.verdict(view.now).includes("✓")

function compared(view) {
  const [now, before] = [view.now, view.before].map(result =>
    answerOf(view, result)
  )
  return now === before
    ? `The answer stays ${now}`
    : `The answer was ${before} and is now ${now}`
}

function judged(view) {
  const wrong = view.right ? `; right is ${rightText(view)}` : ""
  return `It writes ${answerOf(view)}${isRight(view) ? ", which is right" : wrong}.`
}

function longText(view) {
  const word = Array.from(data.models[0].examples[0].split("\t")[0])
  const count = view.spec.trained[1] + 6
  return counted(count)
    .map(k => word[k % word.length])
    .join(view.spec.source.separator)
}

// The probability of a symbol at a step.
const chance = (step, id) => probabilities(step.logits.data)[id]

// The empty positions that a string lacks to be as long as the longest of training, and the share
// of a step's attention that goes to empty positions.
const lacking = view =>
  between(view.spec.trained[1] - view.count, 1, MOST_PADDING)
const total = numbers => numbers.reduce((sum, one) => sum + one, 0)
const emptyShare = (view, t) =>
  total(view.now.steps[t].weights.data.slice(view.ids.length))

const vectorOf = view => bottleneck(view).vector.vectors[""]

// ---- two models ----

// Of two models, the one that is wrong where the other is right.
let loser
let winner

function rivals() {
  ;[loser, winner] = [false, true].map(right =>
    views.find(view => isRight(view) === right)
  )
  return loser && winner
}

function differing(kind) {
  return (
    views.length === 2 &&
    new Set(views.map(({spec}) => spec.parts[kind]?.name)).size === 2
  )
}

const each = tellOne =>
  views.map(view => `${tellOne(view)} (${view.spec.name})`).join(" and ")
const modelNames = () => views.map(view => view.spec.name)

// What they differ in.
function contrast() {
  const kinds = ["score", "window", "history"].filter(differing)
  if (!kinds.length) return ""
  const name = (kind, {[kind]: part}) =>
    kind === "history"
      ? part.name.replace("none", "nothing")
      : written(part.formula)
  const told = kinds.map(
    kind => `${kind}: ${each(({spec}) => name(kind, spec.parts))}`
  )
  return `They differ in the ${told.join("; the ")}`
}

// The model of which a number is largest.
function modelWithMost(rate) {
  const [one, other] = views
  return (rate(other) > rate(one) ? other : one).spec.name
}

function shortest() {
  const [first, ...others] = data.models[0].examples
  return others.reduce(
    (best, text) => (text.length < best.length ? text : best),
    first
  )
}

// The attention that each position has had before a step.
function readBefore({now}, t) {
  const sums = new Array(now.width).fill(0)
  for (const {weights} of now.steps.slice(0, t)) {
    weights.data.forEach((weight, j) => {
      sums[j] += weight
    })
  }
  return sums
}

const leastRead = () => peak(readBefore(winner, state.step).map(read => -read))

function showScores(view) {
  light("score")
  view.panel.rows.score.scrollIntoView({block: "center"})
}
