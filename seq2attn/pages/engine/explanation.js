// How a graph computes one of its numbers, as a formula with the numbers in it, read off its nodes:
// so that every score, of a plug-in too, is explained without being known here.
//
// A cell is one element of a tensor: its number, if the elements are counted row by row. Several
// cells are a vector, such as a row. A value is taken apart if it is written as the operation that
// made it, rather than as a name or a number.

// Operations on two values: the sign between them, and how tightly it binds, as in formula.js.
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

// Where in x.data, after x is repeated to a shape, its cells are: elements by their number, counted
// row by row in that shape.
function placesIn(x, shape, cells) {
  const {strides, offset} = expand(x, shape)
  const own = full(shape)
  return cells.map(cell => {
    let place = offset
    for (const [axis, size] of shape.entries()) {
      const index = Math.floor(cell / own[axis]) % size
      place += index * strides[axis]
    }
    return place
  })
}

class Explanation {
  // An explanation walks back from a result through the nodes that made it, and stops at values
  // that have a name. values: of one run of the graph, as `Graph.trace` returns them. names: {name
  // of an input or output: function from cells to a formula, such as "hⱼ" of a row of the keys}.
  constructor(graph, values, names) {
    this.graph = graph
    this.values = values
    this.dot = null // the two vectors of the first product that is met; the page draws them
    this.names = new Map()
    for (const [name, say] of Object.entries(names)) {
      const slot = graph.at(name)
      if (slot !== undefined) this.names.set(this.base(slot), say)
    }
  }

  // The node that made a value; for an input, weight or constant, a node without arguments.
  maker(slot) {
    return this.graph.makers.get(slot) ?? {inputs: [], args: []}
  }

  // An argument of a node, such as "%add" or 2, as the tensor or number that it had in the run.
  argument(value) {
    return this.graph.reader(value)(this.values)
  }

  // The slot of the tensor that a view, such as a slice, shows a part of; any other tensor is its
  // own base. Views of views are followed. An operation such as `split` makes a list of
  // tensors; then it is the tensor that was split.
  base(slot) {
    const {data} = this.values[slot]
    const shows = input =>
      [this.values[input]].flat().some(one => one?.data === data)
    const from = this.maker(slot).inputs.find(shows)
    if (from === undefined) return slot
    return this.base(
      Array.isArray(this.values[from]) ? this.maker(from).inputs[0] : from
    )
  }

  // The same elements in the tensor that another one is a view of: {at: its slot, cells}. cells:
  // element numbers in `shape`, to which the view is repeated.
  locate(slot, cells, shape = this.values[slot].shape) {
    return {
      at: this.base(slot),
      cells: placesIn(this.values[slot], shape, cells)
    }
  }

  // How one element of an input or output is made: {text: a formula, numbers: its last operation
  // with the numbers that it combines, such as "0.3 × 1.2"; empty where there is none}. cell: the
  // number of the element, counted row by row.
  of(name, cell) {
    const slot = this.graph.at(name)
    return {
      text: this.term(slot, [cell]).text.replaceAll("+ -", "− "),
      numbers: this.numbers(slot, [cell])
    }
  }

  // Which of its arguments an operation such as `where` takes for the first of these elements of
  // its result. cells: their numbers, counted row by row.
  chosen(operation, args, shape, cells) {
    const [condition, yes, no] = CHOICES[operation].map(k => args[k])
    return this.numbersAt(condition, shape, cells)[0] ? yes : no
  }

  // The numbers of an argument, repeated to the shape of a result, at these elements of the result.
  // cells: their numbers, counted row by row.
  numbersAt(value, shape, cells) {
    const x = single(this.argument(value))
    return placesIn(x, shape, cells).map(place => x.data[place])
  }

  // An argument as a formula, for these elements of a result of this shape: a number of the graph
  // as it is, a tensor by its `term`.
  part(value, shape, cells) {
    const found = this.argument(value)
    return typeof found === "number"
      ? ofNumber(found)
      : this.term(this.graph.slotOf(value), cells, shape)
  }

  // The numbers that the last operation combines for an element, as text; empty where that says
  // nothing: for what has a name, and a factor or divisor of 1. slot: of a tensor; given: the
  // numbers of its elements, counted row by row after it is repeated to the shape `wanted`. Of an
  // operation that chooses, it is about what is chosen.
  numbers(slot, given, wanted) {
    const {at, cells} = this.locate(slot, given, wanted)
    const {operation, args} = this.maker(at)
    const {shape} = this.values[at]
    if (this.names.has(at)) return ""
    if (operation in CHOICES) {
      const next = this.graph.slotOf(
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

  // An element of a softmax along the last axis as its share, such as "1.2 / 3.4": exp of its own
  // score, of the sum of exp over its row. cell: the number of the element, counted row by row.
  shares(scores, shape, cell) {
    const width = shape.at(-1)
    const row = counted(width, cell - (cell % width))
    const powers = this.numbersAt(scores, shape, row).map(Math.exp)
    const all = powers.reduce((sum, one) => sum + one)
    return `${exact(powers[cell % width])} / ${exact(all)}`
  }

  // Elements of a tensor as a formula: one number, or a vector such as a row. It is the tensor's
  // name, the name of a weight, or what its operation makes, if that is short; otherwise one
  // number, or for a vector the module that it comes from. given: the elements' numbers, counted
  // row by row after the tensor is repeated to a shape.
  term(slot, given, shape) {
    const {at, cells} = this.locate(slot, given, shape)
    const x = this.values[at]
    const size = product(x.shape)
    if (this.names.has(at)) return this.names.get(at)(cells)
    if (this.isWeight(at) && size > 1) return formula(this.weight(at))
    const made = this.made(this.maker(at), cells, x.shape)
    if (made && made.text.length < LONGEST_FORMULA) return made
    const isOne = cells.length === 1 || size === 1
    return isOne ? ofNumber(x.data[cells[0]]) : formula(this.source(at))
  }

  isWeight(slot) {
    return this.graph.weightNames.has(slot)
  }

  // A weight by the name of its module.
  weight(at) {
    const name = this.graph.weightNames.get(at).replace("history.map", "w")
    return /([^.]+)(\.weight|\.bias)?$/.exec(name)[1]
  }

  // The formula of what a node makes at these elements of its result: by the formulas of its
  // arguments. undefined for operations that are not written out.
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

  // The formula of a function of one value, which is the formula `one`: "tanh(x)". The softmax of a
  // whole vector is not written out: undefined.
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

  // The formula of a sum, product or the like: "a + b". "+ 0" and "× 1" are left out. As in
  // mathematics, a part that binds less tightly than the sign gets brackets; on the right of − and
  // / also one that binds as tightly. With a third argument, such as the factor of `add`, it is not
  // written out.
  between({operation, args}, cells, shape) {
    const [sign, binding] = BETWEEN[operation]
    const isOrdered = operation === "sub" || operation === "div"
    if (args.length > 2) return undefined
    const [a, b] = args.map(value => this.part(value, shape, cells))
    const neutral = binding > 1 ? "1" : "0"
    const changesNothing = ({text}) => text === neutral
    if (changesNothing(b)) return a
    if (changesNothing(a) && /add|mul/.test(operation)) return b
    const least = Math.ceil(binding)
    return formula(
      within(a, least) + sign + within(b, isOrdered ? binding + 1 : least),
      binding
    )
  }

  // The formula of a sum or the like along the last axis: "Σ(...)" of the row that the element
  // `cells[0]` of the result is made of. Not written out if that row is no more than the name of a
  // module.
  reduced({operation, args}, cells) {
    const slot = this.graph.slotOf(args[0])
    const {shape} = this.values[slot]
    const [axis, ...others] = args.slice(1).find(Array.isArray) ?? []
    const isLast = placeIn(shape.length, axis) === shape.length - 1
    if (!isLast || others.length) return undefined
    const width = shape.at(-1)
    const {text} = this.term(slot, counted(width, cells[0] * width))
    const isTaken = text !== this.source(slot) // apart: more than a module's name
    return isTaken ? formula(REDUCED[operation].join(text)) : undefined
  }

  // The formula of a product of matrices: for one element a row of the one times a column of the
  // other, "s · hⱼ"; for a vector of elements a matrix of weights times a vector, "W s". cells: the
  // elements' numbers, counted row by row in `shape`. The vectors of the first product of two
  // vectors are kept, since the page draws them. Of the weights, two elements [0, 1] stand for all:
  // enough to show that they are several.
  multiplied({operation, args}, cells, shape) {
    const slots = args.map(value => this.graph.slotOf(value))
    const sizes = slots.map(slot => this.values[slot].shape)
    if (args.length > 2 || sizes.some(size => size.length < 2))
      return undefined
    const isOne = cells.length === 1
    const isMatrix = this.isWeight(this.base(slots[1]))
    const [row, column] = rowAndColumn(operation, sizes, shape, cells[0])
    const right = isOne || !isMatrix ? column : [0, 1]
    const parts = [this.term(slots[0], row), this.term(slots[1], right)]
    if (isOne) this.dot ??= this.vectors(slots, [row, column], parts)
    if (isMatrix) parts.reverse() // as it is written: the weights first
    const sign = row.length === 1 ? " × " : " · "
    return formula(
      parts.map(part => within(part, 3)).join(isOne ? sign : " "),
      2
    )
  }

  // The numbers of the row and the column of a product, and the formulas that name them.
  vectors(slots, cells, parts) {
    const [left, right] = slots.map((slot, k) => {
      const numbers = numbersOf(this.values[slot])
      return cells[k].map(one => numbers[one])
    })
    return {left, right, names: parts.map(({text}) => text)}
  }

  // The slots of all values that a tensor is computed from, its own first. A set goes on with what
  // is added to it in the loop.
  origins(slot) {
    const found = new Set([slot])
    for (const at of found) {
      for (const one of this.maker(at).inputs) found.add(one)
    }
    return found
  }

  // A name for what is not taken apart: the kind of module whose weights it is computed from.
  source(slot) {
    for (const at of this.origins(slot)) {
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

// An element of a product of matrices is made of a row of the left one and a column of the right
// one. Returns the numbers of the elements of both, counted row by row. With more than two axes,
// the first ones count matrices: a factor has a matrix for each, or one for all. `linear`
// multiplies by the transposed right matrix, so that its columns are rows.
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
