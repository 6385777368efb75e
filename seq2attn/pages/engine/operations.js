// The operations of graphs, by their names in PyTorch's ATen, with their arguments in its order.

// {name: make(value)} of {name: value}.
function mapValues(values, make) {
  return Object.fromEntries(
    Object.entries(values).map(([name, value]) => [name, make(value)])
  )
}

const FUNCTIONS = {
  abs: Math.abs,
  ceil: Math.ceil,
  floor: Math.floor,
  neg: x => -x,
  relu: x => (x < 0 ? 0 : x),
  round,
  sign: Math.sign,
  trunc: Math.trunc
}

const FLOAT_FUNCTIONS = {
  atan: Math.atan,
  cos: Math.cos,
  erf,
  exp: Math.exp,
  expm1: Math.expm1,
  log: Math.log,
  log1p: Math.log1p,
  log2: Math.log2,
  reciprocal: x => 1 / x,
  rsqrt: x => 1 / Math.sqrt(x),
  sigmoid: x => 1 / (1 + Math.exp(-x)),
  sin: Math.sin,
  sqrt: Math.sqrt,
  tan: Math.tan,
  tanh: Math.tanh
}

const COMPARISONS = {
  eq: (x, y) => x === y,
  ge: (x, y) => x >= y,
  gt: (x, y) => x > y,
  le: (x, y) => x <= y,
  lt: (x, y) => x < y,
  ne: (x, y) => x !== y,
  logical_and: (x, y) => Boolean(x && y),
  logical_or: (x, y) => Boolean(x || y)
}

const PAIRS = {
  bitwise_and: (x, y) => x & y,
  bitwise_or: (x, y) => x | y,
  bitwise_xor: (x, y) => x ^ y,
  fmod: (x, y) => x % y,
  remainder,
  sigmoid_backward: (x, y) => x * y * (1 - y),
  tanh_backward: (x, y) => x * (1 - y * y)
}

const OPERATIONS = {
  // of each number
  ...mapValues(FUNCTIONS, one => unary(one)),
  ...mapValues(FLOAT_FUNCTIONS, one => unary(one, "float")),
  // of two numbers each
  ...mapValues(COMPARISONS, one => binary(one, "bool")),
  ...mapValues(PAIRS, one => binary(one)),

  // on plain numbers, not tensors
  python_add: (x, y) => x + y,
  python_floordiv: (x, y) => Math.floor(x / y),
  python_getitem: (x, k) => x[k],
  python_mod: remainder,
  python_mul: (x, y) => x * y,
  python_neg: x => -x,
  python_pow: (x, y) => x ** y,
  python_sub: (x, y) => x - y,
  python_truediv: (x, y) => x / y,
  sym_size: (x, axis) => x.shape[axisOf(x, axis)],

  // of tensors, number by number
  add: (x, y, alpha = 1) => plus(x, scaled(y, alpha)),
  addcmul: (x, y, z, value = 1) => plusProduct(x, y, scaled(z, value)),
  bitwise_not: x => (x.type === "bool" ? negation : unary(one => ~one))(x),
  cast,
  clamp,
  div: divide,
  isnan: unary(Number.isNaN, "bool"),
  lerp: (x, y, share) => plusProduct(x, share, minus(y, x)),
  logical_not: negation,
  masked_fill: (x, mask, value) => cast(where(mask, value, x), x.type),
  max: (x, y) => (y ? maximum(x, y) : amax(x)),
  maximum,
  min: (x, y) => (y ? minimum(x, y) : amin(x)),
  minimum,
  mul: times,
  pow,
  softplus,
  sub: (x, y, alpha = 1) => minus(x, scaled(y, alpha)),
  where,

  // along axes
  all: reduction(1, (x, y) => Boolean(x && y), "bool"),
  amax,
  amin,
  any: reduction(0, (x, y) => Boolean(x || y), "bool"),
  argmax,
  argmin,
  argsort,
  cumprod: cumulative((x, y) => x * y),
  cumsum: cumulative((x, y) => x + y),
  linalg_vector_norm: (x, _, ...along) =>
    OPERATIONS.sqrt(sum(square(x), ...along)),
  logcumsumexp: cumulative(addLogs),
  max_dim: withPlaces(amax, argmax),
  mean,
  min_dim: withPlaces(amin, argmin),
  prod: reduction(1, (x, y) => x * y),
  softmax,
  sort,
  sum,
  topk,
  var: variance,

  // by places
  embedding,
  embedding_dense_backward: embeddingBackward,
  gather,
  index,
  scatter,
  scatter_add: scatterAdd,
  searchsorted,

  // products
  addmm,
  bmm: matmul,
  conv1d,
  layer_norm: (...given) => layerNorm(...given)[0],
  linear,
  matmul,
  mm: matmul,
  native_layer_norm: layerNorm,

  // shapes
  arange: range,
  cat,
  chunk: (x, count, axis = 0) =>
    split(x, Math.ceil(x.shape[axisOf(x, axis)] / count), axis),
  constant_pad_nd: pad,
  copy: (x, source) => copy(expand(single(source), x.shape), x.type),
  expand,
  expand_as: (x, y) => expand(x, y.shape),
  flatten,
  flip,
  full: filled,
  full_like: (x, value, type) => filled(x.shape, value, type),
  mT: x => transpose(x, -2, -1),
  pad: (x, sizes, _, value) => pad(x, sizes, value),
  permute,
  reshape,
  select,
  select_scatter: (x, y, ...at) =>
    scattered(x, y, whole => select(whole, ...at)),
  slice,
  slice_scatter: (x, y, ...at) =>
    scattered(x, y, whole => slice(whole, ...at)),
  split,
  split_with_sizes: split,
  squeeze,
  stack,
  t: x => transpose(x, 0, -1),
  transpose,
  unbind: (x, axis = 0) =>
    split(x, 1, axis).map(part => squeeze(part, [axis])),
  unsqueeze,
  view_as: (x, y) => reshape(x, y.shape)
}
