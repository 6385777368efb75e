"use strict";
// The stops of the tour: at each a question, something to press, and what came of it, in the words of what the models computed.

const answerOf = (view, {steps} = view.now) =>
  steps.filter(step => step.written !== view.spec.eos).map(step => view.wrote(step)).join("");
const strongest = (view, t, {steps} = view.now) => {
  const row = Array.from(steps[t].weights.data), j = row.indexOf(Math.max(...row));
  return {j, symbol: view.sources[j], value: row[j], weight: short(row[j])};
};
const place = ({symbol, j}) => `${symbol}, position ${j + 1}`;
const positions = view => view.sources.map((symbol, j) => symbol + sub(j + 1));
const letters = view => [...new Set(view.sources.slice(0, view.count))];

// The steps that write a symbol of the answer.
const writing = ({spec, now}) => [...now.steps.keys()].filter(t => now.steps[t].written !== spec.eos);
const second = view => Math.min(1, view.now.steps.length - 1);
const third = view => Math.min(2, view.now.steps.length - 1);
// The step whose largest weight is the least, but for the first, whose query may be no state of the decoder.
const flattest = view => writing(view).slice(1).reduce((best, t) => strongest(view, t).value < strongest(view, best).value ? t : best, second(view));
// Whether the softmax of that step, of the first head, would saturate without √D.
const saturates = view => Math.max(...probabilities(view.now.steps[flattest(view)].scores.data.slice(0, view.sources.length).map(score => score * rootOf(view)))) > 0.9;
const firstWrong = view => view.now.steps.findIndex((step, t) => view.isWrong(step, t));
// The first step that the changes made write something else, or the first.
const changed = view => Math.max(0, view.now.steps.findIndex((step, t) => !view.before.steps[t] || step.written !== view.before.steps[t].written));
// A position that the first step does not attend to by itself, with another symbol where there is one.
const elsewhere = view => {
  const {symbol} = strongest(view, 0, view.before);
  return Math.max(0, view.sources.slice(0, view.count).findIndex((other, j) => j > 0 && other !== symbol));
};
// Which way the largest weight moves while the answer is written.
function direction(view) {
  const peaks = writing(view).map(t => strongest(view, t).j), moves = peaks.slice(1).map((j, k) => j - peaks[k]);
  if (moves.every(move => move === 0)) return "it stays";
  return moves.every(move => move >= 0) ? "to the right" : moves.every(move => move <= 0) ? "to the left" : "it jumps";
}

const taught = view => view.right ? ` and should write ${view.right.map(view.symbol).join("")}` : " and writes an answer";
const isSame = view => answerOf(view) === answerOf(view, view.before);
const compared = view => isSame(view) ? `The answer stays ${answerOf(view)}` : `The answer was ${answerOf(view, view.before)} and is now ${answerOf(view)}`;
const isRight = view => view.verdict(view.now).includes("✓");
const rightOrWrong = {guess: () => ["right", "wrong"], truth: view => isRight(view) ? "right" : "wrong"};
const judged = view => `It writes ${answerOf(view)}${isRight(view) ? ", which is right" : view.right ? `; right is ${view.right.map(view.symbol).join("")}` : ""}.`;

function longText(view) {
  const word = Array.from(data.models[0].examples[0].split("\t")[0]);
  return Array.from({length: view.spec.trained[1] + 6}, (_, k) => word[k % word.length]).join(view.spec.source.separator);
}

// The probability of a symbol at a step.
const chance = (step, id) => probabilities(step.logits.data)[id];
// The empty positions that a string lacks to be as long as the longest of training, and the share of a step's attention that
// goes to empty positions.
const missing = view => Math.max(1, Math.min(MOST_PADDING, view.spec.trained[1] - view.count));
const emptyShare = (view, t) => view.now.steps[t].weights.data.slice(view.ids.length).reduce((sum, weight) => sum + weight, 0);
const vectorOf = view => Object.entries(view.session().encoded.first).filter(([name]) => name.startsWith("state.cell")).flatMap(([, {data: values}]) => Array.from(values));

// Of two models, the one that is wrong where the other is right; and what they differ in.
let loser, winner;
const rivals = () => ([loser, winner] = [false, true].map(right => views.find(view => isRight(view) === right))).every(view => view);
const differing = kind => views.length === 2 && new Set(views.map(({spec}) => spec.parts[kind]?.name)).size === 2;
const traits = () => ["score", "window", "history"].filter(differing);
const each = say => views.map(view => `${say(view)} (${view.spec.name})`).join(" and ");
const described = () => `They differ in the ${traits().map(kind => `${kind}: ${each(({spec: {parts}}) => kind === "history" ? parts[kind].name.replace("none", "nothing") : written(parts[kind].formula))}`).join("; the ")}`;
const names = () => views.map(view => view.spec.name);
const most = rate => views.reduce((best, view) => rate(view) > rate(best) ? view : best).spec.name;
const shortest = () => data.models[0].examples.reduce((best, text) => text.length < best.length ? text : best);
// The attention that each position has had before a step.
const readBefore = ({now}, t) => now.steps.slice(0, t).reduce((sums, {weights}) => sums.map((sum, j) => sum + weights.data[j]), new Array(now.width).fill(0));
const leastRead = () => peak(readBefore(winner, state.step).map(read => -read));
const showScores = view => { light("score"); view.panel.rows.score.scrollIntoView({block: "center"}); };

const attends = spec => spec.attends;
const without = spec => !spec.attends;
const masked = spec => spec.attends && spec.mask_padding;

// of: the models that a stop is for; covered: the map is covered until `press` is pressed, and then shows the steps that `shows`
// chooses; ask: before, with answers to choose from, `guess`; press and act: what to press; tell: after; truth: the right guess.
// While `act` plays the decoding, nothing is told.
// pair: of two models, a stop about what they differ in.
const STOPS = [
  {
    title: "One of the two is wrong", pair: true, of: rivals, covered: true, guess: names, truth: () => loser.spec.name,
    ask: () => `Both were trained on the task ${loser.spec.about.task}. ${traits().length ? described() : `The window of step 1 is around position ${each(view => view.windowAt(0, " ± "))}`}. Which one is wrong on “${state.text}”?`,
    press: "Uncover both", act: () => choose(firstWrong(loser), null),
    tell: () => `${loser.spec.name} writes ${answerOf(loser)}. Step ${state.step + 1} is the first that is wrong. There the largest weight is that of ${each(view => `${place(strongest(view, state.step))}, with ${strongest(view, state.step).weight}`)}.`,
  },
  {
    title: "A shorter string", pair: true, of: () => rivals() && loser.map.centres[0].length, ...rightOrWrong, truth: () => isRight(loser) ? "right" : "wrong",
    ask: () => `The first windows of ${loser.spec.name} are in the wrong place. Will it be right on “${shortest()}”?`,
    press: "Type it", act: () => type(...shortest().split("\t")),
    tell: () => `${judged(loser)} What its windows miss has to come through the state, as without attention: a few letters get through.`,
  },
  {
    title: "What has been read", pair: true, of: () => rivals() && winner.spec.parts.history?.name === "coverage", covered: true, guess: positions,
    truth: view => positions(view)[leastRead()], start: () => choose(firstWrong(loser), null),
    ask: () => `C adds up the attention that each position has had. Which one has had the least before step ${state.step + 1}, the first that ${loser.spec.name} gets wrong?`,
    press: "Show it", act: () => { choose(state.step, leastRead()); showScores(winner); },
    tell: view => `${positions(view)[leastRead()]} has had ${short(Math.min(...readBefore(winner, state.step)))}, the others up to ${short(Math.max(...readBefore(winner, state.step)))}. ${winner.spec.name} adds w C to its scores, so that it knows what it has read; ${loser.spec.name} has to count in its state.`,
  },
  {
    title: "How a score is made", pair: true, of: () => differing("score"), covered: true, guess: names, truth: () => most(({scale: [least, greatest]}) => greatest - least),
    ask: () => `${described()}. Whose scores lie further apart?`,
    press: "Show them", act: view => { choose(second(view), null); showScores(view); },
    tell: () => `${each(({scale}) => scale.map(short).join(" to "))}. ${views.some(({spec}) => /tanh/.test(spec.parts.score.formula)) ? "A product grows with query and key; each tanh in the sum is at most 1." : ""}`,
  },
  {
    title: "Flatter weights", pair: true, of: () => differing("score"), guess: names, truth: () => most(view => strongest(view, state.step).value),
    start: view => choose(second(view), null), ask: () => "The temperature 3 divides all scores by 3. Which keeps the larger weight in step 2?",
    press: "Temperature 3", act: () => { state.temperature = 3; update(); },
    tell: () => `${each(view => `${strongest(view, state.step, view.before).weight}, then ${strongest(view, state.step).weight}`)}. Scores that lie far apart stay apart.`,
  },
  {
    title: "Empty positions", of: spec => spec.attends && !spec.mask_padding,
    ask: view => `${judged(view)} In training, without a mask, it could read the empty positions that fill strings up to ${view.spec.trained[1]}. Will ${missing(view)} of them make it right?`,
    ...rightOrWrong, press: "Add them", act: view => { state.padding = missing(view); update(); },
    tell: view => `${judged(view)} Step 1 puts ${short(emptyShare(view, 0))} of its attention on empty positions${isSame(view) ? "" : ": it learned to count on them"}.`,
  },
  {
    title: "Where does it look?", of: masked, covered: true, shows: t => t === 1, guess: positions, truth: view => positions(view)[strongest(view, second(view)).j],
    ask: view => `The model reads ${state.text}${taught(view)}. Rows of the map are steps, columns are positions. Which position will step 2 attend to?`,
    press: "Uncover it", act: view => choose(second(view), null),
    tell: view => `It attends to ${place(strongest(view, second(view)))}, with the weight ${strongest(view, second(view)).weight}, and writes ${view.wrote(view.now.steps[second(view)])}.`,
  },
  {
    title: "What does it write?", of: without,
    ask: view => `The model reads ${state.text}${taught(view)}, a symbol a step. It has no attention: there is no map. What does a step need to know of the source?`,
    press: "Show what it knows", act: () => light("vector"),
    tell: view => `One vector, the row "one vector": ${view.panel.rows.vector.children[1].textContent}. Everything has to fit in there.`,
  },
  {
    title: "Step after step", of: masked, covered: true, shows: t => t <= state.step, guess: () => ["to the right", "to the left", "it stays", "it jumps"], truth: direction,
    ask: () => "Next, the decoding is played: query, scores, softmax, weights, context, output, at each step. Which way will the bright cell move?",
    press: "Play", act: play,
    tell: view => `The largest weights are at ${writing(view).map(t => strongest(view, t).j + 1).join(", ")}. The last step writes ⏎, the end, which copies nothing.`,
  },
  {
    title: "Step after step", of: without, ask: () => "Next, the decoding is played. What changes from step to step, and what does not?",
    press: "Play", act: play, tell: () => "The decoder's state changes. The vector it began with stays as it was.",
  },
  {
    title: "How a score is made", of: attends, covered: true, guess: positions, truth: view => positions(view)[strongest(view, third(view)).j],
    ask: view => `A score says how well the query, which the decoder asks with, fits a key, which the encoder left at a position. Which position will have the largest score in step ${third(view) + 1}?`,
    press: "Show it", act: view => { choose(third(view), null); showScores(view); },
    tell: view => `Position ${strongest(view, third(view)).j + 1}. The row shows how its score is made${view.spec.parts.score ? `: ${view.spec.parts.score.summary}` : ""}. The softmax makes weights of the scores.`,
  },
  {
    title: "Move its attention", of: spec => masked(spec) && canForce(), guess: letters, truth: view => view.wrote(view.now.steps[0]),
    ask: view => `What will the first step write if all its attention goes to ${positions(view)[elsewhere(view)]}?`,
    press: "Set that weight to 1", act: view => { const j = elsewhere(view); choose(0, j); setWeight(0, j, 1); },
    tell: view => {
      const [before, now] = [view.before, view.now].map(({steps}) => view.wrote(steps[0]));
      return now === before ? `It still writes ${now}. ${compared(view)}: this weight was not the cause.` : `It writes ${now}, not ${before}. ${compared(view)}: so a weight is a cause, not only a picture.`;
    },
  },
  {
    title: "And the next step?", of: spec => masked(spec) && canForce(), start: view => setWeight(0, elsewhere(view), 1), guess: () => ["from there", "as before"],
    truth: view => strongest(view, second(view)).j === strongest(view, second(view), view.before).j ? "as before" : "from there",
    ask: () => "The first step was made to look elsewhere. Will the second go on from there, or look where it did before?",
    press: "Go to step 2", act: () => choose(1, null),
    tell: view => {
      const [now, before] = [view.now, view.before].map(result => result.steps[1]);
      if (!now || !before) return "There is no second step.";
      const to = strongest(view, 1), from = strongest(view, 1, view.before), {likeliest} = before;
      const moved = to.j === from.j ? `Its largest weight is still at ${place(to)}: ${to.weight}, and was ${from.weight}` : `It attends to ${place(to)}, with ${to.weight}, no longer to position ${from.j + 1}`;
      const [after, first] = [now, before].map(step => short(chance(step, likeliest)));
      const why = to.j === from.j ? "The decoder's state knows how far it is." : "It goes on from where it was.";
      return `${moved}; p(${view.symbol(likeliest)}) was ${first} and is ${after}. ${why}`;
    },
  },
  {
    title: "Take a position away", of: masked, guess: letters, truth: view => view.wrote(view.now.steps[changed(view)]),
    ask: view => `Ban the first position, ${view.sources[0]}, at every step: it is left out of the softmax. What will be written in its place?`,
    press: "Ban it", act: view => { ban("0"); choose(changed(view), null); },
    tell: view => `${compared(view)}. ${isSame(view) ? "No step needed that position." : `Step ${changed(view) + 1} needed that position. Now it attends to what is left: ${place(strongest(view, changed(view)))}.`}`,
  },
  {
    title: "Why divide by √D?", of: (spec, view) => spec.attends && dividesByRoot(spec) && saturates(view), guess: () => ["larger", "smaller"],
    truth: view => strongest(view, flattest(view)).value > strongest(view, flattest(view), view.before).value ? "larger" : "smaller",
    start: view => choose(flattest(view), null),
    ask: view => `Scores are s · h divided by √D = ${exact(rootOf(view))}. Step ${flattest(view) + 1} has the weight ${strongest(view, flattest(view)).weight} at ${place(strongest(view, flattest(view)))}. Will it be larger or smaller without the division?`,
    press: "Without √D", act: view => { state.temperature = unscaled(view); update(); light("softmax"); },
    tell: view => {
      const [now, before] = [view.now, view.before].map(result => strongest(view, Math.min(state.step, result.steps.length - 1), result));
      const slopes = [before, now].map(({value}) => Number((value * (1 - value)).toPrecision(2)));
      return `${now.weight}${now.value > 0.9 ? ": the softmax saturates" : ""}. Its slope p (1 − p), through which the model learns, goes from ${slopes[0]} to ${slopes[1]}. The temperature slider is the same experiment: it is now at 1/√D.`;
    },
  },
  {
    title: "Flatter weights", of: attends, guess: () => ["yes", "no"], truth: view => isSame(view) ? "yes" : "no",
    ask: () => "The temperature divides the scores before the softmax. At 5, the weights become flatter. Will the answer stay the same?",
    press: "Temperature 5", act: view => { state.temperature = 5; update(); choose(changed(view), null); },
    tell: view => {
      const t = Math.min(changed(view), view.before.steps.length - 1), now = strongest(view, t).weight;
      return `${compared(view)}. The largest weight of step ${t + 1} was ${strongest(view, t, view.before).weight} and is ${now}${now < 0.9 ? ": its context is a mixture of several positions" : ""}.`;
    },
  },
  {
    title: "Empty positions", of: masked, guess: () => ["yes", "no"], truth: view => isSame(view) ? "yes" : "no",
    ask: view => `A mask hides the empty positions that fill up short strings of a batch. Will the answer stay the same with ${missing(view)} unmasked?`,
    press: "Add them, unmasked", act: view => { Object.assign(state, {padding: missing(view), mask: false}); update(); },
    tell: view => `${compared(view)}: they get at most ${short(Math.max(...writing(view).map(t => emptyShare(view, t))))} of a step. Trained unmasked, a model needs them (unmasked.html).`,
  },
  {
    title: "One symbol more", of: without, ask: () => "The vector always has as many numbers. How many of them change if the string gets one symbol longer?",
    press: "Add a symbol",
    act: view => { view.earlier = vectorOf(view); type(state.text + (state.text ? view.spec.source.separator : "") + view.spec.source.symbols[0]); },
    tell: view => `${vectorOf(view).filter((value, k) => value !== view.earlier[k]).length} of ${vectorOf(view).length}: the symbols have no place of their own in it.`,
  },
  {
    title: "Put words in its mouth", of: without, ask: view => `At each step the model reads what it wrote last. What follows if its first symbol is changed to ${view.symbol(3)}?`,
    press: "Change it", act: () => hold("write", 0, 3), tell: view => `${compared(view)}. What it has yet to write comes from its state.`,
  },
  {
    title: "As long as in training", of: without, ...rightOrWrong,
    ask: view => `In training, strings had ${view.spec.trained.join(" to ")} symbols. Will the longest be right?`,
    press: "Type one", act: view => type(Array.from(longText(view)).slice(0, view.spec.trained[1]).join(""), state.features),
    tell: view => `${judged(view)} The longer the string, the more has to fit into the vector.`,
  },
  {
    title: "Longer than in training", of: () => true, ...rightOrWrong,
    ask: view => `In training, strings had ${view.spec.trained.join(" to ")} symbols. Will one of ${view.spec.trained[1] + 6} be right?`,
    press: "Type a longer one", act: view => { type(longText(view), state.features); choose(Math.max(0, firstWrong(view)), null); },
    tell: view => `${judged(view)} ${!view.spec.attends ? "The vector was never asked to hold as much." : firstWrong(view) < 0 ? "" : `Step ${firstWrong(view) + 1} is the first that is wrong: it attends to position ${strongest(view, firstWrong(view)).j + 1}.`} Now try your own string.`,
  },
];
