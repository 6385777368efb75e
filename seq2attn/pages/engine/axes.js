// Operations along axes: sums and the like, and those that make a line of numbers of a line.

// Starts with `start`, then `add(total, value)` for each value, or a sum, then `end(total, count)`.
function reduction(start, add, end, type) {
  return (x, axes = [], keep = false) => {
    const given = [axes].flat().map(axis => axisOf(axis, x.shape.length))
    const gone = given.length ? given : [...x.shape.keys()]
    const kept = x.shape.map((size, axis) => (gone.includes(axis) ? 1 : size))
    const result = filled(
      kept,
      start,
      type ?? (x.type === "bool" ? "int" : x.type)
    )
    gathered(x, result, add)
    const count = product(x.shape) / result.data.length
    if (end)
      result.data.forEach((total, k, totals) => {
        totals[k] = end(total, count)
      })
    return keep ? result : squeeze(result, gone)
  }
}

function gathered(x, {data: totals, ...result}, add) {
  const {data} = x
  walk(x.shape, [expand(result, x.shape), x], (size, [o, i], [q, p]) => {
    if (add)
      for (let k = 0; k < size; k++, o += q, i += p)
        totals[o] = add(totals[o], data[i])
    else for (let k = 0; k < size; k++, o += q, i += p) totals[o] += data[i]
  })
}

const sum = reduction(0)
const mean = reduction(0, null, (total, count) => total / count)
const amax = reduction(-Infinity, most)
const amin = reduction(Infinity, least)
const sumOfPowers = order =>
  reduction(
    0,
    (total, x) => total + Math.abs(x) ** order,
    total => total ** (1 / order)
  )
const length = reduction(0, (total, x) => total + x * x, Math.sqrt)

function norm(x, order = 2, axes = [], keep = false) {
  if (order === Infinity) return amax(unary(Math.abs)(x), axes, keep)
  return (order === 2 ? length : sumOfPowers(order))(x, axes, keep)
}

function variance(x, axes = [], correction = 1, keep = false) {
  const deviations = square(minus(x, mean(x, axes, true)))
  const total = sum(deviations, axes, keep)
  return over(total, product(x.shape) / product(total.shape) - correction)
}

// compute(line, into, count) for each line along an axis: line.data from line.at by line.step.
function lines(x, axis, compute, type = x.type) {
  const result = tensor(type, x.shape)
  const at = axisOf(axis, x.shape.length)
  const [from, into] = [x, result].map(({data, steps}) => ({
    data,
    step: steps[at],
    at: 0
  }))
  const starts = [x, result].map(one => slice(one, at, 0, 1))
  walk(starts[0].shape, starts, (size, [i, o], [p, q]) => {
    for (let k = 0; k < size; k++) {
      from.at = i + k * p
      into.at = o + k * q
      compute(from, into, x.shape[at])
    }
  })
  return result
}

function softmax(x, axis) {
  return lines(x, axis, ({data, at, step}, into, count) => {
    const out = into.data
    let largest = -Infinity
    let total = 0
    for (let k = 0; k < count; k++)
      largest = Math.max(largest, data[at + k * step])
    for (let k = 0; k < count; k++) {
      const share = Math.exp(data[at + k * step] - largest)
      out[into.at + k * into.step] = share
      total += share
    }
    for (let k = 0; k < count; k++) out[into.at + k * into.step] /= total
  })
}

const cumulative = add => (x, axis) =>
  lines(x, axis, ({data, at, step}, into, count) => {
    let total = data[at]
    for (let k = 0; k < count; k++) {
      if (k) total = add(total, data[at + k * step])
      into.data[into.at + k * into.step] = total
    }
  })

function addLogs(x, y) {
  const larger = Math.max(x, y)
  if (larger === -Infinity) return larger
  return larger + Math.log(Math.exp(x - larger) + Math.exp(y - larger))
}

// The places of the numbers along an axis in their order; of equal ones, the earlier first.
function argsort(x, axis = -1, descending = false) {
  const sign = descending ? -1 : 1
  return lines(
    x,
    axis,
    ({data, at, step}, into, count) => {
      const order = Array.from({length: count}, (_, k) => k)
      order.sort((k, l) => sign * (data[at + k * step] - data[at + l * step]))
      order.forEach((place, k) => {
        into.data[into.at + k * into.step] = place
      })
    },
    "int"
  )
}

function sort(x, axis = -1, descending = false) {
  const places = argsort(x, axis, descending)
  return [gather(x, axis, places), places]
}

function topk(x, count, axis = -1, largest = true) {
  return sort(x, axis, largest).map(part => slice(part, axis, 0, count))
}

const extreme =
  largest =>
  (x, axis, keep = false) => {
    const line = axis === undefined ? flatten(x) : x
    const places = slice(argsort(line, axis ?? 0, largest), axis ?? 0, 0, 1)
    return keep ? places : squeeze(places, [axis ?? 0])
  }

const argmax = extreme(true)
const argmin = extreme(false)

// The largest along an axis, and where it stands.
function withPlaces(find, places) {
  return (x, axis, keep = false) => [
    find(x, [axis], keep),
    places(x, axis, keep)
  ]
}

function range(start, end, step = 1, type = "int") {
  const result = tensor(type, [Math.max(0, Math.ceil((end - start) / step))])
  result.data.forEach((_, k) => {
    result.data[k] = start + k * step
  })
  return result
}
