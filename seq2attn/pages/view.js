"use strict";
// One model on the page: its answer, its maps, and what can be done with a cell of them.

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
    this.find(".about").replaceChildren(...describe(spec));
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
    const {ids, plain, count, bound, problem, offer, copyable} = tokenise(this.spec, state.text, state.features);
    Object.assign(this, {problem, offer, empty: !ids && !problem});
    if (!ids) return;
    Object.assign(this, {ids, count, copyable, right: rightAnswer(this.plain.model, state.text, plain)});
    this.before = this.plain.decode(ids, untouched, bound);
    this.now = isChanged() ? this.changed.decode(ids, state, bound) : this.before;
    const pads = new Array(this.now.width - ids.length).fill(this.spec.pad);
    this.sources = [...ids, ...pads].map(id => shownSymbol(this.spec.source.tokens[id]));
    const scores = this.attends ? [this.now, this.before].flatMap(({steps}) => steps.map(step => step.scores.data)) : [];
    this.scale = scores.reduce(([least, most], row) => [Math.min(least, ...row), Math.max(most, ...row)], [0, 0]);  // the same at every step
  }

  // The symbol that a step writes. Where a model copies, `<unk>` is the symbol with the largest weight of those that it can only copy.
  wrote(step) {
    if (!this.spec.copies || step.written !== UNKNOWN || !this.copyable.size) return this.symbol(step.written);
    const weight = j => step.weights.data[j], positions = [...this.copyable.keys()];
    return shownSymbol(this.copyable.get(positions.reduce((best, j) => weight(j) > weight(best) ? j : best)));
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
    this.differences = this.compare();
    this.tiles(this.find(".answer .tiles"), this.now, true);
    const heading = this.find(".answer h3"), said = `${changed ? "with your changes" : "answer"}${this.verdict(this.now)}`;
    put(heading, "textContent", said);
    put(heading, "title", said);
    this.find(".answer.untouched").hidden = !changed;
    if (changed) this.tiles(this.find(".answer.untouched .tiles"), this.before, false);
    if (this.attends) this.maps(look, changed);
    this.panel.draw(look);
  }

  // How the steps differ from those without a person's changes: Map t -> "✓" of a symbol that became right, "✗" of one that
  // became wrong, "≠" of others.
  compare() {
    const signs = new Map();
    for (const [t, step] of this.now.steps.entries()) {
      const before = this.before.steps[t];
      if (before && before.written === step.written) continue;
      const [was, is] = [Boolean(before) && !this.isWrong(before, t), !this.isWrong(step, t)];
      signs.set(t, !this.right || was === is ? "≠" : is ? "✓" : "✗");
    }
    return signs;
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
    const sign = t => live && this.differences.get(t), became = {"✓": ", became right", "✗": ", became wrong", "≠": ", changed"};
    const parts = result.steps.map((step, t) => make("button", {
      type: "button", textContent: this.wrote(step), disabled: !live, title: live ? `step ${t + 1}: click, then type another symbol` : "",
      ariaLabel: `step ${t + 1}: ${this.wrote(step)}${became[sign(t)] || ""}${this.isWrong(step, t) ? `, wrong; right is ${this.symbol(t < this.right.length ? this.right[t] : this.spec.eos)}` : ""}`,
      className: [live && t === state.step ? "chosen" : "", sign(t) ? "differs" : "", {"✓": "mended", "✗": "broken"}[sign(t)] || "",
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
    figure.querySelector("figcaption span").textContent = `${changed ? "with your changes" : "attention: a row per step"}${this.spec.parts.window?.radius ? "; ▨ outside the window, ┃ its centre" : ""}`;
    const rows = result => result.steps.map(step => this.wrote(step));
    const room = this.room(".maps"), count = this.right ? this.right.length + 1 : 0, tall = this.spec.training ? this.sources.length + 2 : this.now.steps.length;
    const most = Math.max(24, Math.min(48, (inside.height - 430) / tall));  // the cells of both maps, changed or not
    const layoutOf = (columns, symbols) => mapLayout(columns, symbols, room, state.numbers, most);
    const seen = ({steps}) => ({
      weights: steps.map(step => step.weights.data), centres: steps.map(step => Array.from((step.centre || {data: []}).data)),
      outside: (t, j) => !this.map.masked(j) && isOutside(steps[t], j),
    });
    this.map = {
      columns: this.sources, rows: rows(this.now), ...seen(this.now), chosen: [state.step, this.position()], held: new Set(this.spec.force_reason ? [] : state.force.keys()),
      banned: (t, j) => !this.isForced(t, j) && (state.ban.has(`${j}`) || state.ban.has(`${t},${j}`)), masked: j => j >= this.ids.length && masksPadding(), different: this.differences, shown: isUncovered,
    };
    this.layout = layoutOf(this.map.columns, this.map.rows);
    this.canvas.parentNode.style.minHeight = `${this.layout.top + count * this.layout.cell + 3}px`;
    this.find(".maps").classList.toggle("pair", changed && 2 * this.layout.width + 28 <= room);
    paintMap(new CanvasPen(this.canvas, this.layout.width, this.layout.height), this.map, this.layout, look, state.numbers);
    if (changed) {
      const map = {...this.map, columns: this.sources.slice(0, this.before.width), rows: rows(this.before), ...seen(this.before), held: new Set(), banned: () => false, chosen: null, different: new Map()};
      const layout = {...layoutOf(map.columns, map.rows), cell: this.layout.cell, size: this.layout.size};
      Object.assign(layout, {width: layout.left + map.columns.length * layout.cell + 3, height: layout.top + map.rows.length * layout.cell + 3});
      paintMap(new CanvasPen(beside.querySelector("canvas"), layout.width, layout.height), map, layout, look, state.numbers);
    }
    const uncovered = [...this.now.steps.keys()].filter(t => isUncovered(t));
    const heaviest = uncovered.map(t => `${t + 1} ${strongest(this, t).symbol}`).join(", ");
    this.canvas.setAttribute("aria-label", `attention map: arrow keys choose step and position. Each step attends most to: ${heaviest}`);
    this.cellTools();
  }

  // The chosen source position; while none is chosen, that of the largest weight.
  position() {
    if (state.position !== null) return Math.min(state.position, this.sources.length - 1);
    const row = this.attends ? Array.from(this.now.steps[Math.min(state.step, this.now.steps.length - 1)].weights.data) : [];
    return Math.max(0, row.indexOf(Math.max(...row)));
  }

  // The centre of a step's window, counted as positions are, and its radius after `sign`; empty without a window.
  windowAt(t, sign) {
    const centres = new Set(this.map.centres[t].map(centre => Number((centre + 1).toFixed(1)))), {radius} = this.spec.parts.window || {};
    return [...centres].join(" ") && `${[...centres].join(" ")}${radius ? sign + radius : ""}`;
  }

  // What can be done with the chosen cell.
  cellTools() {
    const t = state.step, j = this.position(), row = this.map.weights[t], place = this.find(".cell"), cell = `${t},${j}`, {force_reason: reason} = this.spec;
    if (!row || j >= this.sources.length) { place.replaceChildren(); return; }
    const button = (text, act, pressed, why = "") => make("button", {type: "button", textContent: text, onclick: () => { state.position = j; act(); }, className: pressed ? "changed" : "", ariaPressed: String(Boolean(pressed)), disabled: Boolean(why), title: why});
    place.replaceChildren(
      make("span", {}, `step ${t + 1} attends to ${j + 1}: `, make("b", {textContent: this.sources[j]}), " with ", make("b", {textContent: row[j].toFixed(3)}), this.map.outside(t, j) ? ", outside the window" : ""),
      button("all attention here", () => hold("force", cell, 1), this.isForced(t, j) && state.force.get(cell) === 1, reason),
      button("ban here", () => ban(cell), state.ban.has(cell)),
      button("ban at every step", () => ban(`${j}`), state.ban.has(`${j}`)),
      make("button", {type: "button", textContent: "release", disabled: !this.isForced(t, j), onclick: () => release(t, j)}),
    );
  }
}

// Whether a window leaves a position out at a step: of several heads, each of theirs.
const isOutside = ({allowed, weights: {data}}, j) => Boolean(allowed) && data[j] === 0 && allowed.data.every((one, k) => k % data.length !== j || !one);
