// What the guided tour says of the answers of the models: the questions at its stops are answered
// from the numbers that the models have just computed.
//
// `view` is the View of one model; view.now is its decoding with the user's changes, view.before
// the one without them: {steps, finished}.

// The indices of the steps that write a symbol of the answer: all but the last, which writes the
// end.
const writing = ({now: {steps, finished}}) => counted(steps.length - finished)

// The answer as a text, by default that with the user's changes.
function answerOf(view, {steps} = view.now) {
  return steps
    .filter(step => step.written !== view.spec.eos)
    .map(step => view.wrote(step))
    .join("")
}

// The source position that step t attends to most: {j, symbol, weight, shown: the weight as text};
// by default the chosen step of the decoding with the user's changes.
function strongest(view, t = state.step, {steps} = view.now) {
  const {data: weights} = steps[t].weights
  const j = peak(weights)
  const weight = weights[j]
  return {
    j,
    symbol: view.sources[j],
    weight,
    shown: short(weight)
  }
}

const place = ({symbol, j}) => `${symbol}, position ${j + 1}`
const positions = view => view.sources.map((symbol, j) => symbol + sub(j + 1))
const letters = view => [...new Set(view.sources.slice(0, view.count))]

// Choose the first step that writes a wrong symbol, or step 0 if none does, or it is not known.
function chooseFirstWrong(view) {
  const isWrong = (step, t) => view.isWrong(step, t)
  choose(Math.max(0, view.now.steps.findIndex(isWrong)), null)
}

// The first step that writes another symbol because of the user's changes; 0 if none does.
const firstChanged = view => [...differences(view).keys()][0] ?? 0

// A source position to which the user can move the attention of the first step: not the first
// position, and another symbol than the step attends to by itself; 0 if there is none.
function elsewhere(view) {
  const {symbol} = strongest(view, 0, view.before)
  const isOther = (other, j) => j > 0 && other !== symbol
  return Math.max(0, view.sources.slice(0, view.count).findIndex(isOther))
}

// The positions, from 1, of the largest weight of each step that writes a symbol of the answer.
const peaks = view =>
  writing(view)
    .map(t => strongest(view, t).j + 1)
    .join(", ")

// Which way the attention moves from step to step, by the positions of the largest weights.
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

function compared(view) {
  const now = answerOf(view)
  return isSame(view)
    ? `The answer stays ${now}`
    : `The answer was ${answerOf(view, view.before)} and is now ${now}`
}

function judged(view) {
  const wrong = view.right ? `; right is ${rightText(view)}` : ""
  return `It writes ${answerOf(view)}${isRight(view) ? ", which is right" : wrong}.`
}

// A string of so many symbols: the first example, repeated and cut off.
function textOf(view, count) {
  const word = Array.from(initial().text)
  const symbols = counted(count).map(k => word[k % word.length])
  return symbols.join(view.spec.source.separator)
}

// How many empty positions make the string as long as the longest strings of training: at least 1.
const lacking = view =>
  between(view.spec.trained[1] - view.count, 1, MOST_PADDING)

// The share of a step's attention that goes to empty positions, which follow the string.
const emptyShare = (view, t) =>
  total(view.now.steps[t].weights.data.slice(view.ids.length))

// ---- pages of two models, which the tour compares ----

// The model that is wrong where the other one is right; set by `rivals`.
let loser
let winner

// Find out which of two models is wrong and which is right. Returns whether there is one of each.
function rivals() {
  loser = views.find(view => !isRight(view))
  winner = views.find(isRight)
  return loser && winner
}

// Whether the models have different parts of a kind, such as "score": with one model never.
function differing(kind) {
  const names = new Set(views.map(({spec}) => spec.parts[kind]?.name))
  return names.size === 2
}

// "0.31 (dot) and 0.28 (scaled)": what a function says of each model.
const each = tellOne =>
  views.map(view => `${tellOne(view)} (${view.spec.name})`).join(" and ")
const modelNames = () => views.map(view => view.spec.name)

// In which parts the two models differ, such as "They differ in the score: s · h (dot) and s · h /
// √D (scaled)"; "" if in none. A score or a window is told by its formula, other parts by a
// summary.
function contrast() {
  const formulaOrSummary = ({name, formula, summary}, kind) => {
    if (name === "none") return kind === "score" ? "no attention" : "nothing"
    const hasFormula = formula && (kind === "score" || kind === "window")
    return hasFormula ? written(formula) : plainly(summary)
  }
  const contrasts = ["score", "window", "history", "decoder"]
    .filter(differing)
    .map(
      kind =>
        `${kind}: ${each(({spec}) => formulaOrSummary(spec.parts[kind], kind))}`
    )
  const widths = views.map(({spec}) => spec.about.width)
  if (widths[0] !== widths[1])
    contrasts.push(`width: ${widths.join(" and ")}`)
  return contrasts.length
    ? `They differ in the ${contrasts.join("; the ")}`
    : ""
}

// The name of the model, of two, for which a function gives the larger number.
function modelWithMost(rate) {
  const [one, other] = views
  return (rate(other) > rate(one) ? other : one).spec.name
}

function showScores(view) {
  light("score")
  view.rows.score.scrollIntoView({block: "end"}) // the card is above
}
