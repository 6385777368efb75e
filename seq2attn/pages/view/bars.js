// Scores, softmax and weights of a step as bars, a column per source position; those of the weights are sliders.

const BARS = ["score", "softmax", "weight"];
const KEYED = {
  __proto__: null,
  ArrowUp: 0.05,
  ArrowDown: -0.05,
  PageUp: 0.25,
  PageDown: -0.25
};

class Bars {
  constructor(view) {
    this.view = view;
    this.grid = view.find(".bars");
    this.columns = [];
  }

  draw(step, t) {
    const {view} = this;
    const width = view.sources.length;
    if (this.columns.length !== width) this.build(width);
    const around = view.windowAt(t, " ± ");
    say(this.around, around && `┃ ${around}`);
    this.axis.forEach((mark, k) => say(mark, short(view.scale[1 - k])));
    for (const j of this.columns.keys()) this.column(step, t, j);
    for (const name of BARS)
      this.name(
        name,
        name === "score" ? step.scores : (step[name] ?? step.weights)
      );
    this.scroll(this.columns[view.position()].symbol);
  }

  // What a row of bars says to a screen reader: of several heads, their means.
  name(name, {data: numbers}) {
    const told = this.view.sources.map(
      (symbol, j) =>
        `${symbol} ${short(meanAt(numbers, j, this.columns.length))}`
    );
    this.labels[name].setAttribute("aria-label", `${name}: ${told.join(", ")}`);
  }

  column(step, t, j) {
    const {view, columns} = this;
    const column = columns[j];
    const isOutside = view.map.outside(t, j);
    this.symbol(column.symbol, t, j, isOutside);
    this.heads(column.score, step.scores.data, j, (line, value) =>
      this.score(line, value)
    );
    this.heads(column.softmax, step.softmax.data, j, (line, value) =>
      fillBar(line, 0, value)
    );
    this.weight(column, step.weights.data[j], t, j);
    for (const [name, {data: numbers}] of [
      ["score", step.scores],
      ["softmax", step.softmax]
    ]) {
      const mean = meanAt(numbers, j, columns.length);
      say(column[`${name}Number`], state.numbers ? short(mean) : "");
    }
    const reason = view.spec.force_reason || "drag to set the weight";
    for (const name of BARS) {
      column[name].classList.toggle("outside", isOutside);
      put(
        column[name],
        "title",
        isOutside ? "outside the window" : name === "weight" ? reason : ""
      );
    }
  }

  symbol(element, t, j, isOutside) {
    const {view} = this;
    const isBanned = view.map.banned(t, j);
    const isCentre = view.map.centres[t].map(Math.round).includes(j);
    const classes = [
      ["chosen", j === view.position()],
      ["banned", isBanned],
      ["centre", isCentre]
    ];
    const own = classes.filter(([, is]) => is).map(([name]) => name);
    say(element, view.sources[j]);
    put(element, "className", ["symbol", ...own].join(" "));
    const notes = [
      isBanned && ", banned",
      isOutside && ", outside the window"
    ].filter(Boolean);
    element.setAttribute(
      "aria-label",
      `position ${j + 1}, ${view.sources[j]}${notes.join("")}`
    );
  }

  // A line for each head.
  heads(bar, numbers, j, fill) {
    const width = this.columns.length;
    const count = numbers.length / width;
    while (bar.children.length < count) bar.append(make("i"));
    while (bar.children.length > count) bar.lastChild.remove();
    [...bar.children].forEach((line, head) =>
      fill(line, numbers[head * width + j])
    );
  }

  score(line, value) {
    const [lowest, highest] = this.view.scale;
    const range = highest - lowest || 1;
    put(line, "className", value < 0 ? "negative" : "");
    fillBar(
      line,
      (Math.min(0, value) - lowest) / range,
      Math.max(0.01, Math.abs(value) / range)
    );
  }

  weight({weight: slider, weightNumber: number}, value, t, j) {
    const isHeld = this.view.isForced(t, j);
    fillBar(slider.firstChild, 0, value);
    slider.classList.toggle("held", isHeld);
    slider.setAttribute("aria-valuenow", value.toFixed(3));
    slider.setAttribute(
      "aria-label",
      `weight of ${this.view.sources[j]}, position ${j + 1}`
    );
    say(number, state.numbers || isHeld ? short(value) : "");
  }

  // Brings the chosen column into view.
  scroll(symbol) {
    const box = this.view.find(".attending");
    const left = symbol.offsetLeft - this.labels.weight.offsetWidth;
    const isHidden =
      left < box.scrollLeft ||
      symbol.offsetLeft + symbol.offsetWidth > box.scrollLeft + box.clientWidth;
    if (box.scrollWidth > box.clientWidth && isHidden)
      box.scrollLeft = left - box.clientWidth / 3;
  }

  build(width) {
    this.axis = [make("small"), make("small")];
    const label = name => [
      name,
      make("span", {className: "label", role: "img"}, name)
    ];
    this.labels = Object.fromEntries(BARS.map(label));
    this.labels.score.append(...this.axis);
    const title =
      "the window: its centre, and how many positions it reaches to each side";
    this.around = make("span", {className: "label", title});
    this.grid.replaceChildren(this.around, ...Object.values(this.labels));
    const narrowest = state.numbers ? 34 : 18;
    this.grid.style.gridTemplateColumns = `max-content repeat(${width}, minmax(${narrowest}px, 1fr))`;
    this.columns = Array.from({length: width}, (_, j) => this.built(j));
  }

  built(j) {
    const column = {symbol: button("", () => choose(state.step, j))};
    this.grid.append(column.symbol);
    for (const name of BARS) {
      column[name] = make("div", {className: `bar ${name}`}, make("i"));
      column[`${name}Number`] = make("span", {className: "number"});
      this.grid.append(make("div", {}, column[name], column[`${name}Number`]));
    }
    this.slider(column.weight, j);
    return column;
  }

  slider(slider, j) {
    const isFixed = Boolean(this.view.spec.force_reason);
    const roles = {
      role: "slider",
      tabindex: 0,
      "aria-valuemin": 0,
      "aria-valuemax": 1,
      "aria-disabled": isFixed
    };
    for (const [key, value] of Object.entries(roles))
      slider.setAttribute(key, value);
    if (isFixed) return;
    let held = null; // where the bar was when it was taken hold of: the first change makes room above for the answer without it
    const drag = event =>
      setWeight(state.step, j, (held.bottom - event.clientY) / held.height);
    slider.addEventListener("pointerdown", event => {
      held = slider.getBoundingClientRect();
      slider.setPointerCapture(event.pointerId);
      state.position = j;
      drag(event);
    });
    slider.addEventListener("pointermove", event => {
      if (slider.hasPointerCapture(event.pointerId)) drag(event);
    });
    slider.addEventListener("dblclick", () => release(state.step, j));
    slider.addEventListener("keydown", event => {
      const change = KEYED[event.key];
      if (!change) return;
      state.position = j;
      setWeight(
        state.step,
        j,
        Number(slider.getAttribute("aria-valuenow")) + change
      );
      event.preventDefault();
    });
  }
}

// The mean over heads of a position's numbers.
function meanAt(numbers, j, width) {
  let total = 0;
  for (let k = j; k < numbers.length; k += width) total += numbers[k];
  return (total * width) / numbers.length;
}
