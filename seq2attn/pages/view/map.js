// The attention map as a picture: a row for each step t, a column for each source position j, and
// in each cell (t, j) the attention weight as a colour.

// How many letters the longest of some symbols has. Accents, which take no room of their own, are
// not counted.
function widest(symbols) {
  const bare = symbols.map(symbol =>
    symbol.normalize("NFD").replace(/\p{M}/gu, "")
  )
  return Math.max(1, ...bare.map(symbol => Array.from(symbol).length))
}

// Where things lie in a map that should fit into `room` pixels: {left, top: of the first cell,
// cell: the size of a cell, size: of the letters, upright: whether the columns' names are turned by
// 90° because they are wider than a cell, width, height: of the whole}. Cells are at most `most`
// wide, but never too small to be clicked on, or to hold a number if numbers are shown.
function mapLayout({columns, rows}, room, most) {
  const longest = widest(columns)
  const left = 28 + 14 * widest(rows) // the rows' names stand there
  const fitting = (room - left - 4) / Math.max(1, columns.length)
  const least = state.numbers ? 26 : 14
  const cell = Math.max(least, Math.floor(Math.min(most, fitting)))
  const size = between(Math.round(cell * 0.5), 9, 26)
  const nameLength = longest * size * 0.62 // a letter is 0.62 of its size wide
  const upright = nameLength > cell
  const top = upright ? 14 + nameLength : size + 12
  const width = left + columns.length * cell + 3
  const height = top + rows.length * cell + 3
  return {
    left,
    top,
    cell,
    size,
    upright,
    width,
    height
  }
}

// Strokes in a cell, each from (x, y) to (X, Y), which are shares of its size: [x, y, X, Y]. From
// (0, 0) to (1, 1) is the diagonal from the upper left corner to the lower right one.
const STROKE = [[0.3, 0.7, 0.7, 0.3]]
const CROSS = [
  [0.25, 0.25, 0.75, 0.75],
  [0.75, 0.25, 0.25, 0.75]
]
const HATCH = [
  [0, 0.5, 0.5, 0],
  [0, 1, 1, 0],
  [0.5, 1, 1, 0.5]
]
const CENTRE = [
  [0.5, 0, 0.5, 0.22],
  [0.5, 0.78, 0.5, 1]
]

// Paints a map with a pen. What it shows, `map`, comes from `changedMap` in maps.js: {columns,
// rows: symbols; weights[t][j]; chosen: [t, j] or null; centres[t]: positions of the window's
// centres; different: Map t -> sign; and functions: forced(t, j): whether the user set the weight,
// banned(t, j), masked(j), outside(t, j): outside the window}.
class MapPainter {
  constructor(pen, map, layout) {
    Object.assign(this, {pen, map}, layout)
  }

  // The upper left corner of a cell; of (t + 0.5, j + 0.5), its middle.
  corner(t, j) {
    return [this.left + j * this.cell, this.top + t * this.cell]
  }

  // Paint the names of the columns, then the rows that the tour does not hide. The frame of the
  // chosen cell comes last, because it lies over the neighbouring cells.
  paint() {
    const {columns, rows, chosen} = this.map
    for (const [j, symbol] of columns.entries()) this.column(symbol, j)
    for (const [t, symbol] of rows.entries()) {
      if (!isUncovered(t)) continue
      this.row(symbol, t)
      for (const j of columns.keys()) this.mark(t, j)
      this.markCentres(t)
    }
    if (chosen && chosen[0] < rows.length) this.frameChosen(...chosen)
  }

  // Write the source symbol above its column.
  column(symbol, j) {
    const {pen, size, top} = this
    const [x] = this.corner(0, j + 0.5)
    if (this.upright)
      pen.text(x, top - 7, symbol, size, look.text, "start", true)
    else pen.text(x, top - 5 - size / 2, symbol, size, look.text)
  }

  // Write the symbol that step t wrote to the left of its row. If the user's changes have made it
  // another symbol, a sign says whether that is right now (✓), wrong now (✗), or only different
  // (≠).
  row(symbol, t) {
    const {size} = this
    const sign = this.map.different.get(t) ?? ""
    const colours = {
      "": look.text,
      "✓": look.good,
      "✗": look.bad,
      "≠": look.held
    }
    const [left, middle] = this.corner(t + 0.5, 0)
    this.pen.text(left - 8, middle, sign + symbol, size, colours[sign], "end")
  }

  // Paint a cell: its weight as a colour, or hatching outside the window; then what was done to it.
  // A cross: banned by the user; a stroke: padding that is masked; a frame: the user set its
  // weight.
  mark(t, j) {
    const {map} = this
    if (map.outside(t, j)) this.hatch(t, j)
    else this.fill(t, j, map.weights[t][j])
    if (map.banned(t, j)) this.strike(t, j, CROSS, look.held)
    if (map.masked(j)) this.strike(t, j, STROKE, "#9aa6b1")
    if (map.forced(t, j)) this.frame(t, j, 2, look.held, 3)
  }

  // Fill a cell with the colour of its weight, from the 256 that the page has for 0 to 1; and write
  // the weight into it, such as ".83", if the user wants numbers: dark on light colours.
  fill(t, j, weight) {
    const {pen, cell} = this
    const level = between(Math.round(255 * weight), 0, 255)
    pen.fill(...this.corner(t, j), cell, cell, data.colours[level])
    if (!state.numbers) return
    const text = weight.toFixed(2).replace(/^0/, "")
    const colour = weight > 0.55 ? "#111" : "#fff"
    const size = Math.min(19, cell * 0.38)
    pen.text(...this.corner(t + 0.5, j + 0.5), text, size, colour)
  }

  hatch(t, j) {
    const {cell} = this
    this.pen.fill(...this.corner(t, j), cell, cell, look.soft)
    this.strike(t, j, HATCH, look.line, 1.5)
  }

  // Draw strokes, such as CROSS, within cell (t, j).
  strike(t, j, strokes, colour, thickness = 2) {
    for (const [x, y, toX, toY] of strokes) {
      const [from, to] = [
        this.corner(t + y, j + x),
        this.corner(t + toY, j + toX)
      ]
      this.pen.line(...from, ...to, colour, thickness)
    }
  }

  frame(t, j, inset, colour, thickness) {
    const [x, y] = this.corner(t, j)
    const size = this.cell - 2 * inset
    this.pen.frame(x + inset, y + inset, size, size, colour, thickness)
  }

  // Mark the centre of step t's window (each head may have its own) by a short vertical bar at the
  // top of the row and one at the bottom; white on black, so that it is seen on any colour. A
  // centre need not be a whole number: 1.5 is the edge between columns 1 and 2. Those beyond the
  // first or last column are not marked.
  markCentres(t) {
    const {columns, centres} = this.map
    const last = columns.length - 0.5
    for (const centre of centres[t]) {
      if (centre <= -0.5 || centre >= last) continue
      this.strike(t, centre, CENTRE, "#000", 6)
      this.strike(t, centre, CENTRE, "#fff", 3)
    }
  }

  // Draw a frame around the row of the chosen step, and one around the chosen cell: white, or dark
  // on the light hatching outside the window.
  frameChosen(t, j) {
    const {pen, map, cell} = this
    const [x, y] = this.corner(t, 0)
    const width = map.columns.length * cell
    pen.frame(x - 1, y - 1, width + 2, cell + 2, look.text, 2)
    this.frame(t, j, 1, map.outside(t, j) ? look.text : "#fff", 2)
  }
}
