"use strict";
// What a person types -> what a model reads, and the answer that it should give.

// The ids of a text; or `problem`, what is wrong with it, and perhaps `offer`, a text that is right; neither for an empty text.
function tokenise(spec, text, features) {
  const {source} = spec;
  if (!text) return {};
  const symbols = symbolsOf(source, text), wanted = source.features && features ? normal(source, features).split(";") : [];
  const special = source.tokens.length - source.symbols.length - (source.features || []).length;
  const ids = symbols.map(symbol => source.symbols.indexOf(symbol)).map(at => at < 0 ? -1 : at + special);
  ids.push(...wanted.map(name => source.features.indexOf(name)).map(at => at < 0 ? -1 : at + special + source.symbols.length));
  const strange = [...symbols, ...wanted].filter((_, k) => ids[k] < 0);
  if (strange.length && !source.unknown) {
    const offer = [text.trim(), text.toLowerCase(), text.trim().toLowerCase()].find(one => one && symbolsOf(source, one).every(symbol => source.symbols.includes(symbol)));
    return {problem: `The model does not know ${[...new Set(strange)].map(symbol => symbol === " " ? "␣ (space)" : shownSymbol(symbol)).join(" ")}`, offer};
  }
  if (!ids.length) return {};
  if (source.features && !wanted.length) return {problem: "Give the features, too."};
  if (ids.length > spec.most_steps.length) return {problem: `At most ${spec.most_steps.length} symbols.`};
  const count = ids.length, lacks = symbol => !source.symbols.includes(symbol) || !spec.target.symbols.includes(symbol);
  const copyable = new Map([...symbols.entries()].filter(([, symbol]) => lacks(symbol)));  // position -> symbol
  return {count, copyable, plain: ids, ids: [...ids.map(id => id < 0 ? UNKNOWN : id), ...(spec.source_eos ? [spec.eos] : [])], bound: spec.most_steps[count - 1]};
}

const normal = (source, text) => source.normalise === "none" ? text : text.normalize(source.normalise.toUpperCase());
const symbolsOf = (source, text) => source.separator ? normal(source, text).split(source.separator).filter(part => part) : Array.from(normal(source, text));

// The ids of the right answer, without `<eos>`; undefined where the task does not know it. The task's own rule is a graph, too.
function rightAnswer(model, text, ids) {
  const {answer} = model.graphs, {answers} = model.spec, known = Object.hasOwn(answers, text) ? answers[text] : undefined;
  if (known || !answer || ids.some(id => id < 0)) return known;
  const {target, target_lengths: {data}} = answer.run({source: tensor("int", [1, ids.length], Float64Array.from(ids)), lengths: tensor("int", [1], Float64Array.of(ids.length))});
  return Array.from(target.data.slice(0, data[0]));
}
