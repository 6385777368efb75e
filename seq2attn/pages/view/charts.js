// The charts of a page that trains: the loss; how much of new strings is right (the "exam", every
// 20 batches); and which share of recent training strings was right, by their length.
//
// `training` (train.js) holds what they show: losses[model][batch], exams: [batch, results of each
// model], and right[model]: Map from a length to [strings that were right, all strings].

const CHART = {height: 84, left: 26} // in pixels; `left` is where the vertical axis is
const DASHES = [[], [6, 4], [2, 3]] // the dash pattern of each curve
const STROKES = ["━", "┅", "┈"] // the same in a caption
const SHARES = {
  given: "letters, after the right ones",
  own: "letters, after its own",
  whole: "whole strings, after its own"
}

class Chart {
  // Begin a chart of values from 0 to `most`.
  constructor(canvas, most) {
    this.canvas = canvas
    this.most = most
    this.width = canvas.parentNode.clientWidth
    this.pen = new Pen(canvas, this.width, CHART.height)
    this.colours = [look.positive, look.negative, look.quiet]
    this.mark(0, "0")
  }

  // The y of a value on the canvas: 8 pixels are free above, 16 below for names.
  y(value) {
    return 8 + (CHART.height - 24) * (1 - Math.min(1, value / this.most))
  }

  // Draw a horizontal line at a value, with a label at the axis.
  mark(value, label) {
    const y = this.y(value)
    this.pen.line(CHART.left, y, this.width, y, look.line, 1)
    this.note(CHART.left - 4, y, label)
  }

  note(x, y, text, align = "end") {
    this.pen.text(x, y, text, 10, look.quiet, align)
  }

  // Draw curves, each [name, points], a point being [batch, value]. The caption and the screen
  // reader's label get every name with its latest value. digits: how many of a value stand after
  // the point. about: what the chart shows, for screen readers.
  curves(curves, digits, about) {
    const lastBatch = Math.max(50, training.step)
    const captions = curves.map(([name, points], k) => {
      const latest = points.at(-1)?.[1].toFixed(digits)
      const stroke = curves.length > 1 && STROKES[k]
      return [stroke, name, latest].filter(Boolean).join(" ")
    })
    for (const [k, [, points]] of curves.entries())
      this.curve(points, k, lastBatch)
    this.note(this.width, CHART.height - 6, `batch ${lastBatch}`)
    setText(
      this.canvas.parentNode.querySelector("small"),
      captions.join("  ")
    )
    this.canvas.ariaLabel = `${about}: ${captions.join(", ")}`
  }

  // Draw the k-th curve through points [batch, value]; `lastBatch` is at the right edge.
  curve(points, k, lastBatch) {
    const {context} = this.pen
    const room = this.width - CHART.left
    context.setLineDash(DASHES[k])
    context.strokeStyle = this.colours[k]
    context.lineWidth = 2
    context.beginPath()
    for (const [batch, value] of points) {
      context.lineTo(CHART.left + (room * batch) / lastBatch, this.y(value))
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

// The name of a model, if the page has two; "" if it has one, which needs no name.
const nameBeside = ({name}) => (hasOneModel ? "" : name)

// Draw the loss of each batch. A line marks the loss of a guess in which all symbols are equally
// likely, ln(number of symbols): a model that has learned anything is below it. Of two models
// small differences are luck, and not told.
function drawLosses(canvas) {
  const guess = Math.log(firstModel.target.tokens.length)
  const firstLosses = training.losses.map(([first]) => first ?? 0)
  const highest = 1.1 * Math.max(guess, ...firstLosses)
  const level = guess.toFixed(1)
  const chart = new Chart(canvas, highest)
  const curves = models.map((model, k) => [
    nameBeside(model),
    [...training.losses[k].entries()]
  ])
  chart.mark(guess, level)
  chart.note(chart.width, chart.y(guess) - 7, "a guess")
  chart.curves(
    curves,
    hasOneModel ? 3 : 1,
    `loss, after ${training.step} batches; of a guess ${level}`
  )
}

// Draw the results of the exams on new strings. One model gets three curves: the letters that are
// right after the right ones, those after its own, and whole strings. Of two models only whole
// strings are drawn: six curves could not be told apart.
function drawExams(canvas) {
  const shares = hasOneModel ? SHARES : {whole: " strings"}
  const curves = models.flatMap((model, k) =>
    Object.entries(shares).map(([share, name]) => [
      nameBeside(model) + name,
      training.exams.map(([batch, results]) => [batch, results[k][share]])
    ])
  )
  const chart = new Chart(canvas, 1)
  chart.mark(1, "1")
  chart.curves(curves, 2, "right, of strings that are not trained on")
}

// Draw a bar for each length of training strings, or two for two models: the share that was right.
// A length that no batch has had yet counts as 0. Where bars are narrow, only every fifth length is
// written below.
function drawLengths(canvas) {
  const [shortest, longest] = firstModel.trained
  const chart = new Chart(canvas, 1)
  const room = (chart.width - CHART.left) / (longest - shortest + 1)
  const descriptions = []
  chart.mark(1, "1")
  for (let length = shortest; length <= longest; length++) {
    const x = CHART.left + (length - shortest) * room
    if (room > 14 || length % 5 === 0)
      chart.note(x + room / 2, CHART.height - 6, `${length}`, "center")
    for (const [k, byLength] of training.right.entries()) {
      const [right, all] = byLength.get(length) ?? [0, 1]
      const share = right / all
      drawShare(chart, x + room * 0.1, room * 0.8, share, k)
      descriptions.push(`length ${length}: ${share.toFixed(2)}`)
    }
  }
  canvas.ariaLabel = `share of strings that are right, ${descriptions.join(", ")}`
}

// Draw the bar of model k for one length, which starts at x = `left`: the bars of all models stand
// side by side in `room` pixels. The first model's is filled, the second's only has an outline.
function drawShare(chart, left, room, share, k) {
  const {pen, colours} = chart
  const width = room / models.length
  const x = left + k * width
  const top = chart.y(share)
  const height = chart.y(0) - top
  if (!height) return
  if (k)
    pen.frame(x + 1.5, top, Math.max(1, width - 3), height, colours[k], 2)
  else pen.fill(x, top, Math.max(1, width - 1), height, colours[k])
}
