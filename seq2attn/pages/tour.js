"use strict";
// A guided tour: at each stop a question, something to press, and what came of it, in the words of what the models computed.

const shownModel = () => views.find(view => view.attends) || views[0];
const answerOf = (view, {steps}) => steps.filter(step => step.written !== view.spec.eos).map(step => view.symbol(step.written)).join("");
const strongest = (view, t, {steps} = view.now) => { const row = Array.from(steps[t].weights.data), j = row.indexOf(Math.max(...row)); return {j, symbol: view.sources[j], weight: short(row[j])}; };
const place = ({symbol, j}) => `${symbol}, position ${j + 1}`;
// The first step that the changes made write something else, or the first.
const changed = view => Math.max(0, view.now.steps.findIndex((step, t) => !view.before.steps[t] || step.written !== view.before.steps[t].written));
const taught = view => view.right ? ` The right answer is ${view.right.map(view.symbol).join("")}.` : "";
const compared = view => answerOf(view, view.now) === answerOf(view, view.before) ? `The answer stays ${answerOf(view, view.now)}` : `The answer was ${answerOf(view, view.before)} and is now ${answerOf(view, view.now)}`;
const positions = view => view.sources.map((symbol, j) => symbol + sub(j + 1));
const longText = view => { const word = Array.from(data.models[0].examples[0].split("\t")[0]), wanted = view.spec.trained[1] + 6; return Array.from({length: wanted}, (_, k) => word[k % word.length]).join(view.spec.source.separator); };

// ask: before, with answers to choose from, `guess`; press and act: what to press; tell: after. Stops with `attends` need a model with
// attention.
const STOPS = [
  {title: "Where does it look?", attends: true, covered: true, ask: view => `The model reads ${state.text} and writes its answer symbol by symbol.${taught(view)} A row of the map is a step, a column a position of the source. Which position will the first step attend to?`, guess: positions,
    press: "Uncover the map", act: () => choose(0, null), tell: view => `It attends to ${place(strongest(view, 0))}, with the weight ${strongest(view, 0).weight}, and writes ${view.symbol(view.now.steps[0].written)}.`},
  {title: "What does it write?", attends: false, ask: view => `The model reads ${state.text}, then writes its answer symbol by symbol.${taught(view)} It has no attention: there is no map. What does the step need to know of the source?`,
    press: "Show what it knows", act: () => light("vector"), tell: view => `One vector, the row "one vector": ${view.panel.rows.vector.children[1].textContent}. Everything has to fit in there.`},
  {title: "Step after step", ask: view => view.attends ? "Next, the decoding is played: query, scores, softmax, weights, context, output, at each step. Which way will the bright cell move?" : "Next, the decoding is played. What changes from step to step, and what does not?", guess: view => view.attends ? ["to the right", "to the left", "it stays"] : [],
    press: "Play", act: play, tell: view => view.attends ? `The largest weights are at ${view.now.steps.map((_, t) => strongest(view, t).j + 1).join(", ")}. "▶ play" plays it again.` : "The decoder's state changes. The vector it began with stays as it was."},
  {title: "A score by hand", attends: true, ask: () => "A score says how well the query, which the decoder asks with, fits a key: what the encoder noted at a position. The row \"score\" shows the formula and the products that are added up. Which position has the largest score in the first step?", guess: positions,
    press: "Show the products", act: view => { choose(0, null); light("score"); view.panel.rows.score.scrollIntoView({block: "center"}); }, tell: view => `Position ${strongest(view, 0).j + 1}: ${view.panel.rows.score.children[1].textContent}. The softmax turns the scores into weights that sum to 1.`},
  {title: "Move its attention", attends: true, ask: view => `What will the first step write if all its attention goes to ${view.sources[1] || view.sources[0]}?`, guess: view => [...new Set(view.sources.slice(0, view.count))],
    press: "Set that weight to 1", act: view => { choose(0, Math.min(1, view.sources.length - 1)); setWeight(0, Math.min(1, view.sources.length - 1), 1); }, tell: view => `It writes ${view.symbol(view.now.steps[0].written)}, not ${view.symbol(view.before.steps[0].written)}. ${compared(view)}: so a weight is a cause, not only a picture.`},
  {title: "And the next step?", attends: true, start: view => setWeight(0, Math.min(1, view.sources.length - 1), 1), ask: () => "The first step was made to look elsewhere. Will the second go on from there, or as if nothing had happened?", guess: () => ["from there", "as if nothing had happened"],
    press: "Go to step 2", act: () => choose(1, null), tell: view => view.now.steps.length < 2 || view.before.steps.length < 2 ? "There is no second step." : strongest(view, 1).j === strongest(view, 1, view.before).j ? `It attends to ${place(strongest(view, 1))}, as before: the decoder keeps its place in its own state, and does not need to have looked there.` : `It attends to ${place(strongest(view, 1))}, no longer to position ${strongest(view, 1, view.before).j + 1}: it goes on from where it was.`},
  {title: "Take a position away", attends: true, ask: view => `Ban the first position, ${view.sources[0]}, at every step: it is left out of the softmax. What will be written in its place?`,
    press: "Ban it", act: view => { ban("0"); choose(changed(view), null); }, tell: view => `${compared(view)}. Step ${changed(view) + 1} needed that position. Now it attends to what is left: ${place(strongest(view, changed(view)))}.`},
  {title: "Softer, sharper", attends: true, ask: () => "The temperature divides the scores before the softmax. At 5, the weights become flatter. Will the answer survive?", guess: () => ["yes", "no"],
    press: "Temperature 5", act: view => { state.temperature = 5; update(); choose(changed(view), null); }, tell: view => { const t = Math.min(changed(view), view.before.steps.length - 1); return `${compared(view)}. The largest weight of step ${t + 1} was ${strongest(view, t, view.before).weight} and is ${strongest(view, t).weight}.`; }},
  {title: "One symbol more", attends: false, ask: () => "The vector always has as many numbers. How many of them change if the string gets one symbol longer?",
    press: "Add a symbol", act: view => { view.earlier = vectorOf(view); type(state.text + (view.spec.source.separator && state.text ? view.spec.source.separator : "") + view.spec.source.symbols[0]); }, tell: view => `${vectorOf(view).filter((value, k) => value !== view.earlier[k]).length} of ${vectorOf(view).length}: the symbols have no place of their own in it.`},
  {title: "Put words in its mouth", attends: false, ask: view => `At each step the model reads what it wrote last. What follows if its first symbol is changed to ${view.symbol(3)}?`,
    press: "Change it", act: () => hold("write", 0, 3), tell: view => `${compared(view)}. What it has yet to write comes from its state.`},
  {title: "As long as in training", attends: false, ask: view => `In training, strings had ${view.spec.trained.join(" to ")} symbols. Will the longest be right?`, guess: () => ["right", "wrong"],
    press: "Type one", act: view => type(Array.from(longText(view)).slice(0, view.spec.trained[1]).join(""), state.features), tell: view => `${answerOf(view, view.now)}${view.verdict(view.now)}. The longer the string, the more has to fit into the vector.`},
  {title: "Longer than in training", ask: view => `In training, strings had ${view.spec.trained.join(" to ")} symbols. Will the answer to ${view.spec.trained[1] + 6} be right?`, guess: () => ["right", "wrong"],
    press: "Type a longer one", act: view => type(longText(view), state.features), tell: view => `${answerOf(view, view.now)}${view.verdict(view.now)}. ${view.attends ? "Does its attention go astray, and where?" : "The vector was never asked to hold as much."} Now try your own string.`},
];

const vectorOf = view => Object.entries(view.session().encoded.first).filter(([name]) => name.startsWith("state.cell")).flatMap(([, {data: values}]) => Array.from(values));
const tourSteps = () => STOPS.filter(({attends}) => attends === undefined || attends === data.models.some(model => model.attends));

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
    guessed = `You guessed: ${text}. `;
    for (const one of guesses.children) one.setAttribute("aria-pressed", String(one === event.currentTarget));
  }})));
  const told = make("p", {className: "told", ariaLive: "polite"}), next = make("button", {type: "button", className: "next-stop", textContent: number + 1 < stops.length ? "Next" : "Done", onclick: () => number + 1 < stops.length ? visit(number + 1) : leave()});
  const press = make("button", {type: "button", className: "press", textContent: stop.press, onclick: () => {
    document.body.classList.remove("covered");
    stop.act(view);
    told.textContent = guessed + stop.tell(view);
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
