// Why divide by √D? A query and eight keys of D random numbers, before any training.

const WIDTHS = [4, 16, 64, 256, 1024]
const KEYS = 8
const DRAWS = 301 // of which the table has the median
const UNTRAINED = 1.75 // length of a state of an untrained GRU, whatever its width

// Independent normal numbers, the same for the same seed (Box & Muller 1958).
function normals(seed) {
  const uniform = uniforms(seed)
  return () => {
    const radius = Math.sqrt(-2 * Math.log(1 - uniform()))
    return radius * Math.cos(2 * Math.PI * uniform())
  }
}

// Draw a query and KEYS keys of D normal numbers each, with this standard deviation, and return the
// query's product with each key: its undivided scores.
function products(D, deviation, normal) {
  const sums = new Array(KEYS).fill(0)
  for (let i = 0; i < D; i++) {
    const query = deviation * normal()
    for (let j = 0; j < KEYS; j++) sums[j] += query * deviation * normal()
  }
  return sums
}

const median = numbers =>
  numbers.sort((one, other) => one - other)[(numbers.length - 1) / 2]

// How much of a gradient passes back through a softmax whose weights are a: the Frobenius norm of
// its Jacobian, diag(a) - a aᵀ, as a share of that for equal weights. It is 1 for a soft softmax
// and near 0 for one that has decided. The square of the norm is Σa² - 2 Σa³ + (Σa²)²; for n equal
// weights (n - 1) / n².
function passed(weights) {
  const power = n => total(weights.map(a => a ** n))
  const square = power(2) - 2 * power(3) + power(2) ** 2
  const ofEqualWeights = (KEYS - 1) / KEYS ** 2
  return Math.sqrt(Math.max(0, square) / ofEqualWeights)
}

// What the page states, as medians of many draws: {largest: [undivided, divided], the largest of
// the weights; passes: [undivided, divided], how much of a gradient passes}. Both are computed from
// the same draws, which are the same each time.
function medians(D, deviation) {
  const normal = normals(7)
  const largest = [[], []]
  const passes = [[], []]
  for (let n = 0; n < DRAWS; n++) {
    const scores = products(D, deviation, normal)
    for (const [way, divisor] of [1, Math.sqrt(D)].entries()) {
      const weights = probabilities(scores.map(score => score / divisor))
      largest[way].push(Math.max(...weights))
      passes[way].push(passed(weights))
    }
  }
  return {largest: largest.map(median), passes: passes.map(median)}
}

// What the user has chosen. The page covers the weights of each kind of numbers, "one" (of variance
// 1) or "gru", until the user has guessed; `uncovered` has the kinds that are not covered any more.
const chosen = {seed: 1, uncovered: new Set()}
const width = () => WIDTHS[by("width").value]
const kind = () => by("numbers").value

// The standard deviation of the numbers. A state of D numbers with the length L has about L / √D.
const deviationOf = D => (kind() === "gru" ? UNTRAINED / Math.sqrt(D) : 1)

// Draw the page from the chosen width and kind of numbers: two tables of the same keys, with scores
// as they are and divided by √D. Once this kind is uncovered, medians of many draws follow, and
// after both kinds what that means for training.
function show() {
  const D = width()
  const deviation = deviationOf(D)
  const scores = products(D, deviation, normals(chosen.seed))
  setText(by("width-value"), `${D}`)
  setText(by("deviation"), `each of deviation ${deviation.toFixed(2)}`)
  const divided = scores.map(score => score / Math.sqrt(D))
  showKeys("way-0", scores)
  showKeys("way-1", divided)
  const isUncovered = chosen.uncovered.has(kind())
  by("ask").hidden = isUncovered
  by("found").hidden = !isUncovered
  by("training").hidden = chosen.uncovered.size < 2
  document.body.classList.toggle("covered", !isUncovered)
  if (isUncovered) showMedians(medians(D, deviation))
}

// Fill the table with this id with a row for each key: name, score, the weight as a bar, and as a
// number.
function showKeys(id, scores) {
  const weights = probabilities(scores)
  const best = Math.max(...weights)
  const rows = scores.map((score, j) => {
    const weight = weights[j]
    const bar = make("i", {
      className: weight === best ? "best" : "",
      style: `width: ${(100 * weight).toFixed(1)}%`
    })
    const cell = text => make("td", {}, text)
    return make(
      "tr",
      {},
      cell(`h${sub(j + 1)}`),
      cell(score.toFixed(1).replace("-0.0", "0.0")),
      make("td", {className: "size"}, bar),
      cell(weight.toFixed(3))
    )
  })
  by(id).replaceChildren(...rows)
}

// State the medians of many draws, and choose one of the page's four sentences on what follows from
// them: that without the division the softmax has decided ("lost": less than half of the gradient
// passes that passes with it), or not; that it is soft either way, or not. The button that leads to
// the other kind of numbers goes once the user has been there.
function showMedians({largest, passes}) {
  by("next").hidden = chosen.uncovered.has("gru")
  const both = numbers =>
    numbers.map(value => Number(value.toPrecision(2))).join(" and ")
  const [undivided, divided] = passes
  setText(by("largest"), `The best of 8 weights: ${both(largest)}.`)
  setText(
    by("passes"),
    `The gradient that passes the softmax: ${both(passes)}, where that of equal weights is 1.`
  )
  const cases = {
    one: undivided < 0.5 * divided ? "lost" : "kept",
    gru: largest[0] < 0.25 ? "soft" : "flatter"
  }
  by("so").className = cases[kind()]
}

// ---- the guess ----

// Begin with another kind of numbers, without a guess. Its weights are covered, with a question,
// unless they have been uncovered before.
function change() {
  by("guesses").reset()
  setText(by("verdict"), "")
  show()
}

// Uncover the weights of this kind of numbers, and say whether the guess was right: whether, of the
// four guesses, it is nearest to the median of the largest weight without the division.
function uncover() {
  const D = width()
  const [found] = medians(D, deviationOf(D)).largest
  const guesses = [...by("guesses").elements]
  const guess = guesses.find(({checked}) => checked)
  const distance = ({value}) => Math.abs(value - found)
  chosen.uncovered.add(kind())
  if (guess) {
    const isNearest = guesses.every(
      other => distance(guess) <= distance(other)
    )
    const verdict = isNearest ? "right" : `wrong, it is ${short(found)}`
    setText(
      by("verdict"),
      `You guessed ${short(Number(guess.value))}: ${verdict}.`
    )
  }
  show()
  by("found").scrollIntoView({block: "nearest"})
}

by("uncover").onclick = uncover
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
show()
