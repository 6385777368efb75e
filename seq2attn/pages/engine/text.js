// What a person types -> what a model reads, and the answer that it should give.

const UNKNOWN = 3;

// The ids of a text; or `problem`, what is wrong with it, and perhaps `strange`, symbols that the model does not know, and
// `offer`, a text that is right. Neither for an empty text.
function tokenise(spec, text, features) {
  const {source, most_steps: bounds} = spec;
  const symbols = symbolsOf(source, text);
  const wanted =
    source.features && features ? normal(source, features).split(";") : [];
  const known = [...source.symbols, ...(source.features ?? [])];
  const special = source.tokens.length - known.length;
  const named = wanted.map(
    name => source.features.indexOf(name) + source.symbols.length
  );
  const places = [
    ...symbols.map(symbol => source.symbols.indexOf(symbol)),
    ...named
  ];
  const isStrange = k =>
    places[k] < (k < symbols.length ? 0 : source.symbols.length);
  const strange = [...symbols, ...wanted].filter((_, k) => isStrange(k));
  if (strange.length && !source.unknown) {
    return {
      problem: "The model does not know",
      strange: [...new Set(strange)],
      offer: offered(source, text)
    };
  }
  if (!places.length) return {};
  if (source.features && !wanted.length)
    return {problem: "Give the features, too."};
  const count = places.length;
  if (count > bounds.length)
    return {problem: `At most ${bounds.length} symbols.`};
  const plain = places.map((place, k) => (isStrange(k) ? -1 : place + special));
  const ids = plain.map(id => (id < 0 ? UNKNOWN : id));
  if (spec.source_eos) ids.push(spec.eos);
  return {
    count,
    copyable: copyable(spec, symbols),
    plain,
    ids,
    bound: bounds[count - 1]
  };
}

// A text that a model knows, close to one that it does not.
function offered(source, text) {
  const isKnown = one =>
    one &&
    symbolsOf(source, one).every(symbol => source.symbols.includes(symbol));
  return [text.trim(), text.toLowerCase(), text.trim().toLowerCase()].find(
    isKnown
  );
}

// The symbols that a model can only copy, by their position.
function copyable({source, target}, symbols) {
  const isOnBoth = symbol =>
    source.symbols.includes(symbol) && target.symbols.includes(symbol);
  return new Map(
    [...symbols.entries()].filter(([, symbol]) => !isOnBoth(symbol))
  );
}

function normal({normalise}, text) {
  return normalise === "none" ? text : text.normalize(normalise.toUpperCase());
}

function symbolsOf(source, text) {
  const whole = normal(source, text);
  return source.separator
    ? whole.split(source.separator).filter(Boolean)
    : Array.from(whole);
}

// The ids of the right answer, without `<eos>`; undefined where the task does not know it. The task's own rule is a graph, too.
function rightAnswer(model, text, ids) {
  const {answers} = model.spec;
  const {answer} = model.graphs;
  const known = Object.hasOwn(answers, text) ? answers[text] : undefined;
  if (known || !answer || ids.some(id => id < 0)) return known;
  const inputs = {
    source: integers([1, ids.length], ids),
    lengths: integers([1], [ids.length])
  };
  const {target, target_lengths: lengths} = answer.run(inputs);
  return [...numbersOf(target).slice(0, numbersOf(lengths)[0])];
}
