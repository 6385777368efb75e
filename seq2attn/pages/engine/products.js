// Products of matrices, and what is made of them.

// Multiplies a (rows, inner) by b (inner, columns), and writes the product by rows into the array
// `out` from `place` on. Large ones are computed in WebAssembly, where the copying there pays.
function multiply(a, b, out, place) {
  const [rows, inner] = a.shape
  const columns = b.shape[1]
  const isLarge = rows > 3 && columns > 3 && rows * inner * columns > 1000
  if (compiled && isLarge) multiplyCompiled(a, b, out, place)
  else multiplyHere(a, b, out, place)
}

// The same in JavaScript. A row of a is multiplied by two columns of b, `one` and `other`, at once,
// in two thirds of the time of one by one; of an odd number of columns, the last is multiplied with
// itself. `down` and `across` are the strides from row to row of a and from column to column of b;
// p and q those along the inner axis.
function multiplyHere(a, b, out, place) {
  const [rows, inner] = a.shape
  const columns = b.shape[1]
  const [x, y] = [a.data, b.data]
  const [down, p] = a.strides
  const [q, across] = b.strides
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column += 2) {
      const isPair = column + 1 < columns
      const next = isPair ? across : 0
      let i = a.offset + row * down
      let j = b.offset + column * across
      let one = 0
      let other = 0
      for (let k = 0; k < inner; k++) {
        one += x[i] * y[j]
        other += x[i] * y[j + next]
        i += p
        j += q
      }
      const at = place + row * columns + column
      out[at] = one
      if (isPair) out[at + 1] = other
    }
  }
}

// As torch.matmul: of two vectors, or of the matrices in the last two axes, with the axes before
// those repeated to one shape: (N, R, K) times (K, C) is (N, R, C). The walk goes through these
// outer axes, but for the last of them, which is left to the loop here: along it, the next matrix
// of a begins p numbers after i, that of b q numbers after j, that of the result r after o.
function matmul(a, b) {
  if (b.shape.length === 1) return squeeze(matmul(a, unsqueeze(b, 1)), [-1])
  if (a.shape.length === 1) return squeeze(matmul(unsqueeze(a, 0), b), [-2])
  const outer = broadcast([a.shape.slice(0, -2), b.shape.slice(0, -2)])
  const result = tensor("float", [...outer, a.shape.at(-2), b.shape.at(-1)])
  const [x, y] = [a, b].map(one => expand(one, [...outer, -1, -1]))
  walk(outer, [x, y, result], (size, [i, j, o], [p, q, r]) => {
    for (let k = 0; k < size; k++) {
      const [left, right] = [matrixAt(a, i + k * p), matrixAt(b, j + k * q)]
      multiply(left, right, result.data, o + k * r)
    }
  })
  return result
}

// The matrix of the last two axes that begins at this place of the array.
const matrixAt = ({shape, strides, ...x}, offset) =>
  view(x, shape.slice(-2), strides.slice(-2), offset)

const addmm = (bias, a, b, beta = 1, alpha = 1) =>
  plus(scaled(matmul(a, b), alpha), scaled(bias, beta))

// x (..., K) times the transpose of weights (M, K), plus bias (M).
function linear(x, weights, bias) {
  const result = matmul(x, transpose(weights, 0, 1))
  return bias ? plus(result, bias) : result
}

// As torch.nn.functional.conv1d: x (B, C, S), filters (M, C / groups, K) -> (B, M, L), as one
// product of matrices for each group. Its filters are the rows; the columns are the windows: what a
// filter sees of the group's channels at each of the L positions. Windows overlap: they are a view,
// in which a number occurs several times. step, padding, spread: torch's stride, padding and
// dilation.
function conv1d(
  x,
  filters,
  bias,
  [step] = [1],
  [padding] = [0],
  [spread] = [1],
  groups = 1
) {
  const [count, each, kernel] = filters.shape
  const wide = pad(x, [padding, padding])
  const reach = spread * (kernel - 1) + 1
  const size = Math.floor((wide.shape[2] - reach) / step) + 1
  const filtersOf = split(filters, count / groups)
  const parts = split(wide, each, 1).map((channels, group) => {
    const [perString, perChannel, perPlace] = channels.strides
    const windows = view(
      channels,
      [x.shape[0], each, kernel, size],
      [perString, perChannel, spread * perPlace, step * perPlace]
    )
    return matmul(
      reshape(filtersOf[group], [1, count / groups, each * kernel]),
      reshape(windows, [x.shape[0], each * kernel, size])
    )
  })
  const result = cat(parts, 1)
  return bias ? plus(result, unsqueeze(bias, 1)) : result
}

// As torch.native_layer_norm: normalises over the last axes, whose sizes these are. Returns the
// result, the means, and the factors 1 / standard deviation, which the gradients need.
function layerNorm(x, sizes, weight, bias, epsilon = 1e-5) {
  const axes = sizes.map((_, k) => -1 - k)
  const middle = mean(x, axes, true)
  const moved = minus(x, middle)
  const factor = pow(plus(mean(square(moved), axes, true), epsilon), -0.5)
  const normal = times(moved, factor)
  return [plusProduct(bias ?? 0, normal, weight ?? 1), middle, factor]
}
