// The attention map: a row per step, a column per source position.

// The width of the widest of some symbols, in letters.
function widest(symbols) {
  const letters = symbol =>
    Array.from(symbol.normalize("NFD").replace(/\p{M}/gu, ""))
  return Math.max(1, ...symbols.map(symbol => letters(symbol).length))
}

// Where things lie in a map whose cells fit into `room` pixels.
function mapLayout(columns, rows, room, numbers, most = 76) {
  const longest = widest(columns)
  const left = 28 + 14 * widest(rows)
  const fitting = Math.min(
    most,
    (room - left - 4) / Math.max(1, columns.length)
  )
  const cell = Math.max(numbers ? 38 : 14, Math.floor(fitting))
  const size = Math.max(9, Math.min(26, Math.round(cell * 0.5)))
  const upright = longest * size * 0.62 > cell
  const top = upright ? 14 + longest * size * 0.62 : size + 12
  return sized({left, top, cell, size, upright}, columns, rows)
}

function sized(layout, columns, rows) {
  const width = layout.left + columns.length * layout.cell + 3
  return {...layout, width, height: layout.top + rows.length * layout.cell + 3}
}

// map: {columns, rows (symbols as shown), weights: [row], chosen: [t, j] or null, held: Set "t,j",
// banned(t, j), masked(j), outside(t, j) of the window, centres: [positions] of it, different: Map
// t -> sign, shown(t)}
class MapPainter {
  constructor(pen, map, layout, look, numbers) {
    Object.assign(this, {pen, map, layout, look, numbers})
  }

  // Where a cell begins.
  corner(t, j) {
    const {left, top, cell} = this.layout
    return [left + j * cell, top + t * cell]
  }

  paint() {
    this.symbols()
    for (const t of this.map.weights.keys()) {
      if (!this.map.shown(t)) continue
      for (const j of this.map.columns.keys()) this.cell(t, j)
      this.centres(t)
    }
    if (this.map.chosen && this.map.chosen[0] < this.map.rows.length)
      this.chosen(...this.map.chosen)
  }

  symbols() {
    const {pen, map, look} = this
    const {cell, size, top, left, upright} = this.layout
    map.columns.forEach((symbol, j) => {
      const x = left + (j + 0.5) * cell
      if (upright) pen.text(x, top - 7, symbol, size, look.text, "start", true)
      else pen.text(x, top - 5 - size / 2, symbol, size, look.text)
    })
    const colour = {"✓": look.good, "✗": look.bad, "≠": look.held}
    map.rows.forEach((symbol, t) => {
      const sign = map.different.get(t) ?? ""
      pen.text(
        left - 8,
        top + (t + 0.5) * cell,
        sign + symbol,
        size,
        colour[sign] ?? look.text,
        "end"
      )
    })
  }

  cell(t, j) {
    const {map} = this
    const weight = map.weights[t][j]
    if (map.outside(t, j)) this.hatched(t, j)
    else this.coloured(t, j, weight)
    if (map.banned(t, j)) this.crossed(t, j)
    if (map.masked(j)) this.struck(t, j, 0.3, 0.7, 0.7, 0.3, "#9aa6b1")
    if (map.held.has(`${t},${j}`)) this.framed(t, j, 2, this.look.held, 3)
  }

  coloured(t, j, weight) {
    const {cell} = this.layout
    const [x, y] = this.corner(t, j)
    const level = Math.max(0, Math.min(255, Math.round(255 * weight)))
    this.pen.fill(x, y, cell, cell, HEATS[level])
    if (!this.numbers) return
    const text = weight.toFixed(2).replace(/^0/, "")
    const size = Math.min(19, cell * 0.32)
    this.pen.text(
      x + cell / 2,
      y + cell / 2,
      text,
      size,
      weight > 0.55 ? "#111" : "#fff"
    )
  }

  hatched(t, j) {
    const {cell} = this.layout
    this.pen.fill(...this.corner(t, j), cell, cell, this.look.soft)
    for (const [from, to] of [
      [0, 0.5],
      [0, 1],
      [0.5, 1]
    ]) {
      this.struck(t, j, from, to, to, from, this.look.line, 1.5)
    }
  }

  crossed(t, j) {
    this.struck(t, j, 0.25, 0.25, 0.75, 0.75, this.look.held)
    this.struck(t, j, 0.75, 0.25, 0.25, 0.75, this.look.held)
  }

  // A line in a cell, from and to shares of its width and height.
  struck(t, j, x, y, toX, toY, colour, thick = 2) {
    const {cell} = this.layout
    const [left, top] = this.corner(t, j)
    const at = (start, share) => start + share * cell
    this.pen.line(
      at(left, x),
      at(top, y),
      at(left, toX),
      at(top, toY),
      colour,
      thick
    )
  }

  framed(t, j, inset, colour, thick) {
    const [x, y] = this.corner(t, j)
    const size = this.layout.cell - 2 * inset
    this.pen.frame(x + inset, y + inset, size, size, colour, thick)
  }

  // The centre of the window: a bar at the top and the bottom of the row.
  centres(t) {
    const {length} = this.map.columns
    for (const centre of this.map.centres[t]) {
      if (centre <= -0.5 || centre >= length - 0.5) continue
      for (const [colour, thick] of [
        ["#000", 6],
        ["#fff", 3]
      ]) {
        this.struck(t, centre, 0.5, 0, 0.5, 0.22, colour, thick)
        this.struck(t, centre, 0.5, 0.78, 0.5, 1, colour, thick)
      }
    }
  }

  chosen(t, j) {
    const {pen, map, look} = this
    const {cell} = this.layout
    const [x, y] = this.corner(t, 0)
    pen.frame(
      x - 1,
      y - 1,
      map.columns.length * cell + 2,
      cell + 2,
      look.text,
      2
    )
    if (j < map.columns.length)
      this.framed(t, j, 1, map.outside(t, j) ? look.text : "#fff", 2)
  }
}
