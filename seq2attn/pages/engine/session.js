// A model, and the loops around its graphs that the manifest describes. It knows no mechanism.

class Model {
  constructor(spec, numbers = decode(spec.snapshots.at(-1).weights)) {
    this.spec = spec;
    const weights = new Map();
    let start = 0;
    for (const [name, shape] of spec.weights) {
      const end = start + product(shape);
      weights.set(name, tensor("float", shape, numbers.subarray(start, end)));
      start = end;
    }
    this.graphs = made(spec.graphs, graph => new Graph(graph, weights));
  }
}

const integers = (shape, ids) => tensor("int", shape, Float64Array.from(ids));
const flag = value => tensor("bool", [], Float64Array.of(Number(value)));
const isState = ([name]) => name.startsWith("state.");
const statesOf = values =>
  Object.fromEntries(Object.entries(values).filter(isState));

// In place of the state before the first token, for which a graph has its own.
const zeros = ({inputs}) => made(statesOf(inputs), shape => filled(shape, 0));

// Decodes with a model, and keeps what the next call may need again.
class Session {
  constructor(model) {
    this.model = model;
    this.spec = model.spec;
    this.read = {};
    this.steps = [];
    this.encoded = null;
  }

  // What a source of these ids, padded, gives to each step. The same source again costs nothing.
  encode(ids, padding) {
    const key = `${ids.join()}+${padding}`;
    if (this.encoded?.key === key) return this.encoded;
    const tokens = [...ids, ...new Array(padding).fill(this.spec.pad)];
    const width = tokens.length;
    const valid = Float64Array.from(tokens, (_, j) => Number(j < ids.length));
    const inputs = {
      source: integers([1, width], tokens),
      valid: tensor("bool", [1, width], valid)
    };
    if (this.spec.layers.length) this.readSource(tokens, ids.length, inputs);
    const {prepare, step} = this.model.graphs;
    const prepared = prepare.run(inputs);
    const prepareAgain = () => prepare.trace(inputs);
    const graph = step.bind(prepared, name => name.startsWith("memory."));
    this.encoded = {
      key,
      width,
      length: ids.length,
      first: statesOf(prepared),
      graph,
      prepareAgain
    };
    this.steps = [];
    this.graphs = new Map();
    return this.encoded;
  }

  // Recurrent layers, token by token: adds `states` and `final.*` to the inputs of `prepare`.
  readSource(tokens, length, inputs) {
    let below = tokens;
    let finals = 0;
    for (const names of this.spec.layers) {
      const directions = names.map(name => this.readLine(name, below, length));
      below = tokens.map((_, j) =>
        cat(
          directions.map(steps => steps[j].output),
          1
        )
      );
      const {state} = directions.at(-1).last;
      for (const value of Object.values(state))
        inputs[`final.${finals++}`] = value;
    }
    inputs.states = unsqueeze(cat(below, 0), 0);
  }

  // A cell along its inputs, token ids or tensors, by their position: {output, state} of each, and `last`, of the last token that
  // is no padding. What it has read before is not read again, as far as it is the same.
  readLine(name, inputs, length) {
    const positions = [...inputs.keys()];
    if (name.endsWith("backward"))
      positions.splice(0, length, ...positions.slice(0, length).reverse());
    const graph = this.model.graphs[name];
    const before = this.read[name] ?? [];
    const steps = [];
    let state = zeros(graph.spec);
    for (const [k, position] of positions.entries()) {
      const input = inputs[position];
      const isSame =
        before[k]?.input === input &&
        (k === 0 || before[k - 1] === steps[k - 1]);
      if (isSame) steps.push(before[k]);
      else {
        const token =
          typeof input === "number" ? integers([1], [input]) : input;
        const result = graph.run({
          input: token,
          first: flag(k === 0),
          ...state
        });
        steps.push({input, output: result.output, state: statesOf(result)});
      }
      ({state} = steps[k]);
    }
    this.read[name] = steps;
    const byPosition = {last: steps[length - 1]};
    for (const [k, position] of positions.entries())
      byPosition[position] = steps[k];
    return byPosition;
  }

  // The output for source ids, changed: {force: Map "t,j" -> weight, ban: Set "t,j" or "j", write: Map t -> id, temperature,
  // padding, mask}. A step is {token, logits, weights, ...}; steps that are as in the last call are not computed again.
  decode(ids, changes, bound) {
    const encoded = this.encode(ids, changes.padding);
    const before = this.steps;
    const steps = [];
    let token = this.spec.sos;
    let state = encoded.first;
    let isNew = false;
    for (let t = 0; t < bound; t++) {
      const change = this.changeKey(t, changes);
      isNew ||= before[t]?.token !== token || before[t].change !== change;
      const step = isNew
        ? this.step(t, token, state, change, changes)
        : before[t];
      step.written = changes.write.get(t) ?? step.likeliest;
      steps.push(step);
      ({written: token, state} = step);
      if (token === this.spec.eos) break;
    }
    this.steps = steps;
    return {steps, width: encoded.width, finished: token === this.spec.eos};
  }

  // What is changed at step t, as text: steps with the same changes share a graph.
  changeKey(t, {temperature, mask, ban, force}) {
    const cells = [];
    for (let j = 0; j < (ban.size + force.size && this.encoded.width); j++) {
      const isBanned = ban.has(`${j}`) || ban.has(`${t},${j}`);
      cells.push(`${isBanned ? "banned" : ""} ${force.get(`${t},${j}`) ?? ""}`);
    }
    return [temperature, mask, cells].join(";");
  }

  // The graph of step t with its changes; it ignores those that it has no input for, such as weights that cannot be set.
  changedGraph(t, {ban, force, mask, temperature}) {
    const {width, length, graph} = this.encoded;
    const row = (type, value) =>
      tensor(
        type,
        [1, 1, width],
        Float64Array.from({length: width}, (_, j) => Number(value(j)))
      );
    const isMasked = mask ?? this.spec.mask_padding;
    return graph.bind({
      "change.banned": row(
        "bool",
        j => ban.has(`${j}`) || ban.has(`${t},${j}`)
      ),
      "change.forced": row("bool", j => force.has(`${t},${j}`)),
      "change.weights": row("float", j => force.get(`${t},${j}`) ?? 0),
      "change.temperature": filled([1, 1, 1], temperature),
      "change.valid": row("bool", j => !isMasked || j < length)
    });
  }

  step(t, token, state, change, changes) {
    if (!this.graphs.has(change))
      this.graphs.set(change, this.changedGraph(t, changes));
    const graph = this.graphs.get(change);
    const inputs = {...state, token: integers([1], [token])};
    const result = graph.run(inputs);
    const likeliest = peak(numbersOf(result.choices)); // of what may be written
    const trace = () => graph.trace(inputs);
    return {
      ...made(result, alone),
      token,
      change,
      likeliest,
      state: statesOf(result),
      trace
    };
  }
}

// A tensor whose numbers are its array, in order.
const alone = x => tensor(x.type, x.shape, numbersOf(x));

// The place of the largest of some numbers.
function peak(numbers) {
  let best = 0;
  for (let k = 1; k < numbers.length; k++)
    if (numbers[k] > numbers[best]) best = k;
  return best;
}

function probabilities(logits) {
  const largest = Math.max(...logits);
  const powers = Array.from(logits, logit => Math.exp(logit - largest));
  const total = powers.reduce((sum, power) => sum + power);
  return powers.map(power => power / total);
}
