// Operations on each number: of one tensor, or of several that are repeated to one shape.

const TYPES = ["bool", "int", "number", "float"] // each holds those before it

// Makes an operation on up to three tensors or numbers a, b and c, which are repeated to one shape.
// `loop` computes a row of the result: out[o] to out[end - 1] from a[i], a[i + p], ... (p is the
// stride of a along the row), b[j], b[j + q], ... and c[l], c[l + r], ... Without a type, the
// result has the widest one of its inputs.
function elementwise(loop, type) {
  return (...given) => {
    const inputs = given.map(single)
    const shape = broadcast(inputs.map(input => input.shape))
    const own = inputs.map(input => input.type)
    const widest = TYPES.findLast(one => own.includes(one))
    const common = widest === "number" ? "float" : widest
    const result = tensor(type ?? common, shape)
    const repeated = inputs.map(input => expand(input, shape))
    const [a, b, c] = inputs.map(input => input.data)
    walk(shape, [result, ...repeated], (size, [o, i, j, l], [, p, q, r]) => {
      loop(result.data, o, o + size, a, i, p, b, j, q, c, l, r)
    })
    return result
  }
}

const unary = (compute, type) =>
  elementwise((out, o, end, a, i, p) => {
    for (; o < end; o++, i += p) out[o] = compute(a[i])
  }, type)

const binary = (compute, type) =>
  elementwise((out, o, end, a, i, p, b, j, q) => {
    for (; o < end; o++, i += p, j += q) out[o] = compute(a[i], b[j])
  }, type)

// Written out, since JavaScript calls a function that several loops share, as in `binary`, anew for
// each number. Those below the loops are used less often.
const plus = elementwise((out, o, end, a, i, p, b, j, q) => {
  for (; o < end; o++, i += p, j += q) out[o] = a[i] + b[j]
})
const minus = elementwise((out, o, end, a, i, p, b, j, q) => {
  for (; o < end; o++, i += p, j += q) out[o] = a[i] - b[j]
})
const times = elementwise((out, o, end, a, i, p, b, j, q) => {
  for (; o < end; o++, i += p, j += q) out[o] = a[i] * b[j]
})
const over = elementwise((out, o, end, a, i, p, b, j, q) => {
  for (; o < end; o++, i += p, j += q) out[o] = a[i] / b[j]
})
const where = elementwise((out, o, end, a, i, p, b, j, q, c, l, r) => {
  for (; o < end; o++, i += p, j += q, l += r) out[o] = a[i] ? b[j] : c[l]
})
const plusProduct = elementwise((out, o, end, a, i, p, b, j, q, c, l, r) => {
  for (; o < end; o++, i += p, j += q, l += r) out[o] = a[i] + b[j] * c[l]
})

const scaled = (x, factor) => (factor === 1 ? x : times(x, factor))
const square = x => times(x, x)
const smaller = (x, y) => (x < y || Number.isNaN(x) ? x : y)
const larger = (x, y) => (x > y || Number.isNaN(x) ? x : y)
const remainder = (x, y) => x - y * Math.floor(x / y)
const casts = {
  bool: unary(x => x !== 0, "bool"),
  int: unary(Math.trunc, "int"),
  float: x => ({...x, type: "float"})
}
const minimum = binary(smaller)
const maximum = binary(larger)
const power = binary((x, y) => x ** y)
const negation = unary(x => !x, "bool")

const cast = (x, type) => (x.type === type ? x : casts[type](x))

function clamp(x, low, high) {
  const above = low === undefined ? x : maximum(x, low)
  return high === undefined ? above : minimum(above, high)
}

function divide(x, y, mode) {
  const result = over(x, y)
  return OPERATIONS[mode]?.(result) ?? casts.float(result)
}

const pow = (x, y) => (y === 2 ? square(x) : power(x, y))

// To the nearest, of two the even one.
function round(x) {
  const up = Math.round(x)
  return up - x === 0.5 && up % 2 ? up - 1 : up
}

// The error function, by the series 2/sqrt(pi) exp(-z^2) (z + 2z^3/3 + 4z^5/15 + ...) of z = |x|:
// all terms are positive, so nothing cancels. Beyond 6 it is 1 in double precision; terms below
// 1e-17 of the total do not change it.
function erf(x) {
  const z = Math.abs(x)
  if (z > 6) return Math.sign(x)
  let term = z
  let total = z
  for (let n = 1; term > 1e-17 * total; n++) {
    term *= (2 * z * z) / (2 * n + 1)
    total += term
  }
  return ((Math.sign(x) * 2) / Math.sqrt(Math.PI)) * Math.exp(-z * z) * total
}

function softplus(x, beta = 1, threshold = 20) {
  return unary(v =>
    v * beta > threshold ? v : Math.log1p(Math.exp(v * beta)) / beta
  )(x)
}
