// A vector as rows of bars from a middle line: positive numbers upwards, negative ones downwards.

const BAR = 22

// Draw a vector into `room` pixels of width; the largest number has the full height.
function paintVector(canvas, values, room) {
  const largest = Math.max(1e-9, ...values.map(Math.abs))
  const {columns, width, height} = vectorLayout(values.length, room)
  const rows = Math.ceil(values.length / columns)
  const pen = new Pen(canvas, columns * width, rows * height)
  for (const [k, value] of values.entries()) {
    const x = (k % columns) * width
    const y = Math.floor(k / columns) * height
    const size = ((Math.abs(value) / largest) * BAR) / 2
    const top = y + BAR / 2 - (value < 0 ? 0 : size)
    pen.fill(x, y, width - 1, BAR, look.soft)
    pen.fill(
      x,
      top,
      width - 1,
      size,
      value < 0 ? look.negative : look.positive
    )
    if (state.numbers)
      pen.text(x + width / 2, y + BAR + 8, short(value), 11, look.text)
  }
}

// Rows of one length, as few as fit.
function vectorLayout(count, room) {
  const narrowest = state.numbers ? 40 : 5
  const rows = Math.ceil(count / Math.max(1, Math.floor(room / narrowest)))
  const columns = Math.ceil(count / rows)
  const width = between(
    Math.floor(room / columns),
    narrowest,
    Math.max(narrowest, 12)
  )
  return {columns, width, height: BAR + (state.numbers ? 16 : 2)}
}
