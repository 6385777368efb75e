"use strict";
// The guided tour: its card, and what of the map is covered meanwhile.

let isUncovered = () => true;  // of a step: while the tour asks, the map hides what it asks for

const toured = () => data.models.find(model => model.attends && !model.force_reason) || data.models.find(model => model.attends) || data.models[0];
const shownModel = () => views[data.models.indexOf(toured())];

// The stops for what the page shows: of two models with a contrast, those about it.
function tourSteps() {
  const stops = STOPS.filter(stop => stop.of(toured(), shownModel())), pair = stops.filter(stop => stop.pair);
  return pair.length ? pair : stops;
}

function cover(on, shows = () => true) {
  document.body.classList.toggle("covered", on);
  isUncovered = shows;
  draw();
}

// Begin a stop of the tour: the first example, without changes.
function visit(wanted) {
  if (playing) pause();
  Object.assign(state, {numbers: false, step: 0});
  rebuild();
  undoAll();
  type(...data.models[0].examples[0].split("\t"));
  const stops = tourSteps(), number = Math.min(wanted, stops.length - 1), stop = stops[number], view = shownModel(), button = (textContent, onclick, more = {}) => make("button", {type: "button", textContent, onclick, ...more});
  state.tour = number;
  if (stop.start) stop.start(view);
  cover(Boolean(stop.covered));

  let guessed = "";
  const guesses = make("div", {className: "guesses", role: "group", ariaLabel: "your guess"});
  guesses.append(...(stop.guess ? stop.guess(view) : []).map(text => button(text, event => {
    guessed = text;
    for (const other of guesses.children) other.setAttribute("aria-pressed", String(other === event.currentTarget));
  }, {ariaPressed: "false"})));
  const told = make("p", {className: "told", ariaLive: "polite"});
  const last = number + 1 === stops.length, next = button(last ? "Done" : "Next", () => last ? leave() : visit(number + 1), {className: "next-stop"});
  const tell = () => {
    const verdict = guessed === stop.truth?.(view) ? "right" : "wrong";
    told.textContent = `${guessed ? `You guessed “${guessed}”: ${verdict}. ` : ""}${stop.tell(view)}`;
    if (stop.act === play) cover(false);
  };
  const press = button(stop.press, () => {
    cover(false, stop.shows);
    guesses.hidden = true;
    next.classList.add("press");
    press.classList.remove("press");
    stop.act(view);
    if (playing) afterwards = tell;
    else tell();
  }, {className: "press"});
  const buttons = make("div", {className: "buttons"}, button("Leave", leave), button("Back", () => visit(number - 1), {disabled: number === 0}), press, next);
  by("tour").replaceChildren(make("h2", {textContent: `${number + 1} of ${stops.length}: ${stop.title}`}), make("p", {textContent: stop.ask(view)}), guesses, told, buttons);
  by("tour").hidden = false;
  light(null);
  if (innerWidth < 941) by("models").scrollIntoView();
  else scrollTo({top: 0});
  document.body.classList.add("touring");
  press.focus({preventScroll: true});
}

function leave() {
  if (playing) pause();
  state.tour = null;
  by("tour").hidden = true;
  document.body.classList.remove("touring");
  cover(false);
  undoAll();
}
