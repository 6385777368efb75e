"use strict";
// Tensors on plain typed arrays, and the operations that move their elements without computing.
// A tensor is {type, shape, data}: type "float", "double", "int" or "bool". All are kept in doubles, int64 exact to 2^53:
// loops that meet one kind of array only are compiled for it, and run three times as fast.

const TYPES = {1: "float", 2: "int", 6: "int", 7: "int", 9: "bool", 10: "float", 11: "double"};  // ONNX's numbers of types

const product = shape => shape.reduce((total, size) => total * size, 1);
const tensor = (type, shape, data) => ({type, shape, data: data || memory(product(shape))});
const unread = new Map();  // length -> arrays that are not read any more: using them again is faster than new ones

function memory(length) {
  const arrays = unread.get(length);
  return arrays && arrays.length ? arrays.pop().fill(0) : new Float64Array(length);
}

const known = new Map();  // what `places` returned

const axisOf = (axis, rank) => axis < 0 ? axis + rank : axis;
const list = value => Array.from(value.data);

// Steps in an array of this shape for each dimension of a result of this rank; 0 where it is repeated.
function strides(shape, rank) {
  const steps = new Array(rank).fill(0);
  for (let axis = shape.length - 1, step = 1; axis >= 0; step *= shape[axis--]) {
    if (shape[axis] !== 1) steps[axis + rank - shape.length] = step;
  }
  return steps;
}

// Steps in an array of this shape that is not repeated.
function full(shape) {
  const steps = new Array(shape.length);
  for (let axis = shape.length - 1, step = 1; axis >= 0; step *= shape[axis--]) steps[axis] = step;
  return steps;
}

function broadcast(...shapes) {
  const rank = Math.max(...shapes.map(shape => shape.length));
  return Array.from({length: rank}, (_, axis) => shapes.reduce((size, shape) => {
    const own = shape[axis - rank + shape.length];
    if (own === undefined || own === 1 || own === size) return size;
    if (size !== 1) throw new Error(`sizes ${size} and ${own} do not fit`);
    return own;
  }, 1));
}

// Where each element of a result of this shape is found in an array with these steps for its dimensions. Kept, as the shapes
// of training are always the same.
function places(shape, steps, first = 0) {
  const key = `${shape};${steps};${first}`;
  if (!known.has(key)) {
    if (known.size > 5000) known.clear();
    const found = new Int32Array(product(shape)).fill(first);
    for (let axis = shape.length - 1, filled = 1; axis >= 0; filled *= shape[axis--]) {
      for (let n = 1, from = filled; n < shape[axis]; n++) for (let k = 0; k < filled; k++) found[from++] = found[k] + n * steps[axis];
    }
    known.set(key, found);
  }
  return known.get(key);
}

// Elements of `a` at steps along each axis.
function strided(a, shape, steps, start = 0) {
  const result = tensor(a.type, shape), out = result.data, {data} = a, from = places(shape, steps, start);
  for (let i = 0; i < from.length; i++) out[i] = data[from[i]];
  return result;
}

function transpose(a, perm = a.shape.map((_, axis) => a.shape.length - 1 - axis)) {
  const steps = full(a.shape), shape = perm.map(axis => a.shape[axis]);
  const moved = perm.filter(axis => a.shape[axis] !== 1);  // moving dimensions of size 1 moves no element
  if (moved.every((axis, k) => !k || axis > moved[k - 1])) return tensor(a.type, shape, a.data);
  return strided(a, shape, perm.map(axis => steps[axis]));
}

function concat(inputs, {axis}) {
  const [first] = inputs, at = axisOf(axis, first.shape.length), shape = first.shape.slice();
  shape[at] = inputs.reduce((total, one) => total + one.shape[at], 0);
  const result = tensor(first.type, shape), outer = product(shape.slice(0, at)), inner = product(shape.slice(at));
  let start = 0;
  for (const one of inputs) {
    const size = product(one.shape.slice(at));
    for (let i = 0; i < outer; i++) result.data.set(one.data.subarray(i * size, (i + 1) * size), i * inner + start);
    start += size;
  }
  return result;
}

function split([a, sizes], {axis = 0, num_outputs}) {
  const at = axisOf(axis, a.shape.length), size = a.shape[at], each = Math.ceil(size / num_outputs);
  const counts = sizes ? list(sizes) : Array.from({length: num_outputs}, (_, i) => Math.min(each, size - i * each));
  let start = 0;
  return counts.map(count => {
    const part = slice(a, [at], [start], [start + count], [1]);
    start += count;
    return part;
  });
}

function slice(a, axes, starts, ends, steps) {
  const shape = a.shape.slice(), jumps = full(a.shape);
  let first = 0;
  axes.forEach((given, k) => {
    const axis = axisOf(given, shape.length), size = a.shape[axis], step = steps[k];
    const clamp = (value, low, high) => Math.max(low, Math.min(high, value < 0 ? value + size : value));
    const start = step > 0 ? clamp(starts[k], 0, size) : clamp(starts[k], 0, size - 1);
    const end = step > 0 ? clamp(ends[k], 0, size) : clamp(ends[k], -1, size - 1);
    shape[axis] = Math.max(0, Math.ceil((end - start) / step));
    first += start * jumps[axis];
    jumps[axis] *= step;
  });
  if (first + product(shape) <= a.data.length && shape.every((size, axis) => axis === 0 || size === a.shape[axis] || shape.slice(0, axis).every(one => one === 1)) && steps.every(step => step === 1)) {
    return tensor(a.type, shape, a.data.subarray(first, first + product(shape)));
  }
  return strided(a, shape, jumps, first);
}

function gather([a, indices], {axis = 0}) {
  const at = axisOf(axis, a.shape.length), outer = product(a.shape.slice(0, at)), inner = product(a.shape.slice(at + 1));
  const result = tensor(a.type, [...a.shape.slice(0, at), ...indices.shape, ...a.shape.slice(at + 1)]), size = a.shape[at];
  let place = 0;
  for (let i = 0; i < outer; i++) {
    for (const index of indices.data) {
      const start = (i * size + axisOf(index, size)) * inner;
      result.data.set(a.data.subarray(start, start + inner), place);
      place += inner;
    }
  }
  return result;
}

function gatherElements([a, indices], {axis = 0}) {
  const at = axisOf(axis, a.shape.length), steps = full(a.shape), result = tensor(a.type, indices.shape);
  const others = steps.map((step, k) => k === at ? 0 : step), size = a.shape[at];
  places(indices.shape, others).forEach((j, i) => { result.data[i] = a.data[j + axisOf(indices.data[i], size) * steps[at]]; });
  return result;
}

const JOINED = {none: (x, y) => y, add: (x, y) => x + y, mul: (x, y) => x * y, max: Math.max, min: Math.min};

function scatterElements([a, indices, updates], {axis = 0, reduction = "none"}) {
  const at = axisOf(axis, a.shape.length), steps = full(a.shape), result = tensor(a.type, a.shape, a.data.slice());
  const others = steps.map((step, k) => k === at ? 0 : step), size = a.shape[at];
  places(indices.shape, others).forEach((j, i) => {
    const place = j + axisOf(indices.data[i], size) * steps[at];
    result.data[place] = JOINED[reduction](result.data[place], updates.data[i]);
  });
  return result;
}

function scatterND([a, indices, updates], {reduction = "none"}) {
  const depth = indices.shape.at(-1), inner = product(a.shape.slice(depth)), steps = full(a.shape), result = tensor(a.type, a.shape, a.data.slice());
  for (let row = 0; row < indices.data.length / depth; row++) {
    let place = 0;
    for (let k = 0; k < depth; k++) place += axisOf(indices.data[row * depth + k], a.shape[k]) * steps[k];
    for (let k = 0; k < inner; k++) result.data[place + k] = JOINED[reduction](result.data[place + k], updates.data[row * inner + k]);
  }
  return result;
}

function reshape([a, wanted], {allowzero = 0}) {
  const shape = list(wanted).map((size, axis) => size === 0 && !allowzero ? a.shape[axis] : size);
  const open = shape.indexOf(-1);
  if (open >= 0) shape[open] = a.data.length / product(shape.filter(size => size !== -1)) || 0;
  return tensor(a.type, shape, a.data);
}

function squeeze([a, axes]) {
  const gone = axes ? new Set(list(axes).map(axis => axisOf(axis, a.shape.length))) : null;
  return tensor(a.type, a.shape.filter((size, axis) => gone ? !gone.has(axis) : size !== 1), a.data);
}

function unsqueeze([a, axes]) {
  const rank = a.shape.length + axes.data.length, fresh = new Set(list(axes).map(axis => axisOf(axis, rank)));
  const sizes = a.shape.values();
  return tensor(a.type, Array.from({length: rank}, (_, axis) => fresh.has(axis) ? 1 : sizes.next().value), a.data);
}

function cast(a, type) {
  if (a.type === type) return a;
  const result = tensor(type, a.shape);
  for (let i = 0; i < result.data.length; i++) {
    result.data[i] = type === "bool" ? Number(a.data[i] !== 0) : type === "int" ? Math.trunc(a.data[i]) : a.data[i];
  }
  return result;
}

function pad([whole, pads, value, axes], {mode = "constant"}) {
  if (mode !== "constant") throw new Error(`padding by ${mode} is not supported`);
  const rank = whole.shape.length, given = axes ? list(axes).map(axis => axisOf(axis, rank)) : [...whole.shape.keys()];
  const more = list(pads).map(count => Math.max(0, count)), less = list(pads).map(count => Math.max(0, -count));  // below 0: cut off
  const a = slice(whole, given, less.slice(0, given.length), given.map((axis, k) => whole.shape[axis] - less[k + given.length]), given.map(() => 1));
  const before = new Array(rank).fill(0), shape = a.shape.slice();
  given.forEach((axis, k) => {
    before[axis] = more[k];
    shape[axis] += more[k] + more[k + given.length];
  });
  const result = tensor(a.type, shape), steps = full(shape);
  if (value) result.data.fill(value.data[0]);
  places(a.shape, steps, before.reduce((sum, count, axis) => sum + count * steps[axis], 0)).forEach((j, i) => { result.data[j] = a.data[i]; });
  return result;
}
