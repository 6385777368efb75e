"use strict";
// The page: what a person types and changes, and what the models make of it.

const data = JSON.parse(document.getElementById("data").textContent);
const by = id => document.getElementById(id);
const UNKNOWN = 3, SHOWN_NEXT = 5, MOST_PADDING = 8, LONG = 22;  // LONG: source positions from which on a map takes the whole width

const state = {
  text: "", features: "", step: 0, position: null, numbers: false, temperature: 1, padding: 0, mask: null,
  force: new Map(), ban: new Set(), write: new Map(), snapshots: data.models.map(model => model.snapshots.length - 1),
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

// ---- text ----

// The ids of a text, or what is wrong with it.
function tokenise(spec, text, features) {
  const {source} = spec, normal = part => source.normalise === "none" ? part : part.normalize(source.normalise.toUpperCase());
  if (!text) return {problem: "Type a string."};
  const symbols = source.separator ? normal(text).split(source.separator).filter(part => part) : Array.from(normal(text));
  const special = source.tokens.length - source.symbols.length - (source.features || []).length;
  const ids = symbols.map(symbol => source.symbols.indexOf(symbol)).map(at => at < 0 ? -1 : at + special);
  const wanted = source.features && features ? normal(features).split(";") : [];
  ids.push(...wanted.map(name => source.features.indexOf(name)).map(at => at < 0 ? -1 : at + special + source.symbols.length));
  const strange = [...symbols, ...wanted].filter((_, k) => ids[k] < 0);
  if (strange.length && !source.unknown) {
    return {problem: `The model does not know ${[...new Set(strange)].slice(0, 5).map(shownSymbol).join(" ")}. Its symbols: ${abridged(source.symbols)}`};
  }
  if (source.features && !wanted.length) return {problem: "Give the features, too."};
  if (ids.length > spec.most_steps.length) return {problem: `At most ${spec.most_steps.length} symbols.`};
  const count = ids.length;
  return {ids: [...ids.map(id => id < 0 ? UNKNOWN : id), ...(spec.source_eos ? [spec.eos] : [])], bound: spec.most_steps[count - 1]};
}

function abridged(symbols) {
  const shown = symbols.slice(0, 40).map(shownSymbol).join(" ");
  return symbols.length > 40 ? `${shown} …` : shown;
}

// ---- models ----

class View {
  constructor(spec, number) {
    this.spec = spec;
    this.number = number;
    this.root = by("model").content.firstElementChild.cloneNode(true);
    this.find = name => this.root.querySelector(name);
    this.attends = spec.attends;
    this.load(state.snapshots[number]);
    this.find("h2").textContent = spec.name;
    this.find("h2").hidden = data.models.length === 1;
    this.find(".about").textContent = describe(spec);
    this.find(".about").hidden = data.models.length === 1;
    this.snapshots();
    this.find(".previous").addEventListener("click", () => choose(state.step - 1, state.position));
    this.find(".next").addEventListener("click", () => choose(state.step + 1, state.position));
    this.canvas = this.find("canvas");
    this.canvas.addEventListener("click", event => {
      const {left, top, cell} = this.layout, bounds = this.canvas.getBoundingClientRect();
      active = this;
      choose(Math.floor((event.clientY - bounds.top - top) / cell), Math.floor((event.clientX - bounds.left - left) / cell));
      this.canvas.focus();
    });
    this.root.addEventListener("focusin", () => { active = this; });
    this.find(".maps").hidden = this.find(".attending").hidden = !this.attends;
    this.columns = [];
    this.rooms = new Map();
  }

  load(snapshot) {
    const model = new Model(this.spec, snapshot);
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
    const {ids, bound, problem} = tokenise(this.spec, state.text, state.features);
    this.problem = problem;
    if (!ids) return;
    this.ids = ids;
    this.before = this.plain.decode(ids, untouched, bound);
    this.now = isChanged() ? this.changed.decode(ids, state, bound) : this.before;
    const pads = new Array(this.now.width - ids.length).fill(this.spec.pad);
    this.sources = [...ids, ...pads].map(id => shownSymbol(this.spec.source.tokens[id]));
    this.symbol = id => shownSymbol(this.spec.target.tokens[id]);
  }

  draw(look) {
    if (this.problem !== undefined || !this.now) { this.root.classList.add("stale"); return; }
    this.root.classList.remove("stale");
    const changed = this.now !== this.before;
    this.root.classList.toggle("long", this.sources.length > LONG);
    this.differences = new Set(this.now.steps.keys());
    for (const t of this.now.steps.keys()) if (this.before.steps[t] && this.before.steps[t].written === this.now.steps[t].written) this.differences.delete(t);
    this.tiles(this.find(".answer .tiles"), this.now, true);
    this.find(".answer h3").textContent = changed ? "answer, with your changes" : "answer";
    this.find(".answer.untouched").hidden = !changed;
    if (changed) this.tiles(this.find(".answer.untouched .tiles"), this.before, false);
    if (this.attends) this.maps(look, changed);
    this.panel(look);
  }

  // The width of an element. Reading it, or that of the window, makes the browser lay out the page: it is kept until something
  // may change it.
  room(name) {
    const key = `${name} ${this.root.className} ${this.find(".vectors").children.length}`;
    if (!this.rooms.has(key)) this.rooms.set(key, this.find(name).clientWidth);
    return this.rooms.get(key);
  }

  tiles(place, result, live) {
    const focused = live && place.contains(document.activeElement) ? [...place.children].indexOf(document.activeElement) : -1;
    const parts = result.steps.map((step, t) => make("button", {
      type: "button", textContent: this.symbol(step.written), disabled: !live, title: live ? `step ${t + 1}: click, then type another symbol` : "",
      className: [live && t === state.step ? "chosen" : "", live && this.differences.has(t) && this.now !== this.before ? "differs" : "",
        live && state.write.has(t) ? "written" : "", step.written < 3 ? "special" : ""].join(" "),
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
    figure.querySelector("figcaption span").textContent = changed ? "attention, with your changes" : "attention: a row per step, a column per source position";
    const rows = result => result.steps.map(step => this.symbol(step.written));
    const places = this.room(".maps"), half = (places - 28) / 2;
    const wide = changed && places > 560 && this.sources.length <= LONG && mapLayout(this.sources, rows(this.now), half, state.numbers).width <= half;
    this.find(".maps").classList.toggle("pair", wide);
    const room = wide ? half : places;
    const weights = result => result.steps.map(step => step.weights.data);
    this.map = {
      columns: this.sources, rows: rows(this.now), weights: weights(this.now), chosen: [state.step, this.position()], held: new Set(state.force.keys()),
      banned: (t, j) => state.ban.has(`${j}`) || state.ban.has(`${t},${j}`), different: changed ? this.differences : new Set(),
    };
    this.layout = mapLayout(this.map.columns, this.map.rows, room, state.numbers);
    paintMap(new CanvasPen(this.canvas, this.layout.width, this.layout.height), this.map, this.layout, look, state.numbers);
    if (changed) {
      const map = {...this.map, columns: this.sources.slice(0, this.before.width), rows: rows(this.before), weights: weights(this.before), held: new Set(), banned: () => false, chosen: null, different: new Set()};
      const layout = mapLayout(map.columns, map.rows, room, state.numbers);
      paintMap(new CanvasPen(beside.querySelector("canvas"), layout.width, layout.height), map, layout, look, state.numbers);
    }
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
    const t = state.step, j = this.position(), row = this.map.weights[t], place = this.find(".cell"), cell = `${t},${j}`;
    if (!row || j >= this.sources.length) { place.replaceChildren(); return; }
    const button = (text, act, pressed) => make("button", {type: "button", textContent: text, onclick: act, className: pressed ? "changed" : "", ariaPressed: String(Boolean(pressed))});
    place.replaceChildren(
      make("span", {}, `step ${t + 1} attends to ${j + 1}: `, make("b", {textContent: this.sources[j]}), " with ", make("b", {textContent: row[j].toFixed(3)})),
      button("all attention here", () => hold("force", cell, 1), state.force.get(cell) === 1),
      button("ban here", () => ban(cell), state.ban.has(cell)),
      button("ban at every step", () => ban(`${j}`), state.ban.has(`${j}`)),
      ...(state.force.has(cell) ? [button("let go", () => letGo(t, j))] : []),
    );
  }

  panel(look) {
    const t = Math.min(state.step, this.now.steps.length - 1), step = this.now.steps[t];
    const read = t ? this.symbol(this.now.steps[t - 1].written) : shownSymbol(this.spec.target.tokens[this.spec.sos]);
    this.find(".heading h3").replaceChildren(`step ${t + 1} of ${this.now.steps.length}: reads `, make("b", {textContent: read}), ", writes ", make("b", {textContent: this.symbol(step.written)}));
    this.find(".previous").disabled = t === 0;
    this.find(".next").disabled = t === this.now.steps.length - 1;
    if (this.attends) this.bars(step, t);
    this.vectors(step, look);
    this.likeliest(step, this.before.steps[t], t);
  }

  bars(step, t) {
    const grid = this.find(".bars"), width = this.sources.length;
    if (this.columns.length !== width) this.buildBars(grid, width);
    const at = this.position(), heads = step.scores.data.length / width, lowest = Math.min(0, ...step.scores.data), highest = Math.max(0, ...step.scores.data);
    const range = highest - lowest || 1;
    this.columns.forEach((column, j) => {
      put(column.symbol, "textContent", this.sources[j]);
      put(column.symbol, "className", `symbol ${j === at ? "chosen" : ""} ${this.map.banned(t, j) ? "banned" : ""}`);
      for (const [name, values] of [["score", step.scores.data], ["softmax", step.softmax.data]]) {
        const bar = column[name];
        while (bar.children.length < heads) bar.append(make("i"));
        while (bar.children.length > heads) bar.lastChild.remove();
        [...bar.children].forEach((line, head) => {
          const value = values[head * width + j];
          if (name === "score") {
            put(line, "className", value < 0 ? "negative" : "");
            fillBar(line, (Math.min(0, value) - lowest) / range, Math.max(0.01, Math.abs(value) / range));
          } else fillBar(line, 0, value);
        });
        const mean = values.reduce((total, value, k) => k % width === j ? total + value : total, 0) / heads;
        put(column[`${name}Number`], "textContent", state.numbers ? short(mean) : "");
      }
      const weight = step.weights.data[j], held = state.force.has(`${t},${j}`);
      fillBar(column.weight.firstChild, 0, weight);
      column.weight.classList.toggle("held", held);
      column.weight.setAttribute("aria-valuenow", weight.toFixed(3));
      column.weight.setAttribute("aria-label", `weight of ${this.sources[j]}, position ${j + 1}`);
      put(column.weightNumber, "textContent", state.numbers || held ? short(weight) : "");
    });
  }

  buildBars(grid, width) {
    grid.replaceChildren(...["", "score", "softmax", "weight"].map(text => make("span", {className: "label", textContent: text})));
    grid.style.gridTemplateColumns = `max-content repeat(${width}, minmax(${state.numbers ? 34 : 18}px, 1fr))`;
    this.columns = Array.from({length: width}, (_, j) => {
      const column = {symbol: make("button", {type: "button", onclick: () => choose(state.step, j)})};
      grid.append(column.symbol);
      for (const name of ["score", "softmax", "weight"]) {
        column[name] = make("div", {className: `bar ${name}`}, make("i"));
        column[`${name}Number`] = make("span", {className: "number"});
        grid.append(make("div", {}, column[name], column[`${name}Number`]));
      }
      const slider = column.weight;
      for (const [key, value] of Object.entries({role: "slider", tabindex: 0, "aria-valuemin": 0, "aria-valuemax": 1})) slider.setAttribute(key, value);
      slider.title = "drag to set the weight";
      let held = null;  // where the bar was when it was taken hold of: the first change makes room above for the answer without it
      const drag = event => setWeight(state.step, j, (held.bottom - event.clientY) / held.height);
      slider.addEventListener("pointerdown", event => {
        held = slider.getBoundingClientRect();
        slider.setPointerCapture(event.pointerId);
        state.position = j;
        drag(event);
      });
      slider.addEventListener("pointermove", event => { if (slider.hasPointerCapture(event.pointerId)) drag(event); });
      slider.addEventListener("dblclick", () => letGo(state.step, j));
      slider.addEventListener("keydown", event => {
        const change = {ArrowUp: 0.05, ArrowDown: -0.05, PageUp: 0.25, PageDown: -0.25}[event.key];
        if (!change) return;
        state.position = j;
        setWeight(state.step, j, Number(slider.getAttribute("aria-valuenow")) + change);
        event.preventDefault();
      });
      return column;
    });
  }

  vectors(step, look) {
    const place = this.find(".vectors"), parts = [["query", step.query], ["context", step.context]].filter(([, value]) => value && value.data.length);
    if (place.children.length !== parts.length) place.replaceChildren(...parts.map(() => make("div", {}, make("h4", {}, make("b"), make("span")), make("canvas", {role: "img"}))));
    parts.forEach(([name, {data: values}], k) => {
      const [heading, canvas] = place.children[k].children;
      const length = Math.hypot(...values);
      heading.firstChild.textContent = name;
      heading.lastChild.textContent = `${values.length} numbers, length ${length.toFixed(2)}`;
      canvas.setAttribute("aria-label", `${name}: ${values.length} numbers`);
      paintVector(canvas, Array.from(values), look, Math.max(100, this.room(".vectors > div")), state.numbers);
    });
  }

  likeliest(step, before, t) {
    const chances = probabilities(step.logits.data), others = before && this.now !== this.before ? probabilities(before.logits.data) : null;
    const order = [...chances.keys()].sort((a, b) => chances[b] - chances[a]).slice(0, SHOWN_NEXT);
    this.find(".likeliest").replaceChildren(...order.flatMap(id => {
      const bar = make("i"), track = make("div", {className: "track"}, bar);
      bar.style.setProperty("--size", `${100 * chances[id]}%`);
      if (others) {
        const mark = make("u", {title: `without your changes: ${others[id].toFixed(3)}`});
        mark.style.setProperty("--at", `min(calc(100% - 3px), ${100 * others[id]}%)`);
        track.append(mark);
      }
      return [
        make("button", {type: "button", textContent: this.symbol(id), title: "write this symbol", className: state.write.get(t) === id ? "changed" : "", onclick: () => hold("write", t, id)}),
        track,
        make("span", {textContent: chances[id].toFixed(3)}),
      ];
    }));
  }
}

const short = value => Math.abs(value) >= 100 ? value.toFixed(0) : Math.abs(value) >= 10 ? value.toFixed(1) : value.toFixed(2).replace(/^(-?)0\./, "$1.");

function probabilities(logits) {
  const most = Math.max(...logits), powers = Array.from(logits, logit => Math.exp(logit - most)), total = powers.reduce((a, b) => a + b);
  return powers.map(power => power / total);
}

function describe(spec) {
  return Object.entries(spec.about).map(([name, value]) => name ? `${name} ${value}` : value).join(" · ");
}

// ---- changes ----

function choose(t, j) {
  const steps = Math.max(1, ...views.map(view => view.now ? view.now.steps.length : 1)), width = Math.max(1, ...views.map(view => view.sources ? view.sources.length : 1));
  state.step = Math.max(0, Math.min(steps - 1, t));
  state.position = j === null ? null : Math.max(0, Math.min(width - 1, j));
  draw();
}

function hold(kind, key, value) {
  state[kind].set(key, value);
  if (kind === "force") state.ban.delete(key);
  update();
}

function setWeight(t, j, weight) {
  hold("force", `${t},${j}`, possible(t, j, weight));
}

// The weight of a cell, within what the other weights that are set in its row leave.
function possible(t, j, weight) {
  let left = 1;
  for (const [cell, other] of state.force) if (cell.startsWith(`${t},`) && cell !== `${t},${j}`) left -= other;
  return Math.round(1000 * Math.max(0, Math.min(left, weight))) / 1000;
}

function ban(place) {
  if (!state.ban.delete(place)) {
    state.ban.add(place);
    state.force.delete(place);
  }
  update();
}

// Undo what was changed in a cell; if nothing was, what was written at its step.
function letGo(t, j) {
  const forced = state.force.delete(`${t},${j}`), banned = state.ban.delete(`${t},${j}`);
  if (!forced && !banned) state.write.delete(t);
  update();
}

function undoAll() {
  Object.assign(state, {position: null, temperature: 1, padding: 0, mask: null, force: new Map(), ban: new Set(), write: new Map()});
  update();
}

function mapKey(event) {
  const t = state.step, j = active.position(), moves = {ArrowUp: [t - 1, j], ArrowDown: [t + 1, j], ArrowLeft: [t, j - 1], ArrowRight: [t, j + 1]};
  if (moves[event.key]) choose(moves[event.key][0], moves[event.key][1] === j ? state.position : moves[event.key][1]);
  else if (event.key === "Enter") setWeight(t, j, 1);
  else if (/^[0-9]$/.test(event.key)) setWeight(t, j, Number(event.key) / 10);
  else if (event.key === "b") ban(`${t},${j}`);
  else if (event.key === "B") ban(`${j}`);
  else if (event.key === "Delete" || event.key === "Backspace") letGo(t, j);
  else return;
  event.preventDefault();
}

// ---- the whole page ----

function update() {
  for (const view of views) view.compute();
  draw();
}

let look = colours();

function draw() {
  const problem = views.map(view => view.problem).find(text => text !== undefined);
  by("message").textContent = problem || "";
  by("text").setAttribute("aria-invalid", String(Boolean(problem)));
  by("models").hidden = views.every(view => !view.now);
  const steps = Math.max(1, ...views.map(view => view.now ? view.now.steps.length : 1));
  state.step = Math.min(state.step, steps - 1);
  by("temperature").value = Math.log10(state.temperature);
  by("temperature-value").textContent = short(state.temperature);
  by("padding").value = state.padding;
  by("mask").checked = state.mask === null ? data.models.every(model => model.mask_padding) : state.mask;
  by("reset").hidden = !isChanged();
  by("numbers").setAttribute("aria-pressed", String(state.numbers));
  chips();
  for (const view of views) view.draw(look);
  remember();
}

function chips() {
  const cell = key => { const [t, j] = key.split(","); return j === undefined ? `position ${Number(t) + 1}` : `step ${Number(t) + 1}, position ${Number(j) + 1}`; };
  const parts = [
    ...Array.from(state.force, ([key, weight]) => [`${cell(key)}: ${short(weight)}`, () => state.force.delete(key)]),
    ...Array.from(state.ban, key => [`${cell(key)}: banned`, () => state.ban.delete(key)]),
    ...Array.from(state.write, ([t, id]) => [`step ${t + 1} writes ${views[0].symbol(id)}`, () => state.write.delete(t)]),
  ];
  by("hint").hidden = isChanged();
  by("changes").replaceChildren(...parts.map(([text, undo]) => make("button", {type: "button", textContent: `${text} ✕`, title: "undo", onclick: () => { undo(); update(); }})));
}

// ---- the address: everything that is shown, after the # ----

function fragment() {
  const fields = new URLSearchParams({text: state.text, step: state.step + 1});
  if (state.position !== null) fields.set("position", state.position + 1);
  if (state.features) fields.set("features", state.features);
  if (state.temperature !== 1) fields.set("temperature", state.temperature);
  if (state.padding) fields.set("padding", state.padding);
  if (state.mask !== null) fields.set("mask", Number(state.mask));
  if (state.numbers) fields.set("numbers", 1);
  if (state.force.size) fields.set("set", Array.from(state.force, ([cell, weight]) => `${cell},${weight}`).join(";"));
  if (state.ban.size) fields.set("ban", [...state.ban].join(";"));
  if (state.write.size) fields.set("write", Array.from(state.write, pair => pair.join()).join(";"));
  if (state.snapshots.some((at, k) => at !== data.models[k].snapshots.length - 1)) fields.set("snapshots", state.snapshots.join());
  return fields.toString();
}

function restore(text) {
  const fields = new URLSearchParams(text), whole = /^\d{1,4}$/;
  const rows = name => (fields.get(name) || "").split(";").filter(row => row).map(row => row.split(","));
  const number = (name, least, most, otherwise) => {
    const value = Number(fields.get(name));
    return fields.has(name) && value >= least && value <= most ? value : otherwise;
  };
  state.text = fields.has("text") ? fields.get("text").slice(0, 10000) : state.text;
  state.features = fields.get("features") || state.features;
  state.step = Math.floor(number("step", 1, 10000, 1)) - 1;
  state.position = fields.has("position") ? Math.floor(number("position", 1, 10000, 1)) - 1 : null;
  state.temperature = number("temperature", 0.001, 1000, 1);
  state.padding = Math.floor(number("padding", 0, MOST_PADDING, 0));
  state.mask = fields.has("mask") ? fields.get("mask") === "1" : null;
  state.numbers = fields.get("numbers") === "1";
  state.force = new Map();
  for (const [t, j, weight] of rows("set")) {
    if (whole.test(t) && whole.test(j) && Number(weight) >= 0 && Number(weight) <= 1) state.force.set(`${Number(t)},${Number(j)}`, possible(Number(t), Number(j), Number(weight)));
  }
  state.ban = new Set(rows("ban").filter(row => row.length <= 2 && row.every(part => whole.test(part))).map(row => row.map(Number).join()));
  const symbols = Math.min(...data.models.map(model => model.target.tokens.length));
  state.write = new Map(rows("write").filter(([t, id]) => whole.test(t) && whole.test(id) && Number(id) < symbols).map(([t, id]) => [Number(t), Number(id)]));
  const shots = (fields.get("snapshots") || "").split(",").map(Number);
  state.snapshots = data.models.map(({snapshots}, k) => Number.isInteger(shots[k]) && fields.has("snapshots") && shots[k] >= 0 && shots[k] < snapshots.length ? shots[k] : snapshots.length - 1);
}

let waiting = 0;

function remember() {
  clearTimeout(waiting);
  waiting = setTimeout(() => { try { history.replaceState(null, "", `#${fragment()}`); } catch { /* a browser may refuse it for files */ } }, 200);
}

function toast(text) {
  by("toast").textContent = text;
  by("toast").hidden = false;
  clearTimeout(toast.timer);
  toast.timer = setTimeout(() => { by("toast").hidden = true; }, 4000);
}

async function share() {
  const address = `${location.href.split("#")[0]}#${fragment()}`;
  try {
    await navigator.clipboard.writeText(address);
    toast("The link is in the clipboard. It opens this page with your string and your changes, for those who have the file.");
  } catch {
    toast(address);
  }
}

function save() {
  const view = active.map ? active : views.find(one => one.map);
  if (!view) return;
  const numbers = state.numbers, layout = mapLayout(view.map.columns, view.map.rows, 46 * view.map.columns.length, numbers);
  const pen = new SvgPen(layout.width + 16, layout.height + 16), paper = {text: "#171c21", held: "#c2410c"};
  pen.fill(0, 0, layout.width + 16, layout.height + 16, "#ffffff");
  paintMap(pen, {...view.map, chosen: null}, {...layout, left: layout.left + 8, top: layout.top + 8}, paper, numbers);
  const blob = new Blob([new XMLSerializer().serializeToString(pen.root)], {type: "image/svg+xml"});
  const link = make("a", {href: URL.createObjectURL(blob), download: "attention.svg"});
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
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
  by("save").hidden = !data.models.some(model => model.attends);
  by("examples").append(...examples.map(text => make("button", {type: "button", textContent: Array.from(text, shownSymbol).join("").replace("␉", " "), onclick: () => type(...text.split("\t"))})));
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
}

function type(text, features = "") {
  by("text").value = text;
  by("features").value = features;
  Object.assign(state, {text, features, step: 0, position: null});
  update();
}

function listen() {
  by("text").addEventListener("input", () => { state.text = by("text").value; update(); });
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
  by("reset").addEventListener("click", undoAll);
  for (const view of views) view.find("figcaption i").style.background = `linear-gradient(90deg, ${CIVIDIS.map(parts => `rgb(${parts.join()})`).join()})`;
  by("share").addEventListener("click", share);
  by("save").addEventListener("click", save);
  by("numbers").addEventListener("click", toggleNumbers);
  document.addEventListener("keydown", event => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (event.key === "Escape") undoAll();
    else if (event.target.closest("select, input:not([type=checkbox])")) return;
    else if (event.key === "n") toggleNumbers();
    else if (event.key !== "Enter" || !event.target.closest("button, summary")) mapKey(event);
  });
  window.addEventListener("resize", () => {
    for (const view of views) view.rooms.clear();
    draw();
  });
  window.addEventListener("hashchange", () => {
    restore(location.hash.slice(1));
    by("text").value = state.text;
    for (const view of views) view.load(state.snapshots[view.number]);
    update();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { look = colours(); draw(); });
}

function toggleNumbers() {
  state.numbers = !state.numbers;
  for (const view of views) view.columns = [];
  draw();
}

start();
