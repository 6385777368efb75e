// Tensors: {type, shape, strides, offset, data}, as in PyTorch. The number at [i, j] is
// data[offset + i * strides[0] + j * strides[1]], data being an array of doubles; the type is
// "float", "int" (exact to 2^53) or "bool". To expand, transpose, slice or split copies nothing:
// the results are views, which share the array. Only the operation that makes an array writes it.

const unread = new Map() // length -> arrays that no graph reads any more

const between = (value, low, high) => Math.max(low, Math.min(high, value))
// A place below 0 is counted from the end, as in Python.
const placeIn = (size, place) => (place < 0 ? place + size : place)
const axisOf = (x, axis) => placeIn(x.shape.length, axis)

const product = sizes => sizes.reduce((total, size) => total * size, 1)

// An array for results that are all written.
function memory(length) {
  return unread.get(length)?.pop() ?? new Float64Array(length)
}

// The strides of a contiguous tensor, one whose numbers follow each other in its array in order:
// [12, 4, 1] for the shape [2, 3, 4].
function contiguousStrides(shape) {
  const strides = new Array(shape.length)
  let step = 1
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    strides[axis] = step
    step *= shape[axis]
  }
  return strides
}

function tensor(type, shape, data = memory(product(shape))) {
  return {
    type,
    shape,
    strides: contiguousStrides(shape),
    offset: 0,
    data
  }
}

function filled(shape, value, type = "float") {
  const result = tensor(type, shape)
  result.data.fill(value)
  return result
}

// A tensor whose number k, counted row by row, is value(k).
function tensorOf(type, shape, value) {
  const result = tensor(type, shape)
  const {data} = result
  for (let k = 0; k < data.length; k++) data[k] = value(k)
  return result
}

const singles = new Map() // number -> tensor

// A number as a tensor; tensors are returned as they are. As in PyTorch, 2 leaves a tensor of
// integers what it is and 2.5 makes it one of floats: its type "number" stands between the two.
// The same numbers occur again and again, so their tensors are kept.
function single(value) {
  if (typeof value === "object") return value
  if (!singles.has(value)) {
    const type = Number.isInteger(value) ? "int" : "number"
    singles.set(value, tensor(type, [], Float64Array.of(value)))
  }
  return singles.get(value)
}

// The same array with another shape and strides.
function view({type, data, offset}, shape, strides, start = offset) {
  return {type, shape, strides, offset: start, data}
}

// The numbers of a tensor, in order.
function numbersOf(x) {
  const {data, offset, shape} = contiguous(x)
  return data.subarray(offset, offset + product(shape))
}

// ---- shapes ----

// The shape to which tensors of these shapes are repeated: [2, 3] for [2, 1] and [3]. As in
// PyTorch, axes are compared from the last one on, and an axis of size 1 fits every size.
function broadcast(shapes) {
  const rank = Math.max(...shapes.map(shape => shape.length))
  const result = new Array(rank).fill(1)
  for (const shape of shapes) {
    const more = rank - shape.length
    for (const [axis, size] of shape.entries()) {
      const other = result[axis + more]
      if (size !== 1) result[axis + more] = size
      if (size !== other && size !== 1 && other !== 1)
        throw new Error(`sizes ${other} and ${size} do not fit`)
    }
  }
  return result
}

// A view of a tensor repeated to the shape `wanted`, in which -1 keeps a size. Axes that x lacks
// come first. Nothing is copied: along an axis that repeats, the stride is 0.
function expand(x, wanted) {
  const more = wanted.length - x.shape.length
  const shape = wanted.slice()
  const strides = new Array(wanted.length).fill(0)
  for (let axis = more; axis < wanted.length; axis++) {
    const own = x.shape[axis - more]
    if (shape[axis] === -1) shape[axis] = own
    if (own === shape[axis]) strides[axis] = x.strides[axis - more]
  }
  return view(x, shape, strides)
}

// The same numbers in another shape; its size -1 is whatever is left for it.
function reshape(x, wanted) {
  const whole = contiguous(x)
  const open = wanted.indexOf(-1)
  const shape = wanted.slice()
  if (open >= 0) shape[open] = product(x.shape) / -product(wanted) || 0
  return view(whole, shape, contiguousStrides(shape))
}

// A view with the axes in another order: axis k of it is axes[k] of x.
function permute(x, axes) {
  const order = axes.map(axis => axisOf(x, axis))
  const shape = order.map(axis => x.shape[axis])
  return view(
    x,
    shape,
    order.map(axis => x.strides[axis])
  )
}

function transpose(x, one, other) {
  const axes = [...x.shape.keys()]
  const [from, to] = [axisOf(x, one), axisOf(x, other)]
  axes[from] = to
  axes[to] = from
  return permute(x, axes)
}

function unsqueeze(x, axis) {
  const at = placeIn(x.shape.length + 1, axis)
  return view(x, x.shape.toSpliced(at, 0, 1), x.strides.toSpliced(at, 0, 0))
}

// Without those of these axes that have one position; by default, of all.
function squeeze(x, axes = [...x.shape.keys()]) {
  const gone = [axes].flat().map(axis => axisOf(x, axis))
  const isKept = (_, axis) => x.shape[axis] !== 1 || !gone.includes(axis)
  return view(x, x.shape.filter(isKept), x.strides.filter(isKept))
}

// With the axes from `start` to `end` as one.
function flatten(x, start = 0, end = -1) {
  const [from, to] = [start, end].map(axis => axisOf(x, axis))
  return reshape(x, x.shape.toSpliced(from, to - from + 1, -1))
}

// ---- parts ----

// x[start:end:step] along an axis, as in Python: a start or end below 0 counts from the end, and
// one that is out of range is cut off.
function slice(x, axis = 0, start = 0, end = Infinity, step = 1) {
  const at = axisOf(x, axis)
  const size = x.shape[at]
  const [from, to] = [start, end].map(place =>
    between(placeIn(size, place), 0, size)
  )
  const count = Math.max(0, Math.ceil((to - from) / step))
  const strides = x.strides.with(at, x.strides[at] * step)
  return view(
    x,
    x.shape.with(at, count),
    strides,
    x.offset + from * x.strides[at]
  )
}

function select(x, axis, index) {
  const at = axisOf(x, axis)
  const offset = x.offset + placeIn(x.shape[at], index) * x.strides[at]
  return view(x, x.shape.toSpliced(at, 1), x.strides.toSpliced(at, 1), offset)
}

// The views of consecutive parts along an axis. sizes: a list of their sizes, or one size for all:
// the last part is then smaller where that size does not divide the axis.
function split(x, sizes, axis = 0) {
  const size = x.shape[axisOf(x, axis)]
  const counts = Array.isArray(sizes)
    ? sizes
    : new Array(Math.ceil(size / sizes)).fill(sizes)
  let start = 0
  return counts.map(count => {
    start += count
    return slice(x, axis, start - count, start)
  })
}

// A view with these axes in reverse: each begins at its last position and has a negative stride.
function flip(x, axes) {
  let turned = x
  for (const axis of axes) {
    const at = axisOf(x, axis)
    const {shape, strides, offset} = turned
    const last = offset + (shape[at] - 1) * strides[at]
    turned = view(x, shape, strides.with(at, -strides[at]), last)
  }
  return turned
}

// ---- loops ----

// Walks through several tensors of one shape together, and calls visit(size, places, strides) for
// each row, so that an operation is a plain, fast loop over a row: the numbers of tensor k in this
// row are its data[places[k]], data[places[k] + strides[k]] and so on, `size` of them. `index` is
// the position of the row along each outer axis, and goes on like an odometer.
function walk(shape, tensors, visit) {
  const {sizes, moves} = loopsOf(shape, tensors)
  if (sizes.includes(0)) return
  const places = tensors.map(({offset}) => offset)
  const index = new Array(sizes.length).fill(0)
  for (;;) {
    visit(sizes[0], places, moves[0])
    let axis = 1
    while (axis < sizes.length && !advance(axis)) axis++
    if (axis >= sizes.length) return
  }

  // Whether the walk is now at the next place along an axis, and not again at its first.
  function advance(axis) {
    const isEnd = ++index[axis] === sizes[axis]
    const count = isEnd ? 1 - sizes[axis] : 1
    for (let k = 0; k < places.length; k++)
      places[k] += count * moves[axis][k]
    if (isEnd) index[axis] = 0
    return !isEnd
  }
}

// The loops of a walk, the innermost (last) axis first: `sizes`, how long each is, and `moves`, the
// strides of all tensors along it. Axes of one position are left out. An axis that goes on where
// the one inside it ends, in every tensor, is joined with it, since few long rows are faster than
// many short ones: contiguous tensors are a single row.
function loopsOf(shape, tensors) {
  const sizes = []
  const moves = []
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    if (shape[axis] === 1) continue
    const own = tensors.map(({strides}) => strides[axis])
    const last = sizes.length - 1
    if (
      last >= 0 &&
      own.every((step, k) => step === moves[last][k] * sizes[last])
    ) {
      sizes[last] *= shape[axis]
    } else {
      sizes.push(shape[axis])
      moves.push(own)
    }
  }
  return sizes.length
    ? {sizes, moves}
    : {sizes: [1], moves: [tensors.map(() => 0)]}
}

// Writes a tensor or a number, repeated to the shape of `to`, over the numbers that the view `to`
// shows. Long contiguous rows are copied at once, which is faster than number by number.
function copyInto(to, from) {
  const source = expand(single(from), to.shape)
  const [out, data] = [to.data, source.data]
  walk(to.shape, [to, source], (size, [o, i], [q, p]) => {
    if (size > 30 && q === 1 && p === 1)
      out.set(data.subarray(i, i + size), o)
    else for (let k = 0; k < size; k++, o += q, i += p) out[o] = data[i]
  })
  return to
}

const copy = (x, type = x.type) => copyInto(tensor(type, x.shape), x)

// A tensor itself if it is contiguous, or a copy that is. The stride of an axis of one position
// does not matter.
function contiguous(x) {
  const {shape, strides} = x
  const isInOrder = contiguousStrides(shape).every(
    (step, axis) => step === strides[axis] || shape[axis] === 1
  )
  return isInOrder ? x : copy(x)
}

// A copy of x in which a part is replaced: `part` returns the view of the copy that is written.
function scattered(x, values, part) {
  const result = copy(x)
  copyInto(part(result), values)
  return result
}

// As torch.cat: a new tensor with the parts one after the other along an axis; a single part is
// returned as it is. Like PyTorch, it leaves out parts of shape [0].
function cat(parts, axis = 0) {
  const some = parts.filter(({shape}) => shape.length > 1 || shape[0] !== 0)
  if (some.length === 1) return some[0]
  const [{type, shape}] = some
  const at = placeIn(shape.length, axis)
  const sizes = some.map(part => part.shape[at])
  const result = tensor(type, shape.with(at, total(sizes)))
  for (const [k, place] of split(result, sizes, at).entries())
    copyInto(place, some[k])
  return result
}

// As torch.nn.functional.pad: a tensor with positions of `value` before and after it. sizes:
// [before, after] of the last axis, then of the one before it and so on, in one list; a size below
// 0 cuts so many positions off.
function pad(x, sizes, value = 0) {
  let result = x
  for (let k = 0; k < sizes.length; k += 2) {
    const axis = x.shape.length - 1 - k / 2
    const [before, after] = sizes.slice(k, k + 2)
    const more = count =>
      filled(result.shape.with(axis, Math.max(0, count)), value, x.type)
    const own = slice(
      result,
      axis,
      Math.max(0, -before),
      x.shape[axis] + Math.min(0, after)
    )
    result = cat([more(before), own, more(after)], axis)
  }
  return result
}
