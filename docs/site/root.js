// Why divide by √D? A query and eight keys of D random numbers, before any training.

const WIDTHS = [4, 16, 64, 256, 1024]
const KEYS = 8
const DRAWS = 301 // of which the table has the median
const GUESSES = [0.15, 0.4, 0.7, 1]
const UNTRAINED = 1.75 // length of a state of an untrained GRU, whatever its width

// Independent normal numbers, the same for the same seed (Box & Muller 1958).
function normals(seed) {
  const uniform = uniforms(seed)
  return () => {
    const radius = Math.sqrt(-2 * Math.log(1 - uniform()))
    return radius * Math.cos(2 * Math.PI * uniform())
  }
}

// The products of a query with each key, of D numbers of this deviation each.
function products(D, deviation, normal) {
  const sums = new Array(KEYS).fill(0)
  for (let i = 0; i < D; i++) {
    const query = deviation * normal()
    for (let j = 0; j < KEYS; j++) sums[j] += query * deviation * normal()
  }
  return sums
}

const sumOf = numbers => numbers.reduce((sum, one) => sum + one, 0)
const median = numbers =>
  numbers.sort((one, other) => one - other)[(numbers.length - 1) / 2]

// How much of a gradient passes a softmax with these weights a: the norm of its Jacobian, diag(a) -
// a aᵀ, as a share of that of equal weights.
function passed(weights) {
  const power = n => sumOf(weights.map(a => a ** n))
  const square = power(2) - 2 * power(3) + power(2) ** 2
  return Math.sqrt(Math.max(0, square) / ((KEYS - 1) / KEYS ** 2))
}

// Of many draws: the median of the largest weight and of what passes, undivided and divided.
function medians(D, deviation) {
  const normal = normals(7)
  const largest = [[], []]
  const passes = [[], []]
  for (let n = 0; n < DRAWS; n++) {
    const scores = products(D, deviation, normal)
    for (const [k, by] of [1, Math.sqrt(D)].entries()) {
      const weights = probabilities(scores.map(score => score / by))
      largest[k].push(Math.max(...weights))
      passes[k].push(passed(weights))
    }
  }
  return {largest: largest.map(median), passes: passes.map(median)}
}

// uncovered: the kinds of numbers whose weights have been seen; after both, the page sums up.
const chosen = {seed: 1, uncovered: new Set(), guess: null}
const width = () => WIDTHS[by("width").value]
const kind = () => by("numbers").value

function deviationOf(D) {
  return kind() === "gru" ? UNTRAINED / Math.sqrt(D) : 1
}

function show() {
  const D = width()
  const deviation = deviationOf(D)
  const scores = products(D, deviation, normals(chosen.seed))
  setText(by("width-value"), `${D}`)
  setText(by("deviation"), `each of deviation ${deviation.toFixed(2)}`)
  showKeys(0, scores)
  showKeys(
    1,
    scores.map(score => score / Math.sqrt(D))
  )
  const isUncovered = chosen.uncovered.has(kind())
  by("ask").hidden = isUncovered
  by("found").hidden = !isUncovered
  by("training").hidden = chosen.uncovered.size < 2
  document.body.classList.toggle("covered", !isUncovered)
  if (isUncovered) showMedians(D, medians(D, deviation))
}

// A row for each key: its score and its weight.
function showKeys(way, scores) {
  const weights = probabilities(scores)
  const best = Math.max(...weights)
  const rows = scores.map((score, j) => {
    const share = `${(100 * weights[j]).toFixed(1)}%`
    const bar = make("i", {className: weights[j] === best ? "best" : ""})
    bar.style.width = share
    const cells = [
      `h${"₁₂₃₄₅₆₇₈"[j]}`,
      score.toFixed(1).replace("-0.0", "0.0")
    ].map(textContent => make("td", {textContent}))
    const weight = make("td", {textContent: weights[j].toFixed(3)})
    return make(
      "tr",
      {},
      ...cells,
      make("td", {className: "size"}, bar),
      weight
    )
  })
  by(`way-${way}`).replaceChildren(...rows)
}

function showMedians(D, {largest, passes}) {
  by("next").hidden = chosen.uncovered.has("gru")
  const named = numbers =>
    numbers.map(value => Number(value.toPrecision(2))).join(" and ")
  const [undivided, divided] = passes
  setText(by("largest"), `The best of 8 weights: ${named(largest)}.`)
  setText(
    by("passes"),
    `The gradient that passes the softmax: ${named(passes)}, where that of equal weights is 1.`
  )
  const isLost = undivided < 0.5 * divided
  const why = kind() === "gru" ? ofGRU(largest) : ofVariance1(D, isLost)
  setText(by("so"), why)
  by("so").classList.toggle("lost", isLost)
}

function ofGRU([undivided]) {
  const soft =
    undivided < 0.25
      ? "Here the softmax is soft either way"
      : "Here the best key usually has less than half of the weight, even without the division"
  return `${soft}: the division has nothing to mend. These states have a length of about
    ${UNTRAINED} whatever their width: PyTorch's initialisation divides already.`
}

function ofVariance1(D, isLost) {
  if (isLost)
    return "Without the division the softmax has decided before anything is learned."
  return `At D = ${D} the scores are √D = ${Math.sqrt(D)} times as large without the division:
    the best key has more of the weight, but a gradient still passes. Move D to the right.`
}

// ---- the guess ----

function prepareGuesses() {
  for (const value of GUESSES) {
    const press = ({target}) => {
      for (const other of by("guesses").children)
        other.ariaPressed = String(other === target)
      chosen.guess = value
    }
    by("guesses").append(button(short(value), press, {ariaPressed: "false"}))
  }
  by("uncover").onclick = uncover
}

// Show the other kind of numbers: covered, with a question, until they were uncovered once.
function change() {
  chosen.guess = null
  for (const one of by("guesses").children) one.ariaPressed = "false"
  setText(by("verdict"), "")
  show()
}

function uncover() {
  const D = width()
  const [found] = medians(D, deviationOf(D)).largest
  const nearest = GUESSES.reduce((best, value) =>
    Math.abs(value - found) < Math.abs(best - found) ? value : best
  )
  chosen.uncovered.add(kind())
  if (chosen.guess !== null) {
    const wrong = `wrong, it is ${short(found)}`
    const verdict = chosen.guess === nearest ? "right" : wrong
    setText(by("verdict"), `You guessed ${short(chosen.guess)}: ${verdict}.`)
  }
  show()
}

by("numbers").oninput = change
by("width").oninput = () => {
  setText(by("verdict"), "") // it was about another width
  show()
}
by("take-gru").onclick = () => {
  by("numbers").value = "gru"
  change()
  by("ask").scrollIntoView({block: "nearest"})
}
by("draw").onclick = () => {
  chosen.seed += 1
  show()
}
by("back")?.toggleAttribute("hidden", self !== top) // the site's page around it leads there
prepareGuesses()
show()
