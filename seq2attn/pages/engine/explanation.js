// How a graph computes one of its numbers, read off its nodes. It knows operations, and no
// mechanism.

const BETWEEN = {
  add: [" + ", 1],
  sub: [" − ", 1],
  mul: [" × ", 2],
  div: [" / ", 2],
  pow: ["^", 2.5]
}
const CALLED = {log: "ln ", sqrt: "√", neg: "−"}
const REDUCED = {
  linalg_vector_norm: ["|", "|"],
  sum: ["Σ(", ")"],
  mean: ["mean(", ")"],
  amax: ["max(", ")"]
}
// Of their arguments: the condition, what is chosen where it is true, and where it is not.
const CHOICES = {where: [0, 1, 2], masked_fill: [1, 2, 0]}
const MULTIPLYING = ["mm", "bmm", "matmul", "linear"]
const LONGEST_FORMULA = 90

const counted = (count, start = 0, step = 1) =>
  Array.from({length: count}, (_, k) => start + k * step)

// Where in its array a tensor, repeated to a shape, has elements of that shape.
function placesIn(x, shape, cells) {
  const {steps, first} = expand(x, shape)
  const own = full(shape)
  const along = (cell, axis) =>
    (Math.floor(cell / own[axis]) % shape[axis]) * steps[axis]
  return cells.map(cell =>
    shape.reduce((place, _, axis) => place + along(cell, axis), first)
  )
}

class Explanation {
  // values: of the graph, as `Graph.trace` returns them; names: {value: cells => formula} of those
  // that are not taken apart.
  constructor(graph, values, names) {
    this.graph = graph
    this.values = values
    this.dot = null // the two vectors of the first product of vectors that was met
    this.names = new Map()
    for (const [name, say] of Object.entries(names)) {
      const place = graph.at(name)
      if (place !== undefined) this.names.set(this.root(place), say)
    }
  }

  maker(place) {
    return this.graph.makers.get(place) ?? {inputs: [], args: []}
  }

  // An argument as a tensor.
  operand(value) {
    const place = this.graph.placeOf(value)
    return single(place === undefined ? value : this.values[place])
  }

  // The tensor whose array a tensor shows.
  root(place) {
    const {data} = this.values[place]
    const shows = input =>
      [this.values[input]].flat().some(one => one?.data === data)
    const from = this.maker(place).inputs.find(shows)
    if (from === undefined) return place
    return this.root(
      Array.isArray(this.values[from]) ? this.maker(from).inputs[0] : from
    )
  }

  // Elements of a tensor, repeated to a shape, as elements of its root: {at, cells}.
  locate(place, cells, shape = this.values[place].shape) {
    return {
      at: this.root(place),
      cells: placesIn(this.values[place], shape, cells)
    }
  }

  // How an element of a named value is made: as a formula, and with the numbers that its last
  // operation combines.
  of(name, cell) {
    const place = this.graph.at(name)
    return {
      text: this.term(place, [cell]).text.replaceAll("+ -", "− "),
      numbers: this.numbers(place, [cell])
    }
  }

  // Which of its arguments an operation that chooses takes for elements of its result.
  chosen(operation, args, shape, cells) {
    const [condition, yes, no] = CHOICES[operation].map(k => args[k])
    return this.numbersAt(condition, shape, cells)[0] ? yes : no
  }

  // The numbers of an argument from which elements of a result are made.
  numbersAt(value, shape, cells) {
    const x = this.operand(value)
    return placesIn(x, shape, cells).map(place => x.data[place])
  }

  // An argument as a formula, for elements of a result.
  part(value, shape, cells) {
    const place = this.graph.placeOf(value)
    const number = place === undefined ? value : this.values[place]
    return typeof number === "number"
      ? ofNumber(number)
      : this.term(place, cells, shape)
  }

  numbers(place, given, wanted) {
    const {at, cells} = this.locate(place, given, wanted)
    const {operation, args} = this.maker(at)
    const {shape} = this.values[at]
    if (this.names.has(at)) return ""
    if (operation in CHOICES) {
      const next = this.graph.placeOf(
        this.chosen(operation, args, shape, cells)
      )
      return next === undefined ? "" : this.numbers(next, cells, shape)
    }
    if (operation === "softmax") return this.shares(args[0], shape, cells[0])
    if (!(operation in BETWEEN)) return ""
    const parts = args.flatMap(value => this.numbersAt(value, shape, cells))
    if (parts.includes(1) && operation !== "add") return ""
    const said = parts.map(one => (one < 0 ? `(${exact(one)})` : exact(one)))
    return said.join(BETWEEN[operation][0])
  }

  // An element of a softmax as a share of the sum of its row.
  shares(scores, shape, cell) {
    const width = shape.at(-1)
    const row = counted(width, cell - (cell % width))
    const powers = this.numbersAt(scores, shape, row).map(Math.exp)
    const all = powers.reduce((sum, one) => sum + one)
    return `${exact(powers[cell % width])} / ${exact(all)}`
  }

  // Some elements of a tensor, repeated to a shape, one of them or a vector, as a formula.
  term(place, given, shape) {
    const {at, cells} = this.locate(place, given, shape)
    const x = this.values[at]
    const size = product(x.shape)
    if (this.names.has(at)) return this.names.get(at)(cells)
    if (this.isWeight(at) && size > 1) return formula(this.weight(at))
    const made = this.made(this.maker(at), cells, x.shape)
    if (made && made.text.length < LONGEST_FORMULA) return made
    const isOne = cells.length === 1 || size === 1
    return isOne ? ofNumber(x.data[cells[0]]) : formula(this.source(at))
  }

  isWeight(place) {
    return this.graph.weightNames.has(place)
  }

  // A weight by the name of its module.
  weight(at) {
    const name = this.graph.weightNames.get(at).replace("history.map", "w")
    return /([^.]+)(\.weight|\.bias)?$/.exec(name)[1]
  }

  // What an operation makes; undefined for one that is not taken apart.
  made(node, cells, shape) {
    const {operation, args} = node
    if (operation in BETWEEN) return this.between(node, cells, shape)
    if (operation in CHOICES)
      return this.part(
        this.chosen(operation, args, shape, cells),
        shape,
        cells
      )
    if (operation in REDUCED) return this.reduced(node, cells)
    if (MULTIPLYING.includes(operation))
      return this.multiplied(node, cells, shape)
    const isFunction = args.length === 1 && typeof args[0] === "string" // of one tensor
    if (!isFunction && !/^clamp|softmax$/.test(operation)) return undefined
    return this.applied(operation, this.part(args[0], shape, cells), cells)
  }

  // A function of one number.
  applied(operation, one, cells) {
    if (operation.startsWith("clamp")) return one
    if (operation === "abs") return formula(`|${one.text}|`)
    if (operation in CALLED)
      return formula(CALLED[operation] + within(one, 3))
    if (operation !== "softmax") return formula(`${operation}(${one.text})`)
    return cells.length === 1
      ? formula(`exp(${one.text}) / Σ exp`, 2)
      : undefined
  }

  between({operation, args}, cells, shape) {
    const [sign, binding] = BETWEEN[operation]
    const isOrdered = operation === "sub" || operation === "div"
    if (args.length > 2) return undefined
    const [a, b] = args.map(value => this.part(value, shape, cells))
    const changesNothing = ({text}) =>
      Math.abs(text - Number(binding > 1)) < 1e-9
    if (changesNothing(b)) return a
    if (changesNothing(a) && /add|mul/.test(operation)) return b
    const least = Math.ceil(binding)
    return formula(
      within(a, least) + sign + within(b, isOrdered ? binding + 1 : least),
      binding
    )
  }

  // A sum or the like along the last axis.
  reduced({operation, args}, cells) {
    const place = this.graph.placeOf(args[0])
    const {shape} = this.values[place]
    const [axis, ...others] = args.slice(1).find(Array.isArray) ?? []
    const isLast = placeIn(shape.length, axis) === shape.length - 1
    if (!isLast || others.length) return undefined
    const width = shape.at(-1)
    const {text} = this.term(place, counted(width, cells[0] * width))
    const isTaken = text !== this.source(place) // apart: more than a module's name
    return isTaken ? formula(REDUCED[operation].join(text)) : undefined
  }

  // A product of matrices: of a row of the one and a column of the other, or of whole rows.
  multiplied({operation, args}, cells, shape) {
    const places = args.map(value => this.graph.placeOf(value))
    const sizes = places.map(place => this.values[place].shape)
    if (args.length > 2 || sizes.some(size => size.length < 2))
      return undefined
    const isOne = cells.length === 1
    const isMatrix = this.isWeight(this.root(places[1]))
    const [row, column] = rowAndColumn(operation, sizes, shape, cells[0])
    const right = isOne || !isMatrix ? column : [0, 1]
    const parts = [this.term(places[0], row), this.term(places[1], right)]
    if (isOne) this.dot ??= this.vectors(places, [row, column], parts)
    if (isMatrix) parts.reverse() // as it is written: the weights first
    const sign = row.length === 1 ? " × " : " · "
    return formula(
      parts.map(part => within(part, 3)).join(isOne ? sign : " "),
      2
    )
  }

  vectors(places, cells, parts) {
    const [left, right] = places.map((place, k) => {
      const numbers = numbersOf(this.values[place])
      return cells[k].map(one => numbers[one])
    })
    return {left, right, names: parts.map(({text}) => text)}
  }

  // Every place that a tensor is made of, itself first.
  origins(place) {
    const found = new Set([place])
    for (const at of found) {
      for (const one of this.maker(at).inputs) found.add(one)
    }
    return found
  }

  // What is not taken apart, by the module whose weights it comes from.
  source(place) {
    for (const at of this.origins(place)) {
      const name = this.graph.weightNames.get(at)
      const found = /\.(history|window|score|cell)\./.exec(name)
      if (found) return found[1]
    }
    return "…"
  }

  // Whether a named value depends on an input.
  reads(name, input) {
    return this.origins(this.graph.at(name)).has(this.graph.at(input))
  }
}

// The elements of two matrices, the row and the column, that an element of their product is made
// of.
function rowAndColumn(operation, [left, right], shape, cell) {
  const [rows, size] = left.slice(-2)
  const columns = shape.at(-1)
  const column = cell % columns
  const row = Math.floor(cell / columns)
  const matrix = Math.floor(row / rows)
  const ownRow = product(left) === rows * size ? row % rows : row
  const start =
    product(right) === size * columns ? 0 : matrix * size * columns
  const isTurned = operation === "linear"
  return [
    counted(size, ownRow * size),
    isTurned
      ? counted(size, column * size)
      : counted(size, start + column, columns)
  ]
}
