// The attention map: a row per step, a column per source position.

// The width of the widest of some symbols, in letters.
function widest(symbols) {
  const bare = symbols.map(symbol =>
    symbol.normalize("NFD").replace(/\p{M}/gu, "")
  )
  return Math.max(1, ...bare.map(symbol => Array.from(symbol).length))
}

// Where things lie in a map that is to fit into `room` pixels; cells are at most `most` wide. Names
// that are wider than a cell stand upright.
function mapLayout({columns, rows}, room, most) {
  const longest = widest(columns)
  const left = 28 + 14 * widest(rows) // of the symbols that stand before the rows
  const fitting = Math.min(
    most,
    (room - left - 4) / Math.max(1, columns.length)
  )
  const cell = Math.max(state.numbers ? 26 : 14, Math.floor(fitting))
  const size = between(Math.round(cell * 0.5), 9, 26)
  const upright = longest * size * 0.62 > cell // a letter is 0.62 of its size wide
  const top = upright ? 14 + longest * size * 0.62 : size + 12
  const width = left + columns.length * cell + 3
  return {
    left,
    top,
    cell,
    size,
    upright,
    width,
    height: top + rows.length * cell + 3
  }
}

// map: {columns, rows (symbols as shown), weights: [row], chosen: [t, j] or null, held: Set "t,j",
// banned(t, j), masked(j), outside(t, j) of the window, centres: [positions] of it, different: Map
// t -> sign, shown(t)}
class MapPainter {
  constructor(pen, map, layout, look) {
    Object.assign(this, {pen, map, look}, layout)
  }

  // Where a cell begins.
  corner(t, j) {
    return [this.left + j * this.cell, this.top + t * this.cell]
  }

  // Heads of columns and rows, the cells of the steps that are shown, then the frame of the chosen
  // one, which lies over its neighbours.
  paint() {
    const {columns, rows, weights, chosen} = this.map
    for (const [j, symbol] of columns.entries()) this.column(symbol, j)
    for (const [t, symbol] of rows.entries()) this.row(symbol, t)
    for (const t of weights.keys()) {
      if (!this.map.shown(t)) continue
      for (const j of columns.keys()) this.mark(t, j)
      this.markCentres(t)
    }
    if (chosen && chosen[0] < rows.length) this.frameChosen(...chosen)
  }

  column(symbol, j) {
    const {pen, size, top, look} = this
    const x = this.left + (j + 0.5) * this.cell
    if (this.upright)
      pen.text(x, top - 7, symbol, size, look.text, "start", true)
    else pen.text(x, top - 5 - size / 2, symbol, size, look.text)
  }

  // The symbol that a step wrote, left of its row, with a sign if a change has made it another.
  row(symbol, t) {
    const {pen, cell, size, left, look} = this
    const sign = this.map.different.get(t) ?? ""
    const colour =
      {"✓": look.good, "✗": look.bad, "≠": look.held}[sign] ?? look.text
    pen.text(
      left - 8,
      this.top + (t + 0.5) * cell,
      sign + symbol,
      size,
      colour,
      "end"
    )
  }

  // A cell: its weight as a colour, and what was done to it. A cross: banned; a stroke: an empty
  // position that is masked; a frame: set by a person.
  mark(t, j) {
    const {map, look} = this
    if (map.outside(t, j)) this.hatch(t, j)
    else this.fill(t, j, map.weights[t][j])
    if (map.banned(t, j)) {
      this.strike(t, j, 0.25, 0.25, 0.75, 0.75, look.held)
      this.strike(t, j, 0.75, 0.25, 0.25, 0.75, look.held)
    }
    if (map.masked(j)) this.strike(t, j, 0.3, 0.7, 0.7, 0.3, "#9aa6b1")
    if (map.held.has(`${t},${j}`)) this.frame(t, j, 2, look.held, 3)
  }

  // The colour of a weight, from a table of 256, and its number where numbers are switched on.
  fill(t, j, weight) {
    const {pen, cell} = this
    const [x, y] = this.corner(t, j)
    pen.fill(
      x,
      y,
      cell,
      cell,
      data.colours[between(Math.round(255 * weight), 0, 255)]
    )
    if (!state.numbers) return
    const text = weight.toFixed(2).replace(/^0/, "")
    const colour = weight > 0.55 ? "#111" : "#fff"
    pen.text(
      x + cell / 2,
      y + cell / 2,
      text,
      Math.min(19, cell * 0.38),
      colour
    )
  }

  hatch(t, j) {
    const {pen, cell, look} = this
    pen.fill(...this.corner(t, j), cell, cell, look.soft)
    this.strike(t, j, 0, 0.5, 0.5, 0, look.line, 1.5)
    this.strike(t, j, 0, 1, 1, 0, look.line, 1.5)
    this.strike(t, j, 0.5, 1, 1, 0.5, look.line, 1.5)
  }

  // A line in a cell, from and to shares of its width and height.
  strike(t, j, x, y, toX, toY, colour, thick = 2) {
    const [left, top] = this.corner(t, j)
    const at = (start, share) => start + share * this.cell
    this.pen.line(
      at(left, x),
      at(top, y),
      at(left, toX),
      at(top, toY),
      colour,
      thick
    )
  }

  frame(t, j, inset, colour, thick) {
    const [x, y] = this.corner(t, j)
    const size = this.cell - 2 * inset
    this.pen.frame(x + inset, y + inset, size, size, colour, thick)
  }

  // The centre of the window: a bar at the top and the bottom of the row, with an edge.
  markCentres(t) {
    const {columns, centres} = this.map
    for (const centre of centres[t]) {
      if (centre <= -0.5 || centre >= columns.length - 0.5) continue
      for (const [from, to] of [
        [0, 0.22],
        [0.78, 1]
      ]) {
        this.strike(t, centre, 0.5, from, 0.5, to, "#000", 6)
        this.strike(t, centre, 0.5, from, 0.5, to, "#fff", 3)
      }
    }
  }

  // A frame around the row of the chosen step, and one around the chosen cell.
  frameChosen(t, j) {
    const {columns, outside} = this.map
    const [x, y] = this.corner(t, 0)
    this.pen.frame(
      x - 1,
      y - 1,
      columns.length * this.cell + 2,
      this.cell + 2,
      this.look.text,
      2
    )
    if (j >= columns.length) return
    this.frame(t, j, 1, outside(t, j) ? this.look.text : "#fff", 2)
  }
}
