// The two charts of training: the loss, and the share of strings that are right, by their length.

const CHART = {height: 84, left: 26}
const DASHES = [[], [6, 4]] // of each model's curve

class Chart {
  constructor(canvas) {
    this.canvas = canvas
    this.width = canvas.parentNode.clientWidth
    this.pen = new CanvasPen(canvas, this.width, CHART.height)
    this.colours = [look.positive, look.negative]
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
}

function drawTraining() {
  if (!training.worker) return
  const [curve, bars] = by("train").querySelectorAll("canvas")
  drawLosses(new Chart(curve))
  drawLengths(new Chart(bars))
}

function drawLosses(chart) {
  const guess = Math.log(data.models[0].target.tokens.length)
  const largest =
    1.1 * Math.max(guess, ...training.losses.map(([first]) => first ?? 0))
  const steps = Math.max(50, training.step)
  chart.mark(0, "0")
  chart.mark(guess / largest, guess.toFixed(1))
  chart.note(chart.width, chart.y(guess / largest) - 7, "a guess")
  chart.note(chart.width, CHART.height - 6, `batch ${steps}`)
  for (const [k, losses] of training.losses.entries())
    drawCurve(chart, losses, k, steps, largest)
  const named = lossNames()
  const after = `loss, after ${training.step} batches; of a guess ${guess.toFixed(1)}`
  say(by("train-loss"), named.join("  "))
  chart.canvas.ariaLabel = `${after}: ${named.join(", ")}`
}

// The latest loss of each model.
function lossNames() {
  return data.models.map(({name}, k) => {
    const value = training.losses[k].at(-1)?.toFixed(3) ?? ""
    return data.models.length > 1 ? `${k ? "┅" : "━"} ${name} ${value}` : value
  })
}

function drawCurve(chart, losses, k, steps, largest) {
  const {context} = chart.pen
  const room = chart.width - CHART.left
  const every = Math.max(1, Math.floor(losses.length / chart.width))
  context.setLineDash(DASHES[k])
  context.strokeStyle = chart.colours[k]
  context.lineWidth = 2
  context.beginPath()
  for (let at = 0; at < losses.length; at += every) {
    context.lineTo(
      CHART.left + (room * at) / steps,
      chart.y(losses[at] / largest)
    )
  }
  context.stroke()
  context.setLineDash([])
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
