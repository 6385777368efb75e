// A vector as rows of bars from a middle line: positive numbers upwards, negative ones downwards.

const BAR = 22 // the height of a bar's box in pixels

// Draw a vector, `room` pixels wide at the most. The largest absolute value fills half of a box:
// the upper half if it is positive, else the lower one.
function paintVector(canvas, values, room) {
  const largest = Math.max(1e-9, ...values.map(Math.abs))
  const {rows, columns, width, height} = vectorLayout(values.length, room)
  const pen = new Pen(canvas, columns * width, rows * height)
  for (const [k, value] of values.entries()) {
    const x = (k % columns) * width
    const y = Math.floor(k / columns) * height
    const middle = y + BAR / 2
    const size = ((Math.abs(value) / largest) * BAR) / 2
    const [top, colour] =
      value < 0 ? [middle, look.negative] : [middle - size, look.positive]
    pen.fill(x, y, width - 1, BAR, look.soft)
    pen.fill(x, top, width - 1, size, colour)
    if (state.numbers)
      pen.text(x + width / 2, y + BAR + 8, short(value), 11, look.text)
  }
}

// How `count` bars are arranged: in how many rows, how many in a row, and the size of a box in
// pixels. There are as few rows as possible, all of one length but the last. With numbers below the
// bars a box has to be wider and higher.
function vectorLayout(count, room) {
  const narrowest = state.numbers ? 40 : 5
  const widest = Math.max(narrowest, 12)
  const fitting = Math.max(1, Math.floor(room / narrowest))
  const rows = Math.ceil(count / fitting)
  const columns = Math.ceil(count / rows)
  const width = between(Math.floor(room / columns), narrowest, widest)
  return {
    rows,
    columns,
    width,
    height: BAR + (state.numbers ? 16 : 2)
  }
}
