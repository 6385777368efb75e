// The charts of training: the loss; what is right of the strings of the exam; and the share of
// strings of recent batches that are right, by their length.

const CHART = {height: 84, left: 26}
const DASHES = [[], [6, 4], [2, 3]] // of the curves
const STROKES = ["━", "┅", "┈"] // the same, as text
const SHARES = {
  given: "letters, after the right ones",
  own: "letters, after its own",
  whole: "whole strings"
}

class Chart {
  // most: the value at the top; told: what the chart shows.
  constructor(canvas, most, told) {
    this.canvas = canvas
    this.most = most
    this.told = told
    this.width = canvas.parentNode.clientWidth
    this.pen = new Pen(canvas, this.width, CHART.height)
    this.colours = [look.positive, look.negative, look.quiet]
    this.mark(0, "0")
  }

  // The height of a value.
  y(value) {
    return 8 + (CHART.height - 24) * (1 - Math.min(1, value / this.most))
  }

  mark(value, text) {
    const y = this.y(value)
    this.pen.line(CHART.left, y, this.width, y, look.line, 1)
    this.note(CHART.left - 4, y, text)
  }

  note(x, y, text, align = "end") {
    this.pen.text(x, y, text, 10, look.quiet, align)
  }

  // curves: [name, points [batch, value]]. Names and latest values stand in the caption; digits:
  // how many decimals of these.
  curves(curves, digits) {
    const batches = Math.max(50, training.step)
    const named = curves.map(([name, points], k) => {
      const latest = points.at(-1)?.[1].toFixed(digits)
      const stroke = curves.length > 1 && STROKES[k]
      return [stroke, name, latest].filter(Boolean).join(" ")
    })
    for (const [k, [, points]] of curves.entries())
      this.curve(points, k, batches)
    this.note(this.width, CHART.height - 6, `batch ${batches}`)
    say(this.canvas.parentNode.querySelector("small"), named.join("  "))
    this.canvas.ariaLabel = `${this.told}: ${named.join(", ")}`
  }

  // The k-th curve, through points [batch, value]; `batches` is the right end of the chart.
  curve(points, k, batches) {
    const {context} = this.pen
    const room = this.width - CHART.left
    context.setLineDash(DASHES[k])
    context.strokeStyle = this.colours[k]
    context.lineWidth = 2
    context.beginPath()
    for (const [batch, value] of points) {
      context.lineTo(CHART.left + (room * batch) / batches, this.y(value))
    }
    context.stroke()
    context.setLineDash([])
  }
}

function drawTraining() {
  if (!training.worker) return
  const [losses, exams, lengths] = by("train").querySelectorAll("canvas")
  drawLosses(losses)
  drawExams(exams)
  drawLengths(lengths)
}

// The name of a model that is not alone.
const nameBeside = ({name}) => (data.models.length > 1 ? name : "")

// The losses, below that of a guess in which all symbols are equally likely.
function drawLosses(canvas) {
  const guess = Math.log(data.models[0].target.tokens.length)
  const firsts = training.losses.map(([first]) => first ?? 0)
  const told = `loss, after ${training.step} batches; of a guess ${guess.toFixed(1)}`
  const chart = new Chart(canvas, 1.1 * Math.max(guess, ...firsts), told)
  const curves = data.models.map((model, k) => [
    nameBeside(model),
    [...training.losses[k].entries()]
  ])
  chart.mark(guess, guess.toFixed(1))
  chart.note(chart.width, chart.y(guess) - 7, "a guess")
  chart.curves(curves, 3)
}

// The results of the exams: of one model all three shares, of two only how many whole strings each
// has right, since six curves could not be told apart.
function drawExams(canvas) {
  const shares = data.models.length > 1 ? {whole: " strings"} : SHARES
  const curves = data.models.flatMap((model, k) =>
    Object.entries(shares).map(([share, name]) => [
      nameBeside(model) + name,
      training.exams.map(([batch, found]) => [batch, found[k][share]])
    ])
  )
  const chart = new Chart(
    canvas,
    1,
    "right, of strings that are not trained on"
  )
  chart.mark(1, "1")
  chart.curves(curves, 2)
}

// For each length of a string a bar: the share that is right, none before an exam had this length.
// Of two models, two bars.
function drawLengths(canvas) {
  const [shortest, longest] = data.models[0].trained
  const chart = new Chart(canvas, 1)
  const each = (chart.width - CHART.left) / (longest - shortest + 1)
  const told = []
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
  canvas.ariaLabel = `share of strings that are right, ${told.join(", ")}`
}

// The bar of model k, beside that of the other.
function drawShare(chart, left, room, share, k) {
  const {pen, colours} = chart
  const size = room / data.models.length
  const x = left + k * size
  const top = chart.y(share)
  const height = chart.y(0) - top
  if (!height) return
  if (k) pen.frame(x + 1.5, top, Math.max(1, size - 3), height, colours[k], 2)
  else pen.fill(x, top, Math.max(1, size - 1), height, colours[k])
}
