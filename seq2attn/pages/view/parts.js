// What each part of a step computes, at the chosen position: {sum: a formula with its numbers, read off the model's own graph; why:
// a sentence; vectors: {name: numbers}}.

const same = (value, other) => Math.abs(value - other) < 1e-6;
const isNamed = part =>
  Boolean(part) && part.name !== "none" && part.name !== "global";
const described = part =>
  isNamed(part) && part.formula
    ? `${part.name}: ${part.summary} (${written(part.formula)}).`
    : "";
const sentences = (...parts) => parts.filter(Boolean).join(" ");

// A chain such as "e₂ = s · h₂ = 1.2 = 1.2", without what it would say twice.
function chain(sign, {text, numbers}, value) {
  const parts = [`${sign} = ${text}`, numbers, exact(value)];
  return parts
    .filter((part, k) => part && (k === 0 || !text.endsWith(part)))
    .join(" = ");
}

function summed(products) {
  const few = products
    .slice(0, 4)
    .map(
      (one, k) => `${one < 0 ? "− " : k ? "+ " : ""}${short(Math.abs(one))}`
    );
  const total = products.reduce((total, one) => total + one, 0);
  return `their products, sum ${exact(total)} = ${few.join(" ")}${products.length > 4 ? " + …" : ""}`;
}

function encoding({layers, parts: {encoder}}) {
  if (layers.length) {
    const each =
      layers.at(-1).length > 1 ? "a vector, from both directions," : "a vector";
    return `The encoder reads the source and leaves ${each} at each position.`;
  }
  if (encoder)
    return `The encoder (${encoder.name}) leaves a vector at each position.`;
  return "The encoder's positions attend to each other; a vector is left at each.";
}

function output(view, step) {
  const chance = probabilities(step.logits.data)[step.written];
  const givers = view.attends ? "State and context give" : "The state gives";
  return {
    sum: `p(${view.wrote(step)}) = ${short(chance)}`,
    why: `${givers} each symbol a probability. The likeliest is written, and read at the next step.`
  };
}

// What a model without attention has instead.
function bottleneck(view) {
  const {first} = view.session().encoded;
  const named = Object.keys(first).filter(name =>
    name.startsWith("state.cell")
  );
  const vector = named.flatMap(name => [...numbersOf(first[name])]);
  const why = sentences(
    "This model has no attention. All that the decoder ever knows of the source is this one vector,",
    "the encoder's last state. However long the string is, it has to fit in here: a bottleneck."
  );
  const size = `${view.count} symbols → ${vector.length} numbers`;
  return {
    states: {why: encoding(view.spec)},
    vector: {sum: size, why, vectors: {"": vector}}
  };
}

// A step of a model with attention. Of several heads, the one that attends most to the position.
class AttentionParts {
  constructor(view, step, t) {
    Object.assign(this, {
      view,
      step,
      t,
      spec: view.spec,
      parts: view.spec.parts
    });
    this.j = view.position();
    this.n = sub(this.j + 1);
    this.width = view.now.width;
    this.heads = step.scores.data.length / this.width;
    const ofHead = counted(this.heads, this.j, this.width).map(
      cell => step.softmax.data[cell]
    );
    this.head = peak(ofHead);
    this.cell = this.head * this.width + this.j;
    this.prepare();
    this.trace();
  }

  // How keys and values are made of the encoder's states, h.
  prepare() {
    const {encoded, model} = this.view.session();
    const {prepare} = model.graphs;
    const outputs =
      prepare.at("states") === undefined ? "memory.values" : "states";
    const values = encoded.prepareAgain();
    this.prepared = new Explanation(prepare, values, {
      [outputs]: () => formula(`h${this.n}`)
    });
    const place = prepare.at(outputs);
    const isPart = one =>
      this.prepared
        .origins(prepare.at("memory.keys"))
        .has(this.prepared.root(one));
    this.hasStates =
      outputs === "states" || (place !== undefined && isPart(place)); // a key is made of it
    this.states = this.hasStates ? values[place] : null;
    this.key = this.prepareTerm("memory.keys", `k${this.n}`);
    this.value = this.prepareTerm("memory.values", `v${this.n}`);
  }

  // This position's row of what `prepare` makes, as it is made from the encoder's state.
  prepareTerm(name, otherwise) {
    const place = this.prepared.graph.at(name);
    if (!this.hasStates || place === undefined) return formula(otherwise);
    const depth = product(this.prepared.values[place].shape.slice(2));
    return this.prepared.term(place, counted(depth, this.j * depth));
  }

  // How this step's numbers are made.
  trace() {
    const {view, step} = this;
    const graph = view.session().model.graphs.step;
    const values = step.trace();
    const at = sign => cells =>
      formula(
        cells.length > 1 ? sign : sign + sub((cells[0] % this.width) + 1)
      );
    const named = {query: () => formula("s"), "memory.keys": () => this.key};
    for (const [name] of graph.inputs) {
      if (name.startsWith("memory.layers")) named[name] = () => this.key;
    }
    const past = graph.at("state.past");
    const isRow =
      past !== undefined &&
      values[past].shape.length === 3 &&
      values[past].shape[1] === 1;
    if (isRow) named["state.past"] = at("C");
    this.e = new Explanation(graph, values, named);
    this.readsPast = past !== undefined && this.e.reads("scores", "state.past");
    this.past =
      isRow && this.readsPast && this.heads === 1
        ? numbersOf(values[past])
        : null;
    this.scored = this.e.of("scores", this.cell);
    this.p = new Explanation(graph, values, {...named, scores: at("e")}).of(
      "softmax",
      this.cell
    );
    this.a = new Explanation(graph, values, {...named, softmax: at("p")}).of(
      "weights",
      this.j
    );
  }

  all() {
    const named = ["states", "query", "score", "softmax", "weight", "context"];
    return Object.fromEntries(named.map(name => [name, this[`${name}Part`]()]));
  }

  statesPart() {
    const encoded = encoding(this.spec);
    if (!this.hasStates)
      return {why: `${encoded} Keys k and values v are made of these.`};
    const depth = this.states.shape[2];
    const own = numbersOf(select(this.states, 1, this.j)).slice(0, depth);
    return {why: encoded, vectors: {[`h${this.n}`]: own}};
  }

  // The query of the head.
  query() {
    const {data: numbers} = this.step.query;
    const size = numbers.length / this.heads;
    return [...numbers.slice(this.head * size, (this.head + 1) * size)];
  }

  queryPart() {
    const {decoder} = this.parts;
    const from = decoder
      ? `The decoder's state: what this step looks for (${decoder.name}: ${decoder.summary}).`
      : "What this step looks for.";
    const which =
      this.heads > 1 && `Head ${this.head + 1} of ${this.heads} is shown.`;
    return {
      why: sentences(from, which, this.firstQuery()),
      vectors: {"": this.query()}
    };
  }

  // What the first query is, where it is not yet the decoder's: the state that the encoder left, or zeros.
  firstQuery() {
    const query = this.query();
    if (query.every(number => number === 0))
      return "It is still 0, so that it fits no key better than another.";
    const last = this.view.ids.length - 1;
    const left = this.states && numbersOf(select(this.states, 1, last));
    if (!left || query.some((number, k) => number !== left[k])) return "";
    return `It is still the encoder's last state, from which the key of position ${last + 1} is made: that is why the two fit.`;
  }

  scorePart() {
    const {score, history} = this.parts;
    const own = score ? written(score.formula) : "";
    const width = own.includes("√D") ? `, D = ${this.query().length}` : "";
    const value = this.step.scores.data[this.cell];
    const of = score && `: ${score.name}, ${score.summary}`;
    const past =
      this.past &&
      `C${this.n} = ${exact(this.past[this.j])}: what the history ${history.name} has of this position so far.`;
    return {
      sum: `${own && `${own}${width}: `}${chain(`e${this.n}`, this.scored, value)}`,
      why: sentences(
        `How well the query fits the key${of ?? ""}.`,
        this.readsPast && described(history),
        past
      ),
      vectors: {
        ...(this.past && {"C, by position": [...this.past]}),
        ...this.products()
      }
    };
  }

  // The two vectors whose product is the score, and the products that are added up.
  products() {
    const {dot} = this.e;
    if (!dot) return {};
    const {
      left,
      right,
      names: [one, other]
    } = dot;
    const products = left.map((number, k) => number * right[k]);
    return {
      ...(one !== "s" && {[one]: left}),
      [other]: right,
      [summed(products)]: products
    };
  }

  softmaxPart() {
    const {normaliser, window: region, scalable} = this.parts;
    const isOwn = normaliser && normaliser.name !== "softmax";
    const shares =
      "The exponential of each score, as a share of their sum: all are positive and sum to 1.";
    const own = isOwn ? described(normaliser) : shares;
    return {
      sum: chain(`p${this.n}`, this.p, this.step.softmax.data[this.cell]),
      why: sentences(
        own,
        described(region),
        this.around(),
        scalable && `Scalable: ${scalable.summary}.`,
        this.heated(),
        !this.spec.mask_padding && "Padding is not masked in this model."
      )
    };
  }

  around() {
    const {view, t, j} = this;
    const around = view.windowAt(t, ", R = ");
    if (!around) return "";
    const outside = view.map.outside(t, j)
      ? `: position ${j + 1} is outside, its weight is 0`
      : "";
    return `In this step it is around position ${around}${outside}.`;
  }

  heated() {
    if (state.temperature === 1) return "";
    if (!isUnscaled()) return "Scores are divided by the temperature.";
    return `The temperature 1/√D = ${exact(state.temperature)} undoes the division by √D.`;
  }

  weightPart() {
    const {history} = this.parts;
    const weight = this.step.weights.data[this.j];
    const moved = this.moved();
    return {
      sum: chain(`α${this.n}`, this.a, weight),
      why: sentences(
        this.attending(moved),
        !this.readsPast && described(history),
        moved?.why
      ),
      vectors: moved?.vectors
    };
  }

  // What makes the weights of the softmax.
  attending(moved) {
    const {view, t, j, step} = this;
    const isYours = view.sources.some((_, k) => view.isForced(t, k));
    if (view.isForced(t, j)) return "You set this weight.";
    if (moved && !isYours)
      return `What the step attends with: the weights of the step before, moved by the history ${this.parts.history.name}, and sharpened.`;
    if (same(step.softmax.data[j], step.weights.data[j]))
      return "What the step attends with: p, unchanged.";
    if (this.heads > 1) return `The mean over ${this.heads} heads.`;
    return `What the step attends with: p, changed by ${this.changers(isYours)}.`;
  }

  changers(isYours) {
    const {window: region, history, decoder} = this.parts;
    const found = isYours ? ["you"] : [];
    if (isNamed(region)) found.push(`the window ${region.name}`);
    if (isNamed(history) && !this.readsPast)
      found.push(`the history ${history.name}`);
    if (!found.length)
      found.push(
        decoder ? `the decoder ${decoder.name}: ${decoder.summary}` : "you"
      );
    return found.join(" and ");
  }

  // How far the weights of the step before were moved; null where they are made in another way.
  moved() {
    const {view, t} = this;
    const distances =
      t && this.heads === 1 ? this.e.distribution("weights", "softmax") : null;
    if (!distances) return null;
    const from = peak(view.now.steps[t - 1].weights.data);
    const [count, keys] = distances.shape.slice(-2);
    const leaving = counted(count, from % keys, keys).map(
      place => distances.data[place]
    );
    const reach = (count - 1) / 2;
    const move = peak(leaving) - reach;
    const isRound = from + move < 0 || from + move >= view.count;
    const signed = distance =>
      `${distance > 0 ? "+" : distance < 0 ? "−" : ""}${Math.abs(distance)}`;
    return {
      why: `The step before looked at ${view.sources[from]}; from there, the likeliest move is ${signed(move)}${isRound ? ", around the end" : ""}.`,
      vectors: {
        [`moves from ${view.sources[from]}, ${signed(-reach)} to ${signed(reach)}`]:
          leaving
      }
    };
  }

  contextPart() {
    if (!this.e.reads("logits", "context")) {
      return {
        why: "There is no mean of positions: each one predicts a symbol by itself, and counts as much as its weight α."
      };
    }
    const sign = this.value.text.includes("h") ? "h" : "v";
    const weight = short(this.step.weights.data[this.j]);
    const counts = this.isCounted()
      ? `, and how often what it reads was read before (the history ${this.parts.history.name})`
      : "";
    return {
      sum: `c = Σ α ${sign} = ${weight} × ${within(this.value, 3)} + …`,
      why: `The mean of what stands at each position, weighted by α${counts}. Besides its state, it is all that this step sees of the source.`,
      vectors: {"": [...this.step.context.data]}
    };
  }

  // Whether the context has more numbers than a value: those that a history adds.
  isCounted() {
    const {graph, values} = this.prepared;
    const place = graph.at("memory.values");
    if (this.heads > 1 || !isNamed(this.parts.history) || place === undefined)
      return false;
    return this.step.context.data.length > values[place].shape.at(-1);
  }
}
