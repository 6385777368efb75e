"use strict";
// The ONNX operations that exported models consist of (https://onnx.ai/onnx/operators), but for those of tensors.js.

const unary = compute => ([a]) => {
  const result = tensor(a.type, a.shape), {data} = a, out = result.data;
  for (let i = 0; i < out.length; i++) out[i] = compute(data[i]);
  return result;
};

// loop(out, place, x, i, p, y, j, q, count) computes a row: out[place + k] from x[i + k p] and y[j + k q].
function combine(a, b, type, loop) {
  const shape = broadcast(a.shape, b.shape), result = tensor(type, shape), total = result.data.length;
  const atOnce = [a, b].every(({data}) => data.length === total || data.length === 1), width = atOnce ? total : shape.at(-1);
  const [[i, p], [j, q]] = [a, b].map(one => {
    const steps = strides(one.shape, shape.length);
    return atOnce ? [[0], Number(one.data.length === total)] : [places(shape.slice(0, -1), steps), steps.at(-1)];
  });
  for (let row = 0; row < i.length; row++) loop(result.data, row * width, a.data, i[row], p, b.data, j[row], q, width);
  return result;
}

const byElement = compute => (out, place, x, i, p, y, j, q, count) => {
  for (let k = 0; k < count; k++, i += p, j += q) out[place + k] = compute(x[i], y[j]);
};
// Written out: a function that several loops share is called for each element.
const PLAIN = {
  Add(out, place, x, i, p, y, j, q, count) { for (let k = 0; k < count; k++, i += p, j += q) out[place + k] = x[i] + y[j]; },
  Sub(out, place, x, i, p, y, j, q, count) { for (let k = 0; k < count; k++, i += p, j += q) out[place + k] = x[i] - y[j]; },
  Mul(out, place, x, i, p, y, j, q, count) { for (let k = 0; k < count; k++, i += p, j += q) out[place + k] = x[i] * y[j]; },
  Div(out, place, x, i, p, y, j, q, count) { for (let k = 0; k < count; k++, i += p, j += q) out[place + k] = x[i] / y[j]; },
};
const plain = loop => ([a, b]) => combine(a, b, a.type, loop);
const arithmetic = compute => plain(byElement(compute));
const comparison = compute => { const loop = byElement(compute); return ([a, b]) => combine(a, b, "bool", loop); };
const several = compute => { const loop = byElement(compute); return inputs => inputs.reduce((a, b) => combine(a, b, a.type, loop)); };

const plus = (total, x) => total + x;

// Reduces over the axes: `start`, then `add(total, value)` for each, then `end(total, count)`.
const reduction = (start, add, end = total => total) => ([a, axes], attributes) => {
  const rank = a.shape.length, given = axes ? list(axes) : attributes.axes || [];
  if (!given.length && attributes.noop_with_empty_axes) return a;
  const gone = new Set(given.length ? given.map(axis => axisOf(axis, rank)) : a.shape.keys());
  const kept = a.shape.map((size, axis) => gone.has(axis) ? 1 : size);
  const totals = new Float64Array(product(kept)).fill(start), {data} = a;
  const to = places(a.shape, strides(kept, rank));
  if (add === plus) for (let i = 0; i < to.length; i++) totals[to[i]] += data[i];
  else for (let i = 0; i < to.length; i++) totals[to[i]] = add(totals[to[i]], data[i]);
  const shape = attributes.keepdims === 0 ? a.shape.filter((_, axis) => !gone.has(axis)) : kept;
  const result = tensor(a.type, shape), count = data.length / totals.length;
  for (let i = 0; i < totals.length; i++) result.data[i] = end(totals[i], count);
  return result;
};

// rows x inner times inner x columns, into out from outAt. Each array begins at its place, and has steps by row and by column.
function multiply(x, xAt, [xRow, xColumn], y, yAt, [yRow, yColumn], out, outAt, rows, inner, columns) {
  if (compiled && rows > 3 && columns > 3 && rows * inner * columns > 1000) return multiplyCompiled(...arguments);
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      let total = 0;
      for (let k = 0, p = xAt + row * xRow, q = yAt + column * yColumn; k < inner; k++, p += xColumn, q += yRow) total += x[p] * y[q];
      out[outAt + row * columns + column] = total;
    }
  }
}

function matmul(a, b) {
  const first = a.shape.length === 1 ? [1, ...a.shape] : a.shape, second = b.shape.length === 1 ? [...b.shape, 1] : b.shape;
  const [rows, inner] = first.slice(-2), columns = second[second.length - 1];
  const outer = broadcast(first.slice(0, -2), second.slice(0, -2));
  const result = tensor(a.type, [...outer, rows, columns]);
  const [i, j] = [first, second].map(one => places(outer, strides(one.slice(0, -2), outer.length)));
  i.forEach((_, k) => multiply(a.data, i[k] * rows * inner, [inner, 1], b.data, j[k] * inner * columns, [columns, 1], result.data, k * rows * columns, rows, inner, columns));
  result.shape = [...outer, ...(a.shape.length === 1 ? [] : [rows]), ...(b.shape.length === 1 ? [] : [columns])];
  return result;
}

function gemm([a, b, c], {alpha = 1, beta = 1, transA = 0, transB = 0}) {
  const steps = ([, width], turned) => turned ? [1, width] : [width, 1], at = Number(transA);
  const rows = a.shape[at], inner = a.shape[1 - at], columns = b.shape[transB ? 0 : 1], result = tensor(a.type, [rows, columns]);
  multiply(a.data, 0, steps(a.shape, transA), b.data, 0, steps(b.shape, transB), result.data, 0, rows, inner, columns);
  const scaled = (one, factor) => factor === 1 ? one : OPERATIONS.Mul([one, tensor(a.type, [], Float64Array.of(factor))]);
  return c ? OPERATIONS.Add([scaled(result, alpha), scaled(c, beta)]) : scaled(result, alpha);
}

// Applies compute(values in, first, step, count, values out) to each line along the axis.
function lines(a, axis, compute, type = a.type) {
  const at = axisOf(axis, a.shape.length), count = a.shape[at], step = product(a.shape.slice(at + 1));
  const result = tensor(type, a.shape);
  for (let outer = 0, outers = product(a.shape.slice(0, at)); outer < outers; outer++) {
    for (let inner = 0; inner < step; inner++) compute(a.data, outer * count * step + inner, step, count, result.data);
  }
  return result;
}

const softmax = logarithmic => ([a], {axis = -1}) => lines(a, axis, (data, first, step, count, out) => {
  let most = -Infinity, total = 0;
  for (let k = 0; k < count; k++) most = Math.max(most, data[first + k * step]);
  for (let k = 0; k < count; k++) total += Math.exp(data[first + k * step] - most);
  for (let k = 0; k < count; k++) {
    const moved = data[first + k * step] - most;
    out[first + k * step] = logarithmic ? moved - Math.log(total) : Math.exp(moved) / total;
  }
});

function layerNormalization([a, scale, bias], {axis = -1, epsilon = 1e-5}) {
  const at = axisOf(axis, a.shape.length), count = product(a.shape.slice(at)), result = tensor(a.type, a.shape);
  const [means, factors] = [0, 1].map(() => tensor(a.type, a.shape.map((size, k) => k < at ? size : 1)));
  for (let first = 0; first < a.data.length; first += count) {
    let mean = 0, variance = 0;
    for (let k = 0; k < count; k++) mean += a.data[first + k] / count;
    for (let k = 0; k < count; k++) variance += (a.data[first + k] - mean) ** 2 / count;
    const factor = 1 / Math.sqrt(variance + epsilon);
    means.data[first / count] = mean;
    factors.data[first / count] = factor;
    for (let k = 0; k < count; k++) {
      result.data[first + k] = (a.data[first + k] - mean) * factor * scale.data[k] + (bias ? bias.data[k] : 0);
    }
  }
  return [result, means, factors];
}

function conv([a, filters, bias], {pads = [0, 0], strides: [step] = [1], dilations: [spread] = [1], group = 1}) {
  if (a.shape.length !== 3) throw new Error("a convolution in more than one dimension is not supported");
  const [rows, channels, width] = a.shape, [made, each, kernel] = filters.shape;
  const length = Math.floor((width + pads[0] + pads[1] - spread * (kernel - 1) - 1) / step) + 1;
  const result = tensor(a.type, [rows, made, length]);
  for (let row = 0; row < rows; row++) {
    for (let to = 0; to < made; to++) {
      const from = Math.floor(to / (made / group)) * each;
      for (let at = 0; at < length; at++) {
        let total = bias ? bias.data[to] : 0;
        for (let c = 0; c < each; c++) {
          for (let k = 0; k < kernel; k++) {
            const place = at * step + k * spread - pads[0];
            if (place >= 0 && place < width) total += a.data[(row * channels + from + c) * width + place] * filters.data[(to * each + c) * kernel + k];
          }
        }
        result.data[(row * made + to) * length + at] = total;
      }
    }
  }
  return result;
}

// 2/sqrt(pi) exp(-z^2) (z + 2z^3/3 + 4z^5/15 + ...): all terms are positive, so nothing cancels.
function erf(x) {
  const z = Math.abs(x);
  if (z > 6) return Math.sign(x);
  let term = z, total = z;
  for (let n = 1; Math.abs(term) > 1e-17 * Math.abs(total); n++) total += (term *= 2 * z * z / (2 * n + 1));
  return Math.sign(x) * 2 / Math.sqrt(Math.PI) * Math.exp(-z * z) * total;
}

function cumulative([a, axis], {exclusive = 0, reverse = 0}) {
  return lines(a, axis.data[0], (data, first, step, count, out) => {
    let total = 0;
    for (let k = 0; k < count; k++) {
      const place = first + (reverse ? count - 1 - k : k) * step;
      out[place] = exclusive ? total : total + data[place];
      total += data[place];
    }
  });
}

const integer = ({type}) => type === "int";

// The k largest or smallest along an axis; of equal ones, the earlier first.
function topK([a, count], {axis = -1, largest = 1}) {
  const along = axisOf(axis, a.shape.length), size = a.shape[along], k = count.data[0], inner = product(a.shape.slice(along + 1));
  const shape = a.shape.with(along, k), values = tensor(a.type, shape), indices = tensor("int", shape), sign = largest ? -1 : 1;
  for (let outer = 0; outer < a.data.length / size; outer++) {
    const start = Math.floor(outer / inner) * size * inner + outer % inner, to = Math.floor(outer / inner) * k * inner + outer % inner;
    const order = [...Array(size).keys()].sort((i, j) => sign * (a.data[start + i * inner] - a.data[start + j * inner]));
    for (let i = 0; i < k; i++) {
      values.data[to + i * inner] = a.data[start + order[i] * inner];
      indices.data[to + i * inner] = order[i];
    }
  }
  return [values, indices];
}

const extreme = largest => ([a], {axis = 0, keepdims = 1}) => {
  const [, places] = topK([a, {data: [1]}], {axis, largest});
  return keepdims ? places : squeeze([places, {data: [axis]}]);
};

const power = arithmetic((x, y) => x ** y), whole = arithmetic((x, y) => Math.trunc(x / y));

const OPERATIONS = {
  Abs: unary(Math.abs), Neg: unary(x => -x), Sqrt: unary(Math.sqrt), Exp: unary(Math.exp), Log: unary(Math.log),
  Sin: unary(Math.sin), Cos: unary(Math.cos), Tan: unary(Math.tan), Atan: unary(Math.atan), Tanh: unary(Math.tanh),
  Sigmoid: unary(x => x < 0 ? Math.exp(x) / (1 + Math.exp(x)) : 1 / (1 + Math.exp(-x))),
  Relu: unary(x => x > 0 ? x : 0), Softplus: unary(x => x > 30 ? x : Math.log1p(Math.exp(x))),
  Softsign: unary(x => x / (1 + Math.abs(x))), Sign: unary(Math.sign), Floor: unary(Math.floor), Ceil: unary(Math.ceil),
  Reciprocal: unary(x => 1 / x), Erf: unary(erf), Not: unary(x => 1 - x),
  Round: unary(x => { const up = Math.round(x); return up - x === 0.5 && up % 2 ? up - 1 : up; }),
  LeakyRelu: ([a], {alpha = 0.01}) => unary(x => x < 0 ? alpha * x : x)([a]),
  Elu: ([a], {alpha = 1}) => unary(x => x < 0 ? alpha * Math.expm1(x) : x)([a]),
  Selu: ([a], {alpha = 1.6732632, gamma = 1.050701}) => unary(x => gamma * (x > 0 ? x : alpha * Math.expm1(x)))([a]),
  HardSigmoid: ([a], {alpha = 0.2, beta = 0.5}) => unary(x => Math.max(0, Math.min(1, alpha * x + beta)))([a]),
  Gelu: ([a], {approximate = "none"}) => unary(approximate === "tanh"
    ? x => 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3)))
    : x => 0.5 * x * (1 + erf(x / Math.SQRT2)))([a]),
  IsNaN: ([a]) => tensor("bool", a.shape, a.data.map(x => Number(Number.isNaN(x)))),
  IsInf: ([a]) => tensor("bool", a.shape, a.data.map(x => Number(Math.abs(x) === Infinity))),
  Add: plain(PLAIN.Add), Sub: plain(PLAIN.Sub), Mul: plain(PLAIN.Mul),
  Div: inputs => (integer(inputs[0]) ? whole : plain(PLAIN.Div))(inputs),
  Mod: (inputs, {fmod = 0}) => arithmetic(fmod ? (x, y) => x % y : (x, y) => x - y * Math.floor(x / y))(inputs),
  Pow: ([a, b]) => b.data.length === 1 && b.data[0] === 2 ? OPERATIONS.Mul([a, a]) : power([a, b]),
  Max: several((x, y) => x > y || x !== x ? x : y), Min: several((x, y) => x < y || x !== x ? x : y),
  Sum: several((x, y) => x + y),
  Less: comparison((x, y) => x < y), LessOrEqual: comparison((x, y) => x <= y), Equal: comparison((x, y) => x === y),
  Greater: comparison((x, y) => x > y), GreaterOrEqual: comparison((x, y) => x >= y),
  And: comparison((x, y) => x && y), Or: comparison((x, y) => x || y), Xor: comparison((x, y) => x !== y),
  Where([chosen, a, b]) {
    const shape = broadcast(chosen.shape, a.shape, b.shape), result = tensor(a.type, shape), rank = shape.length;
    const [i, j, k] = [chosen, a, b].map(one => places(shape, strides(one.shape, rank)));
    for (let at = 0; at < i.length; at++) result.data[at] = chosen.data[i[at]] ? a.data[j[at]] : b.data[k[at]];
    return result;
  },
  Clip([a, least, most]) {
    const low = least ? least.data[0] : -Infinity, high = most ? most.data[0] : Infinity;
    return unary(x => x < low ? low : x > high ? high : x)([a]);
  },
  Cast: ([a], {to}) => cast(a, TYPES[to]), CastLike: ([a, b]) => cast(a, b.type), Identity: ([a]) => a, Dropout: ([a]) => a,
  Shape: ([a], {start = 0, end}) => {
    const sizes = a.shape.slice(start, end);
    return tensor("int", [sizes.length], Float64Array.from(sizes));
  },
  Size: ([a]) => tensor("int", [], Float64Array.of(a.data.length)),
  ConstantOfShape: ([shape], {value}) => {
    const result = tensor(value ? value.type : "float", list(shape));
    if (value) result.data.fill(value.data[0]);
    return result;
  },
  Range: ([start, limit, step]) => {
    const count = Math.max(0, Math.ceil((limit.data[0] - start.data[0]) / step.data[0]));
    return tensor(start.type, [count], Float64Array.from({length: count}, (_, k) => start.data[0] + k * step.data[0]));
  },
  Expand: ([a, wanted]) => {
    const shape = broadcast(a.shape, list(wanted));
    return strided(a, shape, strides(a.shape, shape.length));
  },
  Tile: ([a, repeats]) => list(repeats).reduce((tiled, count, axis) => concat(new Array(count).fill(tiled), {axis}), a),
  Trilu: ([a, diagonal], {upper = 1}) => {
    const [rows, columns] = a.shape.slice(-2), shift = diagonal ? diagonal.data[0] : 0, result = tensor(a.type, a.shape);
    a.data.forEach((x, i) => {
      const off = i % columns - Math.floor(i / columns) % rows;
      if (upper ? off >= shift : off <= shift) result.data[i] = x;
    });
    return result;
  },
  Reshape: reshape, Squeeze: squeeze, Unsqueeze: unsqueeze, Concat: concat, Split: split, Gather: gather,
  Flatten: ([a], {axis = 1}) => {
    const outer = product(a.shape.slice(0, axisOf(axis, a.shape.length)));
    return tensor(a.type, [outer, a.data.length / outer], a.data);
  },
  Transpose: ([a], {perm}) => transpose(a, perm),
  Slice: ([a, starts, ends, axes, steps]) => {
    const count = starts.data.length;
    return slice(a, axes ? list(axes) : [...Array(count).keys()], list(starts), list(ends), steps ? list(steps) : Array(count).fill(1));
  },
  GatherElements: gatherElements, ScatterElements: scatterElements, ScatterND: scatterND,
  Pad: pad, MatMul: ([a, b]) => matmul(a, b), Gemm: gemm, Conv: conv,
  Softmax: softmax(false), LogSoftmax: softmax(true), LayerNormalization: layerNormalization,
  TopK: topK, CumSum: cumulative, ArgMax: extreme(1), ArgMin: extreme(0),
  ReduceSum: reduction(0, plus), ReduceProd: reduction(1, (a, x) => a * x),
  ReduceMean: reduction(0, (a, x) => a + x, (a, n) => a / n),
  ReduceMax: reduction(-Infinity, Math.max), ReduceMin: reduction(Infinity, Math.min),
  ReduceL1: reduction(0, (a, x) => a + Math.abs(x)), ReduceL2: reduction(0, (a, x) => a + x * x, Math.sqrt),
  ReduceSumSquare: reduction(0, (a, x) => a + x * x), ReduceLogSum: reduction(0, (a, x) => a + x, Math.log),
  ReduceLogSumExp: ([a, axes], attributes) => {  // the largest value is taken out, as exp would overflow
    const most = OPERATIONS.ReduceMax([a, axes], {...attributes, keepdims: 1});
    const moved = OPERATIONS.Exp([OPERATIONS.Sub([a, most])]);
    const total = OPERATIONS.Log([OPERATIONS.ReduceSum([moved, axes], attributes)]);
    return OPERATIONS.Add([total, tensor(a.type, total.shape, OPERATIONS.ReduceMax([a, axes], attributes).data)]);
  },
};
