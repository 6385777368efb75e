// How a graph computes one of its numbers, read off its nodes. It knows operations, and no mechanism.

const BETWEEN = {
  add: [" + ", 1],
  sub: [" − ", 1],
  mul: [" × ", 2],
  div: [" / ", 2],
  pow: ["^", 2.5]
};
const CALLED = {log: "ln ", sqrt: "√", neg: "−"};
const REDUCED = {
  linalg_vector_norm: ["|", "|"],
  sum: ["Σ(", ")"],
  mean: ["mean(", ")"],
  amax: ["max(", ")"]
};
const CHOICES = {where: [0, 1, 2], masked_fill: [1, 2, 0]}; // arguments: the condition, if true, if not
const PRODUCTS_OF = new Set(["mm", "bmm", "matmul", "linear"]);
const SOFTMAX = new Set(["softmax", "_softmax"]);
const LONGEST_FORMULA = 90;

// Where element `cell` of a result of this shape is found in a tensor that is repeated to fit.
function placeIn(x, shape, cell) {
  const {steps} = expand(x, shape);
  let place = x.first;
  let rest = cell;
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    place += (rest % shape[axis]) * steps[axis];
    rest = Math.floor(rest / shape[axis]);
  }
  return place;
}

const counted = (count, start = 0, step = 1) =>
  Array.from({length: count}, (_, k) => start + k * step);

class Explanation {
  // values: of the graph, as `Graph.trace` returns them; names: {value: cells => formula} of those that are not taken apart.
  constructor(graph, values, names) {
    this.graph = graph;
    this.values = values;
    this.names = new Map();
    for (const [name, say] of Object.entries(names)) {
      const place = graph.at(name);
      if (place !== undefined) this.names.set(this.root(place), say);
    }
    this.dot = null; // the two vectors of the first product of vectors that was met
  }

  // The tensor whose array a tensor shows.
  root(place) {
    const {data} = this.values[place];
    let at = place;
    for (;;) {
      const {inputs} = this.graph.makers.get(at) ?? {inputs: []};
      const shows = input =>
        [this.values[input]].flat().some(one => one?.data === data);
      const from = inputs.find(shows);
      if (from === undefined) return at;
      at = from;
    }
  }

  // Elements of a tensor as elements of its root: {at, cells}.
  locate(place, cells) {
    const x = this.values[place];
    const at = this.root(place);
    const whole = this.values[at];
    if (place === at) return {at, cells};
    const places = cells.map(cell => placeIn(x, x.shape, cell));
    if (isFull(whole)) return {at, cells: places.map(one => one - whole.first)};
    const all = counted(product(whole.shape)).map(cell =>
      placeIn(whole, whole.shape, cell)
    );
    return {at, cells: places.map(one => all.indexOf(one))};
  }

  // The node that makes a root, unless that has a name.
  maker(at) {
    return this.names.has(at) ? undefined : this.graph.makers.get(at);
  }

  // How an element of a named value is made: {text, numbers}: as a formula, and with the numbers that its last operation combines.
  of(name, cell) {
    let {at, cells} = this.locate(this.graph.at(name), [cell]);
    let node = this.maker(at);
    while (node && node.operation in CHOICES) {
      const {shape} = this.values[at];
      const value = this.chosen(node, shape, cells);
      const place = this.graph.placeOf(value);
      if (place === undefined) return {text: exact(value), numbers: ""};
      ({at, cells} = this.locate(place, this.repeated(place, shape, cells)));
      node = this.maker(at);
    }
    const {text} = this.term(at, cells);
    return {text, numbers: node ? this.numbers(node, cells[0]) : ""};
  }

  // Which of its arguments an operation that chooses takes for elements of its result.
  chosen({operation, args}, shape, [cell]) {
    const [condition, yes, no] = CHOICES[operation].map(k => args[k]);
    return this.number(condition, shape, cell) ? yes : no;
  }

  // The elements of a tensor that elements of a result are made from, number by number.
  repeated(place, shape, cells) {
    const x = this.values[place];
    const own = tensor(x.type, x.shape, x.data);
    return cells.map(cell => placeIn(own, shape, cell));
  }

  // An argument's number for an element of a result.
  number(value, shape, cell) {
    const place = this.graph.placeOf(value);
    if (place === undefined) return value;
    const x = single(this.values[place]);
    return x.data[placeIn(x, shape, cell)];
  }

  // An argument as a formula, for elements of a result.
  part(value, shape, cells) {
    const place = this.graph.placeOf(value);
    const known = place === undefined ? value : this.values[place];
    if (typeof known === "number") return ofNumber(known);
    return this.term(place, this.repeated(place, shape, cells));
  }

  numbers({operation, args, place}, cell) {
    const {shape} = this.values[place];
    if (SOFTMAX.has(operation)) {
      const width = shape.at(-1);
      const line = counted(width, cell - (cell % width)).map(one =>
        Math.exp(this.number(args[0], shape, one))
      );
      return `${exact(line[cell % width])} / ${exact(line.reduce((total, one) => total + one))}`;
    }
    if (!(operation in BETWEEN)) return "";
    const parts = args.map(value => this.number(value, shape, cell));
    if (parts.includes(1) && operation !== "add") return "";
    return parts
      .map(one => (one < 0 ? `(${exact(one)})` : exact(one)))
      .join(BETWEEN[operation][0]);
  }

  // Some elements of a tensor, one of them or a vector, as a formula.
  term(place, given) {
    const {at, cells} = this.locate(place, given);
    const x = this.values[at];
    const size = product(x.shape);
    if (this.names.has(at)) return this.names.get(at)(cells);
    if (this.graph.weightNames.has(at) && size > 1)
      return formula(this.weight(at));
    const made = this.made(this.graph.makers.get(at), cells, x.shape);
    if (made && made.text.length < LONGEST_FORMULA) return made;
    return cells.length === 1 || size === 1
      ? ofNumber(numbersOf(x)[cells[0]])
      : formula(this.source(at));
  }

  // A weight by the name of its module.
  weight(at) {
    const name = this.graph.weightNames.get(at).replace(/history\.map/, "w");
    return name
      .replace(/\.(weight|bias)$/, "")
      .split(".")
      .at(-1);
  }

  // What an operation makes; undefined for one that is not taken apart.
  made(node, cells, shape) {
    if (!node) return undefined;
    const {operation, args} = node;
    if (operation in BETWEEN) return this.between(node, cells, shape);
    if (operation in CHOICES)
      return this.part(this.chosen(node, shape, cells), shape, cells);
    if (operation in REDUCED) return this.reduced(node, cells);
    if (PRODUCTS_OF.has(operation)) return this.multiplied(node, cells, shape);
    if (operation.startsWith("clamp")) return this.part(args[0], shape, cells);
    const one =
      this.graph.placeOf(args[0]) === undefined
        ? null
        : this.part(args[0], shape, cells);
    if (SOFTMAX.has(operation))
      return cells.length === 1
        ? formula(`exp(${one.text}) / Σ exp`, 2)
        : undefined;
    if (args.length > 1 || !one || Array.isArray(this.values[node.place]))
      return undefined;
    if (operation === "abs") return formula(`|${one.text}|`);
    if (operation in CALLED) return formula(CALLED[operation] + within(one, 3));
    return formula(`${operation}(${one.text})`);
  }

  between({operation, args}, cells, shape) {
    const [sign, binding] = BETWEEN[operation];
    const neutral = binding === 1 ? 0 : 1;
    const isEverywhere = value => {
      const place = this.graph.placeOf(value);
      const known = place === undefined ? value : this.values[place];
      return (
        known === neutral ||
        (known.shape &&
          product(known.shape) === 1 &&
          numbersOf(known)[0] === neutral)
      );
    };
    if (args.length > 2) return undefined;
    const [a, b] = args.map(value => () => this.part(value, shape, cells));
    if (isEverywhere(args[1])) return a();
    if (isEverywhere(args[0]) && (operation === "add" || operation === "mul"))
      return b();
    const least = Math.ceil(binding);
    const isOrdered = operation === "sub" || operation === "div";
    return formula(
      within(a(), least) + sign + within(b(), isOrdered ? binding + 1 : least),
      binding
    );
  }

  // A sum or the like along the last axis.
  reduced({operation, args}, cells) {
    const place = this.graph.placeOf(args[0]);
    const axes = (operation === "linalg_vector_norm" ? args[2] : args[1]) ?? [];
    const {shape} = this.values[place];
    if (axes.length !== 1 || axisOf(axes[0], shape.length) !== shape.length - 1)
      return undefined;
    const width = shape.at(-1);
    const {text} = this.term(place, counted(width, cells[0] * width));
    const [before, after] = REDUCED[operation];
    return text === this.source(place)
      ? undefined
      : formula(before + text + after);
  }

  multiplied({operation, args}, cells, shape) {
    const [left, right] = args.map(value => this.graph.placeOf(value));
    const [a, b] = [left, right].map(place => this.values[place].shape);
    if (a.length < 2 || b.length < 2 || args.length > 2) return undefined;
    const [rows, size] = a.slice(-2);
    const columns = shape.at(-1);
    const matrixOf = (sizes, cell) =>
      product(sizes) === sizes.at(-1) * sizes.at(-2)
        ? 0
        : Math.floor(cell / (columns * rows));
    const row = cell =>
      counted(
        size,
        (matrixOf(a, cell) * rows + (Math.floor(cell / columns) % rows)) * size
      );
    const column = cell =>
      operation === "linear"
        ? counted(size, (cell % columns) * size)
        : counted(
            size,
            matrixOf(b, cell) * size * columns + (cell % columns),
            columns
          );
    const isOne = cells.length === 1;
    const isMatrix = this.graph.weightNames.has(this.root(right));
    const one = this.term(left, row(cells[0]));
    const other = this.term(
      right,
      isOne || !isMatrix ? column(cells[0]) : [0, 1]
    );
    if (isOne)
      this.dot ??= this.vectors(
        [left, row(cells[0]), one],
        [right, column(cells[0]), other]
      );
    const [outer, inner] = isMatrix ? [other, one] : [one, other]; // as it is written: the weights first
    const dot = size === 1 ? " × " : " · ";
    return formula(
      within(outer, 3) + (isOne ? dot : " ") + within(inner, 3),
      2
    );
  }

  vectors(...both) {
    const [left, right] = both.map(([place, cells]) => {
      const numbers = numbersOf(this.values[place]);
      return cells.map(cell => numbers[cell]);
    });
    return {left, right, names: both.map(([, , {text}]) => text)};
  }

  // Every place that a tensor is made of, itself first.
  origins(place) {
    const found = new Set([place]);
    for (const at of found) {
      for (const one of this.graph.makers.get(at)?.inputs ?? []) found.add(one);
    }
    return found;
  }

  // What is not taken apart, by the module whose weights it comes from.
  source(place) {
    for (const at of this.origins(place)) {
      const found = /\.(history|window|score|cell)\./.exec(
        this.graph.weightNames.get(at) ?? ""
      );
      if (found) return found[1];
    }
    return "…";
  }

  // A distribution per key, (1, D, S), or one of all keys, (D, 1), of which a named value is made and `before` is not; undefined
  // if there is none.
  distribution(name, before) {
    const earlier = this.origins(this.graph.at(before));
    const made = [...this.origins(this.graph.at(name))];
    const isOwn = at =>
      !earlier.has(at) && SOFTMAX.has(this.graph.makers.get(at)?.operation);
    const found = made.filter(isOwn);
    if (found.length !== 1) return undefined;
    const x = this.values[found[0]];
    return {
      shape: x.shape.length === 1 ? [...x.shape, 1] : x.shape,
      data: numbersOf(x)
    };
  }

  // Whether a named value depends on an input.
  reads(name, input) {
    return this.origins(this.graph.at(name)).has(this.graph.at(input));
  }
}
