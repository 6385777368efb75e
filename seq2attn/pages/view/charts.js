// The charts of training: the loss; what is right of the strings of the exam; and the share of
// strings of recent batches that are right, by their length.

const CHART = {height: 84, left: 26}
const DASHES = [[], [6, 4], [2, 3]] // of the curves
const STROKES = ["━", "┅", "┈"] // the same, as text
const SHARES = {
  given: "given the right ones",
  own: "its own",
  whole: "strings"
}

class Chart {
  constructor(canvas) {
    this.canvas = canvas
    this.width = canvas.parentNode.clientWidth
    this.pen = new CanvasPen(canvas, this.width, CHART.height)
    this.colours = [look.positive, look.negative, look.quiet]
  }

  // The height of a share of the scale.
  y(share) {
    return 8 + (CHART.height - 24) * (1 - Math.min(1, share))
  }

  mark(share, text) {
    const y = this.y(share)
    this.pen.line(CHART.left, y, this.width, y, look.line, 1)
    this.note(CHART.left - 4, y, text)
  }

  note(x, y, text, align = "end") {
    this.pen.text(x, y, text, 10, look.quiet, align)
  }

  // points: [batch, share of the scale]; batches: how many fit.
  curve(points, k, batches) {
    const {context} = this.pen
    const room = this.width - CHART.left
    context.setLineDash(DASHES[k])
    context.strokeStyle = this.colours[k]
    context.lineWidth = 2
    context.beginPath()
    for (const [batch, share] of points)
      context.lineTo(CHART.left + (room * batch) / batches, this.y(share))
    context.stroke()
    context.setLineDash([])
  }
}

function drawTraining() {
  if (!training.worker) return
  const [losses, exams, lengths] = by("train").querySelectorAll("canvas")
  drawLosses(new Chart(losses))
  drawExams(new Chart(exams))
  drawLengths(new Chart(lengths))
}

const batchesShown = () => Math.max(50, training.step)

function drawLosses(chart) {
  const guess = Math.log(data.models[0].target.tokens.length)
  const largest =
    1.1 * Math.max(guess, ...training.losses.map(([first]) => first ?? 0))
  const batches = batchesShown()
  chart.mark(0, "0")
  chart.mark(guess / largest, guess.toFixed(1))
  chart.note(chart.width, chart.y(guess / largest) - 7, "a guess")
  chart.note(chart.width, CHART.height - 6, `batch ${batches}`)
  for (const [k, losses] of training.losses.entries()) {
    const every = Math.max(1, Math.floor(losses.length / chart.width))
    const points = losses.map((loss, batch) => [batch, loss / largest])
    const few = points.filter(([batch]) => batch % every === 0)
    chart.curve(few, k, batches)
  }
  const named = lossNames()
  const after = `loss, after ${training.step} batches; of a guess ${guess.toFixed(1)}`
  say(by("train-loss"), named.join("  "))
  chart.canvas.ariaLabel = `${after}: ${named.join(", ")}`
}

// The latest loss of each model.
function lossNames() {
  return data.models.map(({name}, k) => {
    const value = training.losses[k].at(-1)?.toFixed(3) ?? ""
    return data.models.length > 1 ? `${STROKES[k]} ${name} ${value}` : value
  })
}

// What the curves of the exam show: of one model its three shares, of two how many whole strings
// each has right.
function examined() {
  if (data.models.length > 1)
    return data.models.map(({name}, k) => [name, found => found[k].whole])
  return Object.entries(SHARES).map(([share, name]) => [
    name,
    ([found]) => found[share]
  ])
}

function drawExams(chart) {
  const {exams} = training
  const named = []
  chart.mark(0, "0")
  chart.mark(1, "1")
  for (const [k, [name, share]] of examined().entries()) {
    const points = exams.map(([batch, found]) => [batch, share(found)])
    const value = points.at(-1)?.[1].toFixed(2) ?? ""
    chart.curve(points, k, batchesShown())
    named.push(`${STROKES[k]} ${name} ${value}`)
  }
  say(by("train-exam"), named.join("  "))
  chart.canvas.ariaLabel = `right, of strings that are not trained on: ${named.join(", ")}`
}

function drawLengths(chart) {
  const [shortest, longest] = data.models[0].trained
  const each = (chart.width - CHART.left) / (longest - shortest + 1)
  const told = []
  chart.mark(0, "0")
  chart.mark(1, "1")
  for (let length = shortest; length <= longest; length++) {
    const x = CHART.left + (length - shortest) * each
    const isNamed = each > 14 || length % 5 === 0
    if (isNamed)
      chart.note(x + each / 2, CHART.height - 6, `${length}`, "middle")
    training.right.forEach((found, k) => {
      const [good, all] = found.get(length) ?? [0, 1]
      drawShare(chart, x + each * 0.1, each * 0.8, good / all, k)
      told.push(`length ${length}: ${(good / all).toFixed(2)}`)
    })
  }
  chart.canvas.ariaLabel = `share of strings that are right, ${told.join(", ")}`
}

// The bar of model k, beside that of the other.
function drawShare(chart, left, room, share, k) {
  const {pen, colours} = chart
  const size = room / data.models.length
  const x = left + k * size
  const top = chart.y(share)
  const height = chart.y(0) - top
  if (k) pen.frame(x + 1.5, top, Math.max(1, size - 3), height, colours[k], 2)
  else pen.fill(x, top, Math.max(1, size - 1), height, colours[k])
}
