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

// ---- models ----

class View {
  constructor(spec, number) {
    this.spec = spec;
    this.number = number;
    this.root = by("model").content.firstElementChild.cloneNode(true);
    this.find = name => this.root.querySelector(name);
    this.attends = spec.attends;
    this.symbol = id => shownSymbol(spec.target.tokens[id]);
    this.load(state.snapshots[number]);
    this.find("h2").textContent = spec.name;
    this.find("h2").hidden = data.models.length === 1;
    this.find(".about").textContent = describe(spec);
    this.find(".about").hidden = data.models.length === 1;
    this.snapshots();
    this.canvas = this.find("canvas");
    this.canvas.addEventListener("click", event => {
      const {left, top, cell} = this.layout, bounds = this.canvas.getBoundingClientRect();
      active = this;
      choose(Math.floor((event.clientY - bounds.top - top) / cell), Math.floor((event.clientX - bounds.left - left) / cell));
      this.canvas.focus();
    });
    this.root.addEventListener("focusin", () => { active = this; });
    this.find(".maps").hidden = !this.attends;
    this.root.classList.toggle("without", !this.attends);
    this.rooms = new Map();
    this.panel = new Step(this);
  }

  load(snapshot) {
    const model = new Model(this.spec, this.learnt || decodeBase64(this.spec.snapshots[snapshot].weights));
    this.plain = new Session(model);
    this.changed = new Session(model);
  }

  snapshots() {
    const {snapshots} = this.spec, slider = this.find(".snapshot input"), label = () => { this.find(".snapshot output").textContent = snapshots[slider.value].label; };
    this.find(".snapshot").hidden = snapshots.length < 2;
    slider.max = snapshots.length - 1;
    slider.value = state.snapshots[this.number];
    label();
    slider.addEventListener("input", () => {
      state.snapshots[this.number] = Number(slider.value);
      this.load(Number(slider.value));
      label();
      update();
    });
  }

  compute() {
    const {ids, plain, count, bound, problem, offer} = tokenise(this.spec, state.text, state.features);
    Object.assign(this, {problem, offer, empty: !ids && !problem});
    if (!ids) return;
    Object.assign(this, {ids, count, right: rightAnswer(this.plain.model, state.text, plain)});
    this.before = this.plain.decode(ids, untouched, bound);
    this.now = isChanged() ? this.changed.decode(ids, state, bound) : this.before;
    const pads = new Array(this.now.width - ids.length).fill(this.spec.pad);
    this.sources = [...ids, ...pads].map(id => shownSymbol(this.spec.source.tokens[id]));
    const scores = this.attends ? [this.now, this.before].flatMap(({steps}) => steps.map(step => step.scores.data)) : [];
    this.scale = scores.reduce(([least, most], row) => [Math.min(least, ...row), Math.max(most, ...row)], [0, 0]);  // the same at every step
  }

  // Whether a person has set the weight of this cell of this model.
  isForced(t, j) { return !this.spec.force_reason && state.force.has(`${t},${j}`); }

  // The session that shows what is on the screen.
  session() { return this.now === this.before ? this.plain : this.changed; }

  draw(look) {
    if (this.problem !== undefined || this.empty || !this.now) {
      this.root.classList.add("stale");
      if (this.shown) put(this.find(".answer h3"), "textContent", `answer to ${Array.from(this.shown, shownSymbol).join("")}`);
      return;
    }
    this.shown = state.text;
    this.root.classList.remove("stale");
    const changed = this.now !== this.before;
    const beside = data.models.length > 1 ? 0.18 : 0.42, narrowest = this.sources.length * (state.numbers ? 38 : 14) + 60;
    this.root.classList.toggle("long", this.sources.length > LONG || narrowest > inside.width * beside);
    this.differences = new Set(this.now.steps.keys());
    for (const t of this.now.steps.keys()) if (this.before.steps[t] && this.before.steps[t].written === this.now.steps[t].written) this.differences.delete(t);
    this.tiles(this.find(".answer .tiles"), this.now, true);
    const heading = this.find(".answer h3"), said = `${changed ? "with your changes" : "answer"}${this.verdict(this.now)}`;
    put(heading, "textContent", said);
    put(heading, "title", said);
    this.find(".answer.untouched").hidden = !changed;
    if (changed) this.tiles(this.find(".answer.untouched .tiles"), this.before, false);
    if (this.attends) this.maps(look, changed);
    this.panel.draw(look);
  }

  // What is right, as far as the task knows it.
  verdict({steps, finished}) {
    const [shortest, longest] = this.spec.trained, other = views.find(view => view !== this && view.now), notes = [], last = [];
    if (this.right) {
      const wrong = !finished || steps.length !== this.right.length + 1 || this.right.some((id, t) => steps[t].written !== id);
      notes.push(wrong ? "✗ wrong" : "✓ right");
      if (wrong) last.push(`right is ${this.right.map(this.symbol).join("")}`);
    }
    if (this.count < shortest || this.count > longest) notes.push(`${this.count > longest ? "longer" : "shorter"} than trained (${shortest}-${longest})`);
    if (other && !other.problem) {
      const written = view => view.now.steps.map(step => step.written), longer = [written(this), written(other)].sort((a, b) => b.length - a.length), from = longer[0].findIndex((id, t) => id !== longer[1][t]);
      notes.push(from < 0 ? `the same as ${other.spec.name}` : `differs from ${other.spec.name} from step ${from + 1} on`);
    }
    return [...notes, ...last].map(note => ` · ${note}`).join("");
  }

  isWrong(step, t) { return this.right && step.written !== (t < this.right.length ? this.right[t] : this.spec.eos); }

  // The width of an element. Reading it, or that of the window, makes the browser lay out the page: it is kept until something
  // may change it.
  room(name) {
    const key = `${name} ${this.root.className}`;
    if (!this.rooms.has(key)) this.rooms.set(key, this.find(name).clientWidth);
    return this.rooms.get(key);
  }

  tiles(place, result, live) {
    const focused = live && place.contains(document.activeElement) ? [...place.children].indexOf(document.activeElement) : -1;
    const parts = result.steps.map((step, t) => make("button", {
      type: "button", textContent: this.symbol(step.written), disabled: !live, title: live ? `step ${t + 1}: click, then type another symbol` : "",
      ariaLabel: `step ${t + 1}: ${this.symbol(step.written)}${this.isWrong(step, t) ? `, wrong; right is ${this.symbol(t < this.right.length ? this.right[t] : this.spec.eos)}` : ""}`,
      className: [live && t === state.step ? "chosen" : "", live && this.differences.has(t) && this.now !== this.before ? "differs" : "",
        live && state.write.has(t) ? "written" : "", step.written < 3 ? "special" : "", this.isWrong(step, t) ? "wrong" : ""].join(" "),
      onclick: () => choose(t, state.position), onkeydown: event => this.tileKey(event, t),
    }));
    if (!result.finished) parts.push(make("span", {className: "open", textContent: "… no end"}));
    place.replaceChildren(...parts);
    if (focused >= 0 && place.children[focused]) place.children[focused].focus();
  }

  tileKey(event, t) {
    if (event.key === "ArrowRight" || event.key === "ArrowLeft") {
      const to = event.target.parentNode.children[t + (event.key === "ArrowRight" ? 1 : -1)];
      if (to && to.tagName === "BUTTON") { to.focus(); choose(t + (event.key === "ArrowRight" ? 1 : -1), state.position); }
      event.preventDefault();
    } else if (event.key === "Backspace" || event.key === "Delete") {
      state.write.delete(t);
      update();
      event.preventDefault();
    } else if (Array.from(event.key).length === 1 && !event.ctrlKey && !event.metaKey && !event.altKey) {
      const id = this.spec.target.tokens.indexOf(event.key);
      if (id >= 0) hold("write", t, id);
      else if (event.key === " ") return;
      else toast(`The model does not write ${shownSymbol(event.key)}.`);
      event.preventDefault();
    }
  }

  maps(look, changed) {
    const [figure, beside] = this.root.querySelectorAll("figure");
    beside.hidden = !changed;
    figure.querySelector("figcaption span").textContent = changed ? "with your changes" : "attention: a row per step";
    const rows = result => result.steps.map(step => this.symbol(step.written));
    const room = this.room(".maps"), count = this.right ? this.right.length + 1 : 0, tall = this.spec.training ? this.sources.length + 2 : this.now.steps.length;
    const most = Math.max(24, Math.min(48, (inside.height - 430) / tall));  // the cells of both maps, changed or not
    const layoutOf = (columns, symbols) => mapLayout(columns, symbols, room, state.numbers, most);
    const weights = result => result.steps.map(step => step.weights.data);
    this.map = {
      columns: this.sources, rows: rows(this.now), weights: weights(this.now), chosen: [state.step, this.position()], held: new Set(this.spec.force_reason ? [] : state.force.keys()),
      banned: (t, j) => !this.isForced(t, j) && (state.ban.has(`${j}`) || state.ban.has(`${t},${j}`)), masked: j => j >= this.ids.length && masksPadding(), different: changed ? this.differences : new Set(),
    };
    this.layout = layoutOf(this.map.columns, this.map.rows);
    this.canvas.parentNode.style.minHeight = `${this.layout.top + count * this.layout.cell + 3}px`;
    this.find(".maps").classList.toggle("pair", changed && 2 * this.layout.width + 28 <= room);
    paintMap(new CanvasPen(this.canvas, this.layout.width, this.layout.height), this.map, this.layout, look, state.numbers);
    if (changed) {
      const map = {...this.map, columns: this.sources.slice(0, this.before.width), rows: rows(this.before), weights: weights(this.before), held: new Set(), banned: () => false, chosen: null, different: new Set()};
      const layout = {...layoutOf(map.columns, map.rows), cell: this.layout.cell, size: this.layout.size};
      Object.assign(layout, {width: layout.left + map.columns.length * layout.cell + 3, height: layout.top + map.rows.length * layout.cell + 3});
      paintMap(new CanvasPen(beside.querySelector("canvas"), layout.width, layout.height), map, layout, look, state.numbers);
    }
    const heaviest = weights(this.now).map((row, t) => `${t + 1} ${this.sources[row.indexOf(Math.max(...row))]}`).join(", ");
    this.canvas.setAttribute("aria-label", `attention map: arrow keys choose step and position. Each step attends most to: ${heaviest}`);
    this.cellTools();
  }

  // The chosen source position; while none is chosen, that of the largest weight.
  position() {
    if (state.position !== null) return Math.min(state.position, this.sources.length - 1);
    const row = this.attends ? Array.from(this.now.steps[Math.min(state.step, this.now.steps.length - 1)].weights.data) : [];
    return Math.max(0, row.indexOf(Math.max(...row)));
  }

  // What can be done with the chosen cell.
  cellTools() {
    const t = state.step, j = this.position(), row = this.map.weights[t], place = this.find(".cell"), cell = `${t},${j}`, {force_reason: reason} = this.spec;
    if (!row || j >= this.sources.length) { place.replaceChildren(); return; }
    const button = (text, act, pressed, why = "") => make("button", {type: "button", textContent: text, onclick: () => { state.position = j; act(); }, className: pressed ? "changed" : "", ariaPressed: String(Boolean(pressed)), disabled: Boolean(why), title: why});
    place.replaceChildren(
      make("span", {}, `step ${t + 1} attends to ${j + 1}: `, make("b", {textContent: this.sources[j]}), " with ", make("b", {textContent: row[j].toFixed(3)})),
      button("all attention here", () => hold("force", cell, 1), this.isForced(t, j) && state.force.get(cell) === 1, reason),
      button("ban here", () => ban(cell), state.ban.has(cell)),
      button("ban at every step", () => ban(`${j}`), state.ban.has(`${j}`)),
      make("button", {type: "button", textContent: "release", disabled: !this.isForced(t, j), onclick: () => release(t, j)}),
    );
  }
}

const masksPadding = () => state.mask === null ? data.models.every(model => model.mask_padding) : state.mask;

const describe = ({about}) => Object.entries(about).map(([name, value]) => `${name} ${value}`).join(" · ");

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
    ...(state.temperature === 1 ? [] : [[`temperature ${short(state.temperature)}`, () => { state.temperature = 1; }]]),
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
  by("about").textContent = data.models.length === 1 ? describe(first) : "";
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
