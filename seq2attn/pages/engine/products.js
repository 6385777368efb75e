// Products of matrices, and what is made of them.

// Multiplies a (rows, inner) by b (inner, columns), and writes the product by rows into the array
// `out` from `place` on. Large ones are computed in WebAssembly, where the copying there pays.
function multiply(a, b, out, place) {
  const [rows, inner] = a.shape
  const columns = b.shape[1]
  if (compiled && rows > 3 && columns > 3 && rows * inner * columns > 1000) {
    multiplyCompiled(a, b, out, place)
    return
  }
  const [x, y] = [a.data, b.data]
  const [p, q] = [a.steps[1], b.steps[0]]
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      let i = a.first + row * a.steps[0]
      let j = b.first + column * b.steps[1]
      let total = 0
      for (let k = 0; k < inner; k++) {
        total += x[i] * y[j]
        i += p
        j += q
      }
      out[place + row * columns + column] = total
    }
  }
}

function mm(a, b) {
  const result = tensor("float", [a.shape[0], b.shape[1]])
  multiply(a, b, result.data, 0)
  return result
}

// Products of the matrices of a (N, R, K) and b (N, K, C), one by one.
function bmm(a, b) {
  const [count, rows] = a.shape
  const columns = b.shape[2]
  const result = tensor("float", [count, rows, columns])
  for (let k = 0; k < count; k++) {
    multiply(
      select(a, 0, k),
      select(b, 0, k),
      result.data,
      k * rows * columns
    )
  }
  return result
}

// As torch.matmul: of two vectors, or of the matrices in the last two axes, with the axes before
// those repeated to one shape and flattened for `bmm`.
function matmul(a, b) {
  if (a.shape.length === 1) return squeeze(matmul(unsqueeze(a, 0), b), [-2])
  if (b.shape.length === 1) return squeeze(matmul(a, unsqueeze(b, 1)), [-1])
  const outer = broadcast([a.shape.slice(0, -2), b.shape.slice(0, -2)])
  const [x, y] = [a, b].map(({shape}, k) => {
    const matrix = shape.slice(-2)
    return reshape(expand([a, b][k], [...outer, ...matrix]), [
      product(outer),
      ...matrix
    ])
  })
  return reshape(bmm(x, y), [...outer, a.shape.at(-2), b.shape.at(-1)])
}

const addmm = (bias, a, b, beta = 1, alpha = 1) =>
  plus(scaled(mm(a, b), alpha), scaled(bias, beta))

// x (..., K) times the transpose of weights (M, K), plus bias (M): all vectors of x as the rows of
// one matrix.
function linear(x, weights, bias) {
  const outer = x.shape.slice(0, -1)
  const rows = reshape(x, [product(outer), x.shape.at(-1)])
  const result = reshape(mm(rows, transpose(weights, 0, 1)), [
    ...outer,
    weights.shape[0]
  ])
  return bias ? plus(result, bias) : result
}

// x (B, C, S), filters (M, C / groups, K) -> (B, M, L), as one product of matrices for each group:
// its filters are the rows, and what these see of its channels at each of the L places, the
// windows, are the columns. Windows overlap; as a view with steps of its own they are not copied
// before that. spread: torch's dilation.
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
    const [perString, perChannel, perPlace] = channels.steps
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

// Normalises over the last axes, whose sizes these are. Returns the result, the means and the
// factors 1 / deviation, which the gradients need.
function layerNorm(x, sizes, weight, bias, epsilon = 1e-5) {
  const axes = sizes.map((_, k) => -1 - k)
  const middle = mean(x, axes, true)
  const moved = minus(x, middle)
  const factor = pow(plus(mean(square(moved), axes, true), epsilon), -0.5)
  const normal = times(moved, factor)
  const result = weight ? times(normal, weight) : normal
  return [bias ? plus(result, bias) : result, middle, factor]
}
