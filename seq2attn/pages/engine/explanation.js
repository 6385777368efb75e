// How a graph computes one of its numbers, as a formula with the numbers in it, read off its nodes:
// so that every score, of a plug-in too, is explained without being known here.
//
// `cells` are elements of a tensor by their flat indices: in a tensor (2, 3), the element [1, 0] is
// 3. Several cells are a vector, such as a row; one is a number. `slot` is where the graph has a
// value. A value is taken apart if it is written as the operation that made it, such as "tanh(W
// s)", rather than as a name or a number.

// Operations on two values: the sign between them, and how tightly it binds, as in formula.js.
const BETWEEN = {
  add: [" + ", 1],
  sub: [" − ", 1],
  mul: [" × ", 2],
  div: [" / ", 2],
  pow: ["^", 2.5]
}
const CALLED = {log: "ln ", sqrt: "√", neg: "−"}
// What stands before and after the formula of the row that is reduced: [before, after].
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

// counted(3, 4, 2) is [4, 6, 8].
const counted = (count, start = 0, step = 1) =>
  Array.from({length: count}, (_, k) => start + k * step)

// Where in x.data the elements are that have these flat indices after x is repeated to a shape. Of
// x = [5, 7], repeated to (2, 2), the cells 1 and 3 are both at 1, the 7.
function placesIn(x, shape, cells) {
  const {strides, offset} = expand(x, shape)
  const steps = contiguousStrides(shape)
  return cells.map(cell => {
    let place = offset
    for (const [axis, size] of shape.entries()) {
      const index = Math.floor(cell / steps[axis]) % size
      place += index * strides[axis]
    }
    return place
  })
}

class Explanation {
  // An explanation walks back from a result through the nodes that made it, and stops at values
  // that have a name. values: of one run of the graph, as `Graph.trace` returns them. names: {name
  // of an input or output: function from cells to a formula, such as "hⱼ" of a row of the keys};
  // those that the graph lacks are left out. A name belongs to the tensor that owns the array
  // (`base`), so that views of it are recognised, too.
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

  // The slot of the tensor that a view, such as a slice, shows: an input of its node with the same
  // array, and so on back through views of views. Any other tensor is its own base. `split` makes a
  // list of views, from which a node `python_getitem` takes one: then the base is the tensor that
  // was split, the first input of the node that made the list.
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

  // The same elements in the tensor that a view shows: {at: the slot of that tensor, cells: there}.
  // cells: flat indices after the view is repeated to `shape`.
  locate(slot, cells, shape = this.values[slot].shape) {
    return {
      at: this.base(slot),
      cells: placesIn(this.values[slot], shape, cells)
    }
  }

  // How one element of an input or output is made: {text: a formula, numbers: its last operation
  // with the numbers that it combines, such as "0.3 × 1.2"; empty where there is none}. cell: the
  // flat index of the element.
  of(name, cell) {
    const slot = this.graph.at(name)
    return {
      text: this.term(slot, [cell]).text.replaceAll("+ -", "− "),
      numbers: this.numbers(slot, [cell])
    }
  }

  // Which of its arguments, such as "%add", an operation such as `where` takes for these cells of
  // its result: the first one decides for all.
  chosen(operation, args, shape, cells) {
    const [condition, yes, no] = CHOICES[operation].map(k => args[k])
    return this.numbersAt(condition, shape, cells)[0] ? yes : no
  }

  // The numbers of an argument at these cells of a result, to whose shape it is repeated.
  numbersAt(value, shape, cells) {
    const x = single(this.argument(value))
    return placesIn(x, shape, cells).map(place => x.data[place])
  }

  // An argument as a formula, for these cells of a result of this shape: a number as it is, a
  // tensor by its `term`.
  part(value, shape, cells) {
    const found = this.argument(value)
    return typeof found === "number"
      ? ofNumber(found)
      : this.term(this.graph.slotOf(value), cells, shape)
  }

  // The numbers that the last operation combines for an element, as text: "0.3 × (-1.2)". Empty
  // where they add nothing: for a value with a name, and a factor or divisor of 1. For an operation
  // that chooses, such as `where`, it is about what is chosen. given: the element, as a list of one
  // flat index, after the tensor is repeated to the shape `wanted`.
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
  // score, divided by the sum of exp over its row.
  shares(scores, shape, cell) {
    const width = shape.at(-1)
    const row = counted(width, cell - (cell % width))
    const powers = this.numbersAt(scores, shape, row).map(Math.exp)
    return `${exact(powers[cell % width])} / ${exact(total(powers))}`
  }

  // Elements of a value of the graph as a formula: of one number, or of a vector such as a row. It
  // is the first of these that there is: the name that the value was given; the name of a weight,
  // unless the weight is a single number; the operation that made it, with its arguments, if that
  // is short; the number itself; for a vector, the name of the module that it comes from. slot: the
  // value's place in the list of the graph's values. given: flat indices of the elements after the
  // value is repeated to `shape`; cells: the same elements before that.
  term(slot, given, shape) {
    const {at, cells} = this.locate(slot, given, shape)
    const x = this.values[at]
    const size = product(x.shape)
    if (this.names.has(at)) return this.names.get(at)(cells)
    const isWeight = this.graph.weightNames.has(at)
    if (isWeight && size > 1) return formula(this.weight(at))
    const made = this.made(this.maker(at), cells, x.shape)
    if (made && made.text.length < LONGEST_FORMULA) return made
    const isOne = cells.length === 1 || size === 1
    return isOne ? ofNumber(x.data[cells[0]]) : formula(this.source(at))
  }

  // A weight by the name of its module.
  weight(at) {
    const name = this.graph.weightNames.get(at).replace("history.map", "w")
    return /([^.]+)(\.weight|\.bias)?$/.exec(name)[1]
  }

  // The formula of what a node makes at these cells of its result, put together from the formulas
  // of its arguments (`part` calls `term`, which calls this for the node before). undefined for
  // operations that are not written out.
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

  // The formula of a function of one value, whose formula is `one`: "tanh(x)". Clamping is left
  // out, since it is for safety only. The softmax of a whole vector is not written out: undefined.
  // The 3 puts brackets around whatever is more than one thing, as in "ln (a + b)".
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

  // The formula of a sum, product or the like: "a + b". "+ 0" and "× 1" are left out, as `neutral`.
  // As in mathematics, a part that binds less tightly than the sign gets brackets; on the right of
  // − and / also one that binds as tightly: a − (b − c). With a third argument, such as the factor
  // of `add`, it is not written out.
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

  // The formula of a sum or the like along the last axis alone: "Σ(...)" of the row that the
  // element `cells[0]` of the result is made of. The axes are the first list among the arguments.
  // undefined along other axes; and if `term` could write no more of the row than the name of the
  // module that made it, since "Σ(score)" would explain nothing.
  reduced({operation, args}, cells) {
    const slot = this.graph.slotOf(args[0])
    const {shape} = this.values[slot]
    const [axis, ...others] = args.slice(1).find(Array.isArray) ?? []
    const isLast = placeIn(shape.length, axis) === shape.length - 1
    if (!isLast || others.length) return undefined
    const width = shape.at(-1)
    const {text} = this.term(slot, counted(width, cells[0] * width))
    if (text === this.source(slot)) return undefined
    const [before, after] = REDUCED[operation]
    return formula(before + text + after)
  }

  // The formula of a product of matrices, of this shape: for one cell a row of the left one times a
  // column of the right one, "s · hⱼ"; for several cells a matrix of weights times a vector, "W s".
  // In the graph the weights are on the right (s Wᵀ), in a formula on the left. `dot`,
  // the vectors of the first "s · hⱼ" that is met, is kept for the page to draw. Not written out
  // (undefined) with a bias.
  multiplied({operation, args}, cells, shape) {
    const slots = args.map(value => this.graph.slotOf(value))
    const sizes = slots.map(slot => this.values[slot].shape)
    if (args.length > 2 || sizes.some(size => size.length < 2))
      return undefined
    const isOne = cells.length === 1
    const isMatrix = this.graph.weightNames.has(this.base(slots[1]))
    const [row, column] = rowAndColumn(operation, sizes, shape, cells[0])
    const parts = [this.term(slots[0], row), this.term(slots[1], column)]
    if (isOne) this.dot ??= this.vectors(slots, [row, column], parts)
    if (isMatrix) parts.reverse()
    const sign = row.length === 1 ? " × " : " · "
    return formula(
      parts.map(part => within(part, 3)).join(isOne ? sign : " "),
      2
    )
  }

  // The row and the column of a product, whose flat indices these are, as {left, right: lists of
  // numbers, names: their formulas as texts}.
  vectors(slots, cells, parts) {
    const [left, right] = slots.map((slot, k) => {
      const numbers = numbersOf(this.values[slot])
      return cells[k].map(one => numbers[one])
    })
    return {left, right, names: parts.map(({text}) => text)}
  }

  // The slots of all values that a tensor is computed from, its own first. The loop over a set also
  // reaches what is added meanwhile, and so goes back to the inputs.
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

  // Whether a named value depends on an input; not on one that the graph lacks.
  reads(name, input) {
    return this.origins(this.graph.at(name)).has(this.graph.at(input))
  }
}

// The flat indices of the row of the left factor and of the column of the right factor that the
// element `cell` of a product of matrices is made of. left, right, shape: the shapes of the factors
// and of the product. With more than two axes, the first ones count matrices (`matrix` is which
// one): a factor has a matrix for each of them, or one for all, which its size tells. `linear`
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
