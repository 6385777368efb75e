"use strict";
// The page: what a person types and changes, and what the models make of it.

const by = id => document.getElementById(id);
for (const {graphs, training} of data.models) {
  readGraphs(graphs);
  if (training) readGraphs(training.graphs);
}
const UNKNOWN = 3, SHOWN_NEXT = 5, MOST_PADDING = 8, LONG = 22;  // LONG: source positions from which on a map takes the whole width

const state = {
  text: "", features: "", step: 0, position: null, numbers: false, temperature: 1, padding: 0, mask: null,
  force: new Map(), ban: new Set(), write: new Map(), snapshots: data.models.map(model => model.snapshots.length - 1),
  part: null, tour: null, rate: null, seed: null, until: null,  // of training; until: the batch at which it pauses
};
const untouched = {temperature: 1, padding: 0, mask: null, force: new Map(), ban: new Set(), write: new Map()};
const views = [];
let active = null;  // the view that keys act on

function make(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (key in made) made[key] = value;
    else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

// Assign a property of an element if it is another: an assignment alone makes the browser lay out the page.
function put(element, name, value) {
  if (element[name] !== value) element[name] = value;
}

// Fill a part of a bar, as shares of its height: as a background, which needs painting but no layout.
function fillBar(bar, from, size) {
  const place = size < 1 ? Math.min(1, (1 - from - size) / (1 - size)) : 0;
  bar.style.background = `50% ${(100 * place).toFixed(1)}% / 76% ${(100 * size).toFixed(1)}% no-repeat linear-gradient(currentColor 0 0)`;
}

const isChanged = () => state.temperature !== 1 || state.padding > 0 || state.mask !== null || state.force.size + state.ban.size + state.write.size > 0;

const isUnscaled = () => dividesByRoot(shownModel().spec) && state.temperature === unscaled(shownModel());
const masksPadding = () => state.mask === null ? data.models.every(model => model.mask_padding) : state.mask;

// ---- the whole page ----

function update() {
  for (const view of views) {
    try { view.compute(); } catch (error) { view.problem = `${view.spec.name} cannot read that: ${error.message}`; }
  }
  draw();
}

const measured = () => ({width: innerWidth, height: innerHeight});
let look = colours(), inside = measured();  // the window's inside: reading it makes the browser lay out the page

function draw() {
  const {problem, offer} = views.find(view => view.problem !== undefined) || {}, empty = views.every(view => view.empty);
  by("message").replaceChildren(problem || (empty ? "Type a string." : ""), ...(offer ? [" · ", make("button", {type: "button", textContent: `use ${offer}`, onclick: () => { type(offer, state.features); by("text").focus(); }})] : []));
  by("message").classList.toggle("problem", Boolean(problem));
  by("text").setAttribute("aria-invalid", String(Boolean(problem)));
  by("models").hidden = views.every(view => !view.now);
  by("models").style.visibility = views.some(view => view.spec.training && !view.learnt) ? "hidden" : "";  // not trained by this page
  const steps = Math.max(1, ...views.map(view => view.now ? view.now.steps.length : 1));
  state.step = Math.min(state.step, steps - 1);
  by("temperature").value = Math.log10(state.temperature);
  by("temperature-value").textContent = short(state.temperature);
  by("unscaled").checked = shownModel().now && isUnscaled();
  by("padding").value = state.padding;
  by("mask").checked = masksPadding();
  by("reset").disabled = !isChanged();
  by("numbers").setAttribute("aria-pressed", String(state.numbers));
  chips();
  for (const view of views) view.draw(look);
  remember();
}

function chips() {
  const cell = key => { const [t, j] = key.split(","); return j === undefined ? `position ${Number(t) + 1}` : `step ${Number(t) + 1}, position ${Number(j) + 1}`; };
  const parts = [
    ...(state.temperature === 1 ? [] : [[isUnscaled() ? "without √D" : `temperature ${short(state.temperature)}`, () => { state.temperature = 1; }]]),
    ...(state.padding ? [[`padding ${state.padding}`, () => { state.padding = 0; }]] : []),
    ...(state.mask === null ? [] : [[state.mask ? "masked" : "not masked", () => { state.mask = null; }]]),
    ...Array.from(state.force, ([key, weight]) => [`${cell(key)}: ${short(weight)}`, () => state.force.delete(key)]),
    ...Array.from(state.ban, key => [`${cell(key)}: banned`, () => state.ban.delete(key)]),
    ...Array.from(state.write, ([t, id]) => [`step ${t + 1} writes ${views[0].symbol(id)}`, () => state.write.delete(t)]),
  ];
  by("hint").hidden = parts.length > 0;
  by("changes").replaceChildren(...parts.map(([text, undo]) => make("button", {type: "button", textContent: `${text} ✕`, title: "undo", onclick: () => { undo(); update(); }})));
  by("changes").scrollLeft = 1e6;  // to the latest
}

function start() {
  const [first] = data.models, examples = [...new Set(data.models.flatMap(model => model.examples))];
  by("about").replaceChildren(...(data.models.length === 1 ? describe(first) : []));
  by("about").hidden = data.models.length > 1;
  state.text = (examples[0] || "").split("\t")[0];
  state.features = (examples[0] || "").split("\t")[1] || "";
  restore(location.hash.slice(1));
  by("models").className = data.models.length > 1 ? "two" : "";
  by("padding").append(...Array.from({length: MOST_PADDING + 1}, (_, count) => make("option", {value: count, textContent: String(count)})));
  by("features-label").hidden = !first.source.features;
  by("hold").hidden = false;
  for (const element of [by("temperature"), by("padding"), by("mask")]) element.closest("label").hidden = !data.models.some(model => model.attends);
  if (!data.models.some(model => model.attends)) by("hint").textContent = "Retype a symbol of the answer.";
  else if (!canForce()) by("hint").textContent = "Ban a position, or retype a symbol.";
  by("unscaled").closest("label").hidden = !data.models.every(dividesByRoot);
  by("save").hidden = !data.models.some(model => model.attends);
  by("examples").append(...examples.map(text => make("button", {type: "button", textContent: Array.from(text, shownSymbol).join("").replace("␉", " "), onclick: () => { type(...text.split("\t")); by("text").focus(); }})));
  const {symbols, separator} = first.source;
  by("symbols").append(...symbols.map(symbol => make("button", {type: "button", textContent: shownSymbol(symbol), onclick: () => {
    type(state.text && separator ? `${state.text}${separator}${symbol}` : state.text + symbol, state.features);
  }})));
  for (const [number, spec] of data.models.entries()) {
    const view = new View(spec, number);
    views.push(view);
    active = active || view;
    by("models").append(view.root);
  }
  by("text").value = state.text;
  by("features").value = state.features;
  listen();
  prepareTips();
  update();
  by("take-tour").hidden = Boolean(first.training);  // it speaks of what was learnt
  if (first.training) prepareTraining();
  showPlaying();
  if (!matchMedia("(pointer: coarse)").matches) by("text").select();  // typing works at once
  if (state.tour !== null) visit(state.tour);
}

function type(text, features = "") {
  by("text").value = text;
  by("features").value = features;
  Object.assign(state, {text, features, step: 0, position: null});
  update();
}

function listen() {
  by("text").addEventListener("input", () => { if (playing) pause(); state.text = by("text").value; update(); });
  by("features").addEventListener("input", () => { state.features = by("features").value; update(); });
  by("text").addEventListener("keydown", event => {
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    choose(state.step + (event.key === "ArrowDown" ? 1 : -1), state.position);
    event.preventDefault();
  });
  by("unscaled").addEventListener("change", () => {
    state.temperature = by("unscaled").checked ? unscaled(shownModel()) : 1;
    update();
  });
  by("temperature").addEventListener("input", () => { state.temperature = Number((10 ** by("temperature").value).toPrecision(3)); update(); });
  by("padding").addEventListener("change", () => { state.padding = Number(by("padding").value); update(); });
  by("mask").addEventListener("change", () => {
    state.mask = data.models.every(model => model.mask_padding === by("mask").checked) ? null : by("mask").checked;
    update();
  });
  for (const [id, act] of Object.entries({reset: undoAll, share, save, numbers: toggleNumbers, "take-tour": () => visit(0)})) by(id).addEventListener("click", act);
  for (const view of views) view.find("figcaption i").style.background = `linear-gradient(90deg, ${data.colours.map(parts => `rgb(${parts.join()})`).join()})`;
  document.addEventListener("keydown", event => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (event.key === "Escape" && state.tour !== null) leave();
    else if (event.key === "Escape") undoAll();
    else if (event.target.closest("select, input:not([type=checkbox])")) return;
    else if (event.key === "n") toggleNumbers();
    else if (event.key === "p") togglePlay();
    else if (event.key !== "Enter" || !event.target.closest("button, summary")) mapKey(event);
  });
  window.addEventListener("resize", () => {
    inside = measured();
    drawTraining();
    for (const view of views) view.rooms.clear();
    draw();
  });
  window.addEventListener("hashchange", () => {
    restore(location.hash.slice(1));
    by("text").value = state.text;
    for (const view of views) view.load(state.snapshots[view.number]);
    update();
    if (state.tour !== null) visit(state.tour);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { look = colours(); draw(); drawTraining(); });
}

function toggleNumbers() {
  state.numbers = !state.numbers;
  rebuild();
  draw();
}

function rebuild() { for (const view of views) view.panel.columns = []; }  // the bars' columns: with numbers they are wider

start();
