// A vector as rows of bars from a middle line: positive numbers upwards, negative ones downwards.

const BAR = 22

function paintVector(canvas, values, look, room, numbers) {
  const largest = Math.max(1e-9, ...values.map(Math.abs))
  const {columns, width, height} = vectorLayout(values.length, room, numbers)
  const rows = Math.ceil(values.length / columns)
  const pen = new CanvasPen(canvas, columns * width, rows * height)
  for (const [k, value] of values.entries()) {
    const x = (k % columns) * width
    const y = Math.floor(k / columns) * height
    const size = ((Math.abs(value) / largest) * BAR) / 2
    const [up, colour] = value < 0 ? [0, look.negative] : [size, look.positive]
    pen.fill(x, y, width - 1, BAR, look.soft)
    pen.fill(x, y + BAR / 2 - up, width - 1, size, colour)
    if (numbers)
      pen.text(x + width / 2, y + BAR + 8, inVector(value), 11, look.text)
  }
}

// Rows of one length, as few as fit.
function vectorLayout(count, room, numbers) {
  const narrowest = numbers ? 40 : 5
  const rows = Math.ceil(count / Math.max(1, Math.floor(room / narrowest)))
  const columns = Math.ceil(count / rows)
  const width = Math.max(narrowest, Math.min(12, Math.floor(room / columns)))
  return {columns, width, height: BAR + (numbers ? 16 : 2)}
}

function inVector(value) {
  return Math.abs(value) < 10
    ? value.toFixed(3).replace(/^(-?)0\./, "$1.")
    : short(value)
}
