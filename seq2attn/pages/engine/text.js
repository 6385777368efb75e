// What a person types -> what a model reads, and the answer that it should give.

const UNKNOWN = 3

// What a model reads of a text: {ids, plain: ids with -1 for unknown symbols and without `<eos>`,
// bound: the most steps of its decoding, count, copyable}. Where that is not possible: {problem:
// what is wrong, strange: symbols that the model does not know, offer: a text that is right}. Of an
// empty text: {}. Ids count the special tokens such as `<pad>` first, then symbols, then features:
// tags such as "V;PST", which some tasks read after the symbols. `most_steps` has the bound for
// each number of symbols, and no more of them than the model can read.
function tokenise(spec, text, features) {
  const {source} = spec
  const {symbols: known, tokens} = source
  const others = source.features ?? []
  const symbols = symbolsOf(source, text)
  const wanted =
    others.length && features ? normal(source, features).split(";") : []
  const special = tokens.length - known.length - others.length
  const plain = [
    ...idsOf(symbols, known, special),
    ...idsOf(wanted, others, special + known.length)
  ]
  const strange = [...symbols, ...wanted].filter((_, k) => plain[k] < 0)
  const bound = spec.most_steps[plain.length - 1]
  if (strange.length && !source.unknown) {
    return {
      problem: "The model does not know",
      strange: [...new Set(strange)],
      offer: offered(source, text)
    }
  }
  if (!plain.length) return {}
  if (others.length && !wanted.length)
    return {problem: "Give the features, too."}
  if (!bound) return {problem: `At most ${spec.most_steps.length} symbols.`}
  const ids = plain.map(id => (id < 0 ? UNKNOWN : id))
  if (spec.source_eos) ids.push(spec.eos)
  return {
    ids,
    plain,
    bound,
    count: plain.length,
    copyable: copyable(spec, symbols)
  }
}

// The ids of names: `first` for the first of those that are known, and so on; -1 for others.
function idsOf(names, known, first) {
  return names.map(name => {
    const place = known.indexOf(name)
    return place < 0 ? place : first + place
  })
}

// A text that a model can read, made from one that it cannot: trimmed, in lower case, or both;
// undefined if none of these helps.
function offered(source, text) {
  const isKnown = one =>
    one && !idsOf(symbolsOf(source, one), source.symbols, 0).includes(-1)
  const [trimmed, small] = [text.trim(), text.toLowerCase()]
  return [trimmed, small, small.trim()].find(isKnown)
}

// position -> symbol, of those that are not in both vocabularies: a model that copies can write
// them only from there.
function copyable({source, target}, symbols) {
  const isOnBoth = symbol =>
    [source, target].every(one => one.symbols.includes(symbol))
  return new Map(
    [...symbols.entries()].filter(([, symbol]) => !isOnBoth(symbol))
  )
}

// A text in the Unicode form that the model was trained on.
function normal({normalise}, text) {
  return normalise === "none" ? text : text.normalize(normalise.toUpperCase())
}

// The symbols of a text: words, if the vocabulary has a separator, otherwise characters.
function symbolsOf(source, text) {
  const whole = normal(source, text)
  return source.separator
    ? whole.split(source.separator).filter(Boolean)
    : Array.from(whole)
}

// The ids of the right answer, without `<eos>`, by the task's own rule, the graph `answer`;
// undefined for a task that has none. ids: those of the source, -1 for unknown symbols.
function rightAnswer(model, ids) {
  const {answer} = model.graphs
  if (!answer || ids.some(id => id < 0)) return undefined
  const inputs = {
    source: integers(ids),
    lengths: filled([1], ids.length, "int")
  }
  const {target, target_lengths: lengths} = answer.run(inputs)
  return [...numbersOf(target).slice(0, numbersOf(lengths)[0])]
}
