// Operations that read or write where integers say.

// The loop of `gather` and `scatter`. Each number of `indices` is a position along an axis of x;
// its other positions are its own. Calls visit(i, o) for each: i is the place in x.data that it
// points to, o its own place in the data of `other`, which has the shape of `indices`. `start`
// walks through x with the stride 0 along the axis, and so stays at position 0 of it.
function eachIndex(x, axis, indices, other, visit) {
  const at = axisOf(x, axis)
  const start = {offset: x.offset, strides: x.strides.with(at, 0)}
  walk(
    indices.shape,
    [start, indices, other],
    (size, [i, j, o], [p, q, r]) => {
      for (let k = 0; k < size; k++) {
        const index = placeIn(x.shape[at], indices.data[j + k * q])
        visit(i + k * p + index * x.strides[at], o + k * r)
      }
    }
  )
}

function gather(x, axis, indices) {
  const result = tensor(x.type, indices.shape)
  eachIndex(x, axis, indices, result, (i, o) => {
    result.data[o] = x.data[i]
  })
  return result
}

// Makes `scatter` or `scatter_add`: a copy of x in which, where `indices` point along an axis, old
// is replaced by join(old, value). values: a tensor, or a number for all.
const scattering = join => (x, axis, indices, values) => {
  const result = copy(x)
  const given = expand(single(values), indices.shape)
  eachIndex(result, axis, indices, given, (i, o) => {
    result.data[i] = join(result.data[i], given.data[o])
  })
  return result
}

const scatter = scattering((_, value) => value)
const scatterAdd = scattering((old, value) => old + value)

// The rows of `weights` (V, W) that `ids` of any shape (...) name: (..., W).
function embedding(weights, ids) {
  const width = weights.shape[1]
  const result = tensor(weights.type, [...ids.shape, width])
  for (const [k, id] of numbersOf(ids).entries()) {
    copyInto(view(result, [width], [1], k * width), select(weights, 0, id))
  }
  return result
}

// The gradient (count, W) of the rows of an embedding: each gets the sum of the gradients (..., W)
// where its id stands in `ids`; the row of the id `padding` gets none.
function embeddingBackward(gradients, ids, count, padding) {
  const width = gradients.shape.at(-1)
  const rows = reshape(gradients, [-1, width])
  const places = expand(reshape(ids, [-1, 1]), rows.shape)
  const isPadding = OPERATIONS.eq(places, padding)
  const given = where(isPadding, 0, rows)
  return scatterAdd(filled([count, width], 0), 0, places, given)
}

// x[indices] as in PyTorch: for each of the first axes a tensor of integers, or nothing where the
// whole axis stays, as in x[:, i, j]. The indexed axes are moved to the front and joined, so that x
// is a matrix (their positions, the rest): `ids`, the number of a row, is i * size of j's axis + j.
// PyTorch puts the axes of the indices where the indexed axes were, if these stand together, and to
// the front otherwise.
function index(x, indices) {
  const axes = [...indices.keys()].filter(axis => indices[axis])
  const others = [...x.shape.keys()].filter(axis => !axes.includes(axis))
  const [sizes, rest] = [axes, others].map(some =>
    some.map(axis => x.shape[axis])
  )
  const whole = permute(x, [...axes, ...others])
  const rows = reshape(whole, [product(sizes), product(rest)])
  const ids = axes.reduce((before, axis) => {
    const own = OPERATIONS.remainder(indices[axis], x.shape[axis])
    return plus(times(before, x.shape[axis]), own)
  }, single(0))
  const result = reshape(embedding(rows, ids), [...ids.shape, ...rest])
  const isTogether = axes.at(-1) - axes[0] === axes.length - 1
  const before = isTogether ? axes[0] : 0 // how many axes come before those of the indices
  const order = [...result.shape.keys()]
  const moved = order.splice(ids.shape.length, before)
  return permute(result, [...moved, ...order])
}

const stack = (parts, axis = 0) =>
  cat(
    parts.map(part => unsqueeze(part, axis)),
    axis
  )

// How many of the sorted `ends` lie below each value, or with `right` are at most equal to it.
function searchsorted(ends, values, _, right = false) {
  const compare = OPERATIONS[right ? "le" : "lt"]
  return sum(compare(unsqueeze(ends, -2), unsqueeze(values, -1)), [-1])
}
