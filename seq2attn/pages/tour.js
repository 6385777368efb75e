"use strict";
// A guided tour: at each stop a question, something to press, and what came of it, in the words of what the models computed.

const shownModel = () => views.find(view => view.attends && !view.spec.force_reason) || views.find(view => view.attends) || views[0];
const answerOf = (view, {steps}) => steps.filter(step => step.written !== view.spec.eos).map(step => view.symbol(step.written)).join("");
const strongest = (view, t, {steps} = view.now) => { const row = Array.from(steps[t].weights.data), j = row.indexOf(Math.max(...row)); return {j, symbol: view.sources[j], weight: short(row[j])}; };
const place = ({symbol, j}) => `${symbol}, position ${j + 1}`;
// The first step that the changes made write something else, or the first.
const changed = view => Math.max(0, view.now.steps.findIndex((step, t) => !view.before.steps[t] || step.written !== view.before.steps[t].written));
const taught = view => view.right ? ` and should write ${view.right.map(view.symbol).join("")}` : " and writes an answer";
const isSame = view => answerOf(view, view.now) === answerOf(view, view.before);
const compared = view => isSame(view) ? `The answer stays ${answerOf(view, view.now)}` : `The answer was ${answerOf(view, view.before)} and is now ${answerOf(view, view.now)}`;
const positions = view => view.sources.map((symbol, j) => symbol + sub(j + 1));
const longText = view => { const word = Array.from(data.models[0].examples[0].split("\t")[0]), wanted = view.spec.trained[1] + 6; return Array.from({length: wanted}, (_, k) => word[k % word.length]).join(view.spec.source.separator); };

const letters = view => [...new Set(view.sources.slice(0, view.count))];
const firstWrong = view => view.now.steps.findIndex((step, t) => view.isWrong(step, t));
// A position that the first step does not attend to by itself, with another symbol where there is one.
const elsewhere = view => { const {symbol} = strongest(view, 0, view.before); return Math.max(0, view.sources.slice(0, view.count).findIndex((other, j) => j > 0 && other !== symbol)); };
const isRight = view => view.verdict(view.now).includes("✓");
const judged = view => `It writes ${answerOf(view, view.now)}${isRight(view) ? ", which is right" : view.right ? `; right is ${view.right.map(view.symbol).join("")}` : ""}.`;

// ask: before, with answers to choose from, `guess`; press and act: what to press; tell: after; truth: the right guess. Stops with
// `attends` need a model with attention, or one without; those with `forces` one whose weights can be set.
const STOPS = [
  {title: "Where does it look?", attends: true, covered: true, guess: positions, truth: view => positions(view)[strongest(view, 0).j],
    ask: view => `The model reads ${state.text}${taught(view)}. Rows of the map are steps, columns are positions. Which position will the first step attend to?`,
    press: "Uncover it", act: () => choose(0, null), tell: view => `It attends to ${place(strongest(view, 0))}, with the weight ${strongest(view, 0).weight}, and writes ${view.symbol(view.now.steps[0].written)}.`},
  {title: "What does it write?", attends: false, ask: view => `The model reads ${state.text}${taught(view)}, a symbol a step. It has no attention: there is no map. What does a step need to know of the source?`,
    press: "Show what it knows", act: () => light("vector"), tell: view => `One vector, the row "one vector": ${view.panel.rows.vector.children[1].textContent}. Everything has to fit in there.`},
  {title: "Step after step", attends: true, covered: true, guess: () => ["to the right", "to the left", "it stays", "it jumps"], ask: () => "Next, the decoding is played: query, scores, softmax, weights, context, output, at each step. Which way will the bright cell move?",
    press: "Play", act: play, tell: view => `The largest weights are at ${view.now.steps.filter(step => step.written !== view.spec.eos).map((_, t) => strongest(view, t).j + 1).join(", ")}. The last step writes ⏎, the end, which copies nothing.`},
  {title: "Step after step", attends: false, ask: () => "Next, the decoding is played. What changes from step to step, and what does not?",
    press: "Play", act: play, tell: () => "The decoder's state changes. The vector it began with stays as it was."},
  {title: "How a score is made", attends: true, covered: true, guess: positions, truth: view => positions(view)[strongest(view, 0).j],
    ask: () => "A score says how well the query, which the decoder asks with, fits a key, which the encoder left at a position. Which position will have the largest score in the first step?",
    press: "Show it", act: view => { choose(0, null); light("score"); view.panel.rows.score.scrollIntoView({block: "center"}); }, tell: view => `Position ${strongest(view, 0).j + 1}. The row shows how its score is made${view.spec.parts.score ? `: ${view.spec.parts.score.summary}` : ""}. The softmax makes weights of the scores.`},
  {title: "Move its attention", attends: true, forces: true, guess: letters, truth: view => view.symbol(view.now.steps[0].written), ask: view => `What will the first step write if all its attention goes to ${positions(view)[elsewhere(view)]}?`,
    press: "Set that weight to 1", act: view => { const j = elsewhere(view); choose(0, j); setWeight(0, j, 1); }, tell: view => { const [before, now] = [view.before, view.now].map(({steps}) => view.symbol(steps[0].written)); return now === before ? `It still writes ${now}. ${compared(view)}: this weight was not the cause.` : `It writes ${now}, not ${before}. ${compared(view)}: so a weight is a cause, not only a picture.`; }},
  {title: "And the next step?", attends: true, forces: true, start: view => setWeight(0, elsewhere(view), 1), guess: () => ["from there", "as if nothing had happened"], ask: () => "The first step was made to look elsewhere. Will the second go on from there, or as if nothing had happened?",
    press: "Go to step 2", act: () => choose(1, null), tell: view => view.now.steps.length < 2 || view.before.steps.length < 2 ? "There is no second step." : strongest(view, 1).j === strongest(view, 1, view.before).j ? `It attends to ${place(strongest(view, 1))}, as if nothing had happened: the decoder knows by its own state how far it is.` : `It attends to ${place(strongest(view, 1))}, no longer to position ${strongest(view, 1, view.before).j + 1}: it goes on from where it was.`},
  {title: "Take a position away", attends: true, guess: letters, truth: view => view.symbol(view.now.steps[changed(view)].written), ask: view => `Ban the first position, ${view.sources[0]}, at every step: it is left out of the softmax. What will be written in its place?`,
    press: "Ban it", act: view => { ban("0"); choose(changed(view), null); }, tell: view => `${compared(view)}. ${isSame(view) ? "No step needed that position." : `Step ${changed(view) + 1} needed that position. Now it attends to what is left: ${place(strongest(view, changed(view)))}.`}`},
  {title: "Flatter weights", attends: true, guess: () => ["yes", "no"], truth: view => isSame(view) ? "yes" : "no", ask: () => "The temperature divides the scores before the softmax. At 5, the weights become flatter. Will the answer survive?",
    press: "Temperature 5", act: view => { state.temperature = 5; update(); choose(changed(view), null); }, tell: view => { const t = Math.min(changed(view), view.before.steps.length - 1); return `${compared(view)}. The largest weight of step ${t + 1} was ${strongest(view, t, view.before).weight} and is ${strongest(view, t).weight}${strongest(view, t).weight < 0.9 ? ": its context is a mixture of several positions" : ""}.`; }},
  {title: "One symbol more", attends: false, ask: () => "The vector always has as many numbers. How many of them change if the string gets one symbol longer?",
    press: "Add a symbol", act: view => { view.earlier = vectorOf(view); type(state.text + (view.spec.source.separator && state.text ? view.spec.source.separator : "") + view.spec.source.symbols[0]); }, tell: view => `${vectorOf(view).filter((value, k) => value !== view.earlier[k]).length} of ${vectorOf(view).length}: the symbols have no place of their own in it.`},
  {title: "Put words in its mouth", attends: false, ask: view => `At each step the model reads what it wrote last. What follows if its first symbol is changed to ${view.symbol(3)}?`,
    press: "Change it", act: () => hold("write", 0, 3), tell: view => `${compared(view)}. What it has yet to write comes from its state.`},
  {title: "As long as in training", attends: false, guess: () => ["right", "wrong"], truth: view => isRight(view) ? "right" : "wrong", ask: view => `In training, strings had ${view.spec.trained.join(" to ")} symbols. Will the longest be right?`,
    press: "Type one", act: view => type(Array.from(longText(view)).slice(0, view.spec.trained[1]).join(""), state.features), tell: view => `${judged(view)} The longer the string, the more has to fit into the vector.`},
  {title: "Longer than in training", guess: () => ["right", "wrong"], truth: view => isRight(view) ? "right" : "wrong", ask: view => `In training, strings had ${view.spec.trained.join(" to ")} symbols. Will the answer to ${view.spec.trained[1] + 6} be right?`,
    press: "Type a longer one", act: view => { type(longText(view), state.features); choose(Math.max(0, firstWrong(view)), null); }, tell: view => `${judged(view)} ${!view.attends ? "The vector was never asked to hold as much." : firstWrong(view) < 0 ? "" : `Step ${firstWrong(view) + 1} is the first that is wrong: it attends to position ${strongest(view, firstWrong(view)).j + 1}.`} Now try your own string.`},
];

const vectorOf = view => Object.entries(view.session().encoded.first).filter(([name]) => name.startsWith("state.cell")).flatMap(([, {data: values}]) => Array.from(values));
const tourSteps = () => STOPS.filter(({attends, forces}) => (attends === undefined || attends === data.models.some(model => model.attends)) && (!forces || canForce()));

// Begin a stop of the tour: the first example, without changes.
function visit(number) {
  const stops = tourSteps(), stop = stops[number], panel = by("tour");
  if (playing) pause();
  Object.assign(state, {tour: number, numbers: false, step: 0});
  rebuild();
  undoAll();
  type(...data.models[0].examples[0].split("\t"));
  const view = shownModel();
  if (stop.start) stop.start(view);
  document.body.classList.toggle("covered", Boolean(stop.covered));
  let guessed = "";
  const guesses = make("div", {className: "guesses", role: "group", ariaLabel: "your guess"}, ...(stop.guess ? stop.guess(view) : []).map(text => make("button", {type: "button", textContent: text, ariaPressed: "false", onclick: event => {
    guessed = text;
    for (const one of guesses.children) one.setAttribute("aria-pressed", String(one === event.currentTarget));
  }})));
  const told = make("p", {className: "told", ariaLive: "polite"}), next = make("button", {type: "button", className: "next-stop", textContent: number + 1 < stops.length ? "Next" : "Done", onclick: () => number + 1 < stops.length ? visit(number + 1) : leave()});
  const press = make("button", {type: "button", className: "press", textContent: stop.press, onclick: () => {
    document.body.classList.remove("covered");
    stop.act(view);
    told.textContent = `${guessed ? `You guessed: ${guessed}${stop.truth ? guessed === stop.truth(view) ? ", and are right" : ", which is not so" : ""}. ` : ""}${stop.tell(view)}`;
    guesses.hidden = true;
    next.classList.add("press");
    press.classList.remove("press");
  }});
  panel.replaceChildren(make("h2", {textContent: `${number + 1} of ${stops.length}: ${stop.title}`}), make("p", {textContent: stop.ask(view)}), guesses, told,
    make("div", {className: "buttons"}, make("button", {type: "button", textContent: "Leave", onclick: leave}), make("button", {type: "button", textContent: "Back", disabled: number === 0, onclick: () => visit(number - 1)}), press, next));
  panel.hidden = false;
  light(null);
  if (innerWidth < 941) by("models").scrollIntoView();
  else scrollTo({top: 0});
  document.body.classList.add("touring");
  press.focus({preventScroll: true});
}

function leave() {
  state.tour = null;
  by("tour").hidden = true;
  document.body.classList.remove("covered", "touring");
  if (playing) pause();
  undoAll();
}
