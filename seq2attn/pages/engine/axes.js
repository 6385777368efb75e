// Operations along axes: sums and the like, and those that make a line of numbers of a line.

// Makes an operation such as `amax` that reduces the numbers along some axes (all, if none are
// given) to one: each total begins with `start` and becomes add(total, value) for each of its
// numbers (without `add`, their sum). The operation takes `axes` as a number or a list; keep:
// whether these axes stay, with one position, as torch's keepdim.
function reduction(start, add, type) {
  return (x, axes = [], keep = false) => {
    const given = [axes].flat().map(axis => axisOf(x, axis))
    const gone = given.length ? given : [...x.shape.keys()]
    const kept = x.shape.map((size, axis) => (gone.includes(axis) ? 1 : size))
    const own = x.type === "bool" ? "int" : x.type
    const result = filled(kept, start, type ?? own)
    addUp(x, result, add)
    return keep ? result : squeeze(result, gone)
  }
}

// Adds each number of x to its total in `result`, which has one position along each axis that is
// reduced. Repeated to the shape of x, which copies nothing, it can be walked together with x.
// Plain sums have a loop of their own, which is faster than calling `add`.
function addUp(x, result, add) {
  const [data, totals] = [x.data, result.data]
  walk(x.shape, [expand(result, x.shape), x], (size, [o, i], [q, p]) => {
    if (add)
      for (let k = 0; k < size; k++, o += q, i += p)
        totals[o] = add(totals[o], data[i])
    else for (let k = 0; k < size; k++, o += q, i += p) totals[o] += data[i]
  })
}

const sum = reduction(0)
const amax = reduction(-Infinity, larger)
const amin = reduction(Infinity, smaller)

// The sum of some numbers divided by their count, less `correction`.
function mean(x, axes, keep, correction = 0) {
  const total = sum(x, axes, keep)
  return over(total, product(x.shape) / product(total.shape) - correction)
}

function variance(x, axes, correction = 1, keep = false) {
  const deviations = minus(x, mean(x, axes, true))
  return mean(square(deviations), axes, keep, correction)
}

// A tensor of the shape of x, made line by line along an axis: compute(line, out) reads the numbers
// of one line as an array and fills the array `out`. Meanwhile that axis is the last one of a
// contiguous tensor, so that each line is one piece of its array.
function lines(x, axis, compute, type = x.type) {
  const {data, offset, shape} = contiguous(transpose(x, axis, -1))
  const result = tensor(type, shape)
  const size = shape.at(-1)
  for (let at = 0; at < result.data.length; at += size) {
    const line = data.subarray(offset + at, offset + at + size)
    compute(line, result.data.subarray(at, at + size))
  }
  return transpose(result, axis, -1)
}

const softmax = (x, axis) =>
  lines(x, axis, (line, out) => out.set(probabilities(line)))

const cumulative = add => (x, axis) =>
  lines(x, axis, (line, out) => {
    out.set(line)
    for (let k = 1; k < line.length; k++) out[k] = add(out[k - 1], line[k])
  })

// log(exp(x) + exp(y)), where the exponentials alone could be infinite or 0.
function addLogs(x, y) {
  const larger = Math.max(x, y)
  if (larger === -Infinity) return larger
  return larger + Math.log(Math.exp(x - larger) + Math.exp(y - larger))
}

// The positions of the numbers along an axis in the order of the numbers; of equal ones, the
// earlier first.
function argsort(x, axis = -1, descending = false) {
  const sign = descending ? -1 : 1
  const order = (line, out) =>
    out.set([...line.keys()].sort((k, l) => sign * (line[k] - line[l])))
  return lines(x, axis, order, "int")
}

function sort(x, axis = -1, descending = false) {
  const places = argsort(x, axis, descending)
  return [gather(x, axis, places), places]
}

function topk(x, count, axis = -1, largest = true) {
  return sort(x, axis, largest).map(part => slice(part, axis, 0, count))
}

// The position of the largest of some numbers, or with `smaller` of the smallest; of equal ones,
// the first.
const peak = (numbers, join = larger) => numbers.indexOf(numbers.reduce(join))

// Makes argmax or argmin along an axis; without an axis, of all numbers. `lines` makes as many
// numbers as it reads: each line is filled with its own, and all but the first are sliced off.
const extreme =
  join =>
  (x, axis, keep = false) => {
    const whole = axis === undefined ? flatten(x) : x
    const find = (line, out) => out.fill(peak(line, join))
    const found = slice(lines(whole, axis ?? 0, find, "int"), axis ?? 0, 0, 1)
    return keep ? found : squeeze(found, axis ?? 0)
  }

const argmax = extreme(larger)
const argmin = extreme(smaller)

// The largest along an axis, and where it stands.
function withPlaces(find, places) {
  return (x, axis, keep = false) => [
    find(x, axis, keep),
    places(x, axis, keep)
  ]
}

function range(start, end, step = 1, type = "int") {
  const count = Math.max(0, Math.ceil((end - start) / step))
  return tensorOf(type, [count], k => start + k * step)
}
