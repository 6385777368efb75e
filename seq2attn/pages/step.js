"use strict";
// The panel of one step: a diagram of it, bars to take hold of, the likeliest symbols, and a row for each part, with its formula.

const SUBSCRIPT = "₀₁₂₃₄₅₆₇₈₉";
const sub = number => Array.from(String(number), digit => SUBSCRIPT[digit]).join("");
const PARTS = {  // of a step, as they follow each other: sign and name
  states: ["h", "states"], query: ["s", "query"], score: ["e", "scores"], softmax: ["p", "softmax"], weight: ["α", "weights"], context: ["c", "context"], output: ["y", "output"],
};
const PARTS_WITHOUT = {states: ["h", "states"], vector: ["s₀", "one vector"], output: ["y", "output"]};
const LOWERED = {t: "ₜ", j: "ⱼ", i: "ᵢ", k: "ₖ", "-": "₋", "+": "₊", ...Array.from(SUBSCRIPT)};
const lowered = (whole, many, one) => Array.from(many || one).every(sign => sign in LOWERED) ? Array.from(many || one, sign => LOWERED[sign]).join("") : whole;
const written = text => text.replace(/_(?:\{([^}]+)\}|(\w)(?!\w))/g, lowered).replace(/sqrt\((\w+)\)/g, "√$1").replace(/alpha/g, "α").replace(/([a-z)])\.(?=[a-z(])(?!\w+\(\))/gi, "$1 · ");  // the catalogue's formulas

class Step {
  constructor(view) {
    this.view = view;
    this.find = view.find;
    this.columns = [];
    const {spec} = view;
    this.parts = spec.attends ? PARTS : PARTS_WITHOUT;
    const move = count => () => choose(state.step + count, state.position);
    for (const [name, act] of [[".previous", move(-1)], [".next", move(1)], [".play", togglePlay]]) this.find(name).addEventListener("click", act);
    this.find(".attending").hidden = !spec.attends;
    this.rows = {};
    for (const [part, [sign, name]] of Object.entries(this.parts)) {
      const row = this.rows[part] = make("div", {className: "part", role: "group", ariaLabel: name, tabIndex: -1}, make("h4", {textContent: `${name} ${sign}`}), make("p", {className: "sum"}), make("p", {className: "why"}), make("div", {className: "vectors"}));
      this.find(".parts").append(row);
      this.find(".stages").append(make("button", {type: "button", className: part, "data-tip": TIPS[part], onclick: () => {
        light(part);
        row.scrollIntoView({block: "nearest", behavior: "smooth"});
        row.focus({preventScroll: true});
      }}, make("b", {textContent: sign}), ` ${name}`));
    }
  }

  draw(look) {
    const {view, find} = this, {now} = view, t = Math.min(state.step, now.steps.length - 1), step = now.steps[t], {tokens} = view.spec.target;
    const read = t ? view.wrote(now.steps[t - 1]) : shownSymbol(tokens[view.spec.sos]);
    find(".heading h3").replaceChildren(`step ${t + 1} of ${now.steps.length}: reads `, make("b", {textContent: read}), `${t ? "" : " (start)"}, writes `, make("b", {textContent: view.wrote(step)}));
    find(".previous").disabled = t === 0;
    find(".next").disabled = t === now.steps.length - 1;
    if (view.attends) this.bars(step, t);
    this.likeliest(step, view.before.steps[t], t);
    this.look = look;
    this.explain(step, t);
    this.lit();
  }

  // The part that is lit, in the diagram, the bars and the rows.
  lit() {
    for (const button of this.find(".stages").children) {
      const on = button.className.split(" ")[0] === state.part;
      button.classList.toggle("lit", on);
      button.setAttribute("aria-current", on ? "step" : "false");
    }
    for (const [part, row] of Object.entries(this.rows)) row.classList.toggle("lit", part === state.part);
    for (const label of this.find(".bars").querySelectorAll(".label")) label.classList.toggle("lit", label.textContent.startsWith(state.part || "-"));
  }

  bars(step, t) {
    const {view} = this, grid = this.find(".bars"), width = view.sources.length;
    if (this.columns.length !== width) this.build(grid, width);
    const at = view.position(), heads = step.scores.data.length / width, [lowest, highest] = view.scale, range = highest - lowest || 1, all = {score: [], softmax: [], weight: []}, centres = view.map.centres[t].map(Math.round);
    put(this.around, "textContent", view.windowAt(t, " ± ") && `┃ ${view.windowAt(t, " ± ")}`);
    put(this.axis[0], "textContent", short(highest));
    put(this.axis[1], "textContent", short(lowest));
    this.columns.forEach((column, j) => {
      const banned = view.map.banned(t, j), outside = view.map.outside(t, j), weight = step.weights.data[j], held = view.isForced(t, j);
      put(column.symbol, "textContent", view.sources[j]);
      put(column.symbol, "className", `symbol ${j === at ? "chosen" : ""} ${banned ? "banned" : ""} ${centres.includes(j) ? "centre" : ""}`);
      column.symbol.setAttribute("aria-label", `position ${j + 1}, ${view.sources[j]}${banned ? ", banned" : ""}${outside ? ", outside the window" : ""}`);
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
        all[name].push(mean);
      }
      all.weight.push(weight);
      fillBar(column.weight.firstChild, 0, weight);
      column.weight.classList.toggle("held", held);
      for (const name of Object.keys(this.labels)) {
        column[name].classList.toggle("outside", outside);
        put(column[name], "title", outside ? "outside the window" : name === "weight" ? view.spec.force_reason || "drag to set the weight" : "");
      }
      column.weight.setAttribute("aria-valuenow", weight.toFixed(3));
      column.weight.setAttribute("aria-label", `weight of ${view.sources[j]}, position ${j + 1}`);
      put(column.weightNumber, "textContent", state.numbers || held ? short(weight) : "");
    });
    for (const [name, label] of Object.entries(this.labels)) label.setAttribute("aria-label", `${name}: ${all[name].map((value, j) => `${view.sources[j]} ${short(value)}`).join(", ")}`);
    const {symbol} = this.columns[at], box = this.find(".attending"), left = symbol.offsetLeft - this.labels.weight.offsetWidth;
    if (box.scrollWidth > box.clientWidth && (left < box.scrollLeft || symbol.offsetLeft + symbol.offsetWidth > box.scrollLeft + box.clientWidth)) box.scrollLeft = left - box.clientWidth / 3;
  }

  build(grid, width) {
    this.axis = [make("small"), make("small")];
    this.labels = Object.fromEntries(["score", "softmax", "weight"].map(name => [name, make("span", {className: "label", role: "img"}, name)]));
    this.labels.score.append(...this.axis);
    this.around = make("span", {className: "label", title: "the window: its centre, and how many positions it reaches to each side"});
    grid.replaceChildren(this.around, ...Object.values(this.labels));
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
      const reason = this.view.spec.force_reason;
      slider.setAttribute("aria-disabled", String(Boolean(reason)));
      if (reason) return column;
      let held = null;  // where the bar was when it was taken hold of: the first change makes room above for the answer without it
      const drag = event => setWeight(state.step, j, (held.bottom - event.clientY) / held.height);
      slider.addEventListener("pointerdown", event => {
        held = slider.getBoundingClientRect();
        slider.setPointerCapture(event.pointerId);
        state.position = j;
        drag(event);
      });
      slider.addEventListener("pointermove", event => { if (slider.hasPointerCapture(event.pointerId)) drag(event); });
      slider.addEventListener("dblclick", () => release(state.step, j));
      slider.addEventListener("keydown", event => {
        const change = {__proto__: null, ArrowUp: 0.05, ArrowDown: -0.05, PageUp: 0.25, PageDown: -0.25}[event.key];
        if (!change) return;
        state.position = j;
        setWeight(state.step, j, Number(slider.getAttribute("aria-valuenow")) + change);
        event.preventDefault();
      });
      return column;
    });
  }

  // Each part's row: how the number at the chosen position is made, by this model's graph, and in a sentence.
  explain(step, t) {
    const {view} = this, {spec, now} = view, {encoder, score, normaliser, window, history, decoder, scalable} = spec.parts, letter = view.wrote(step);
    const encoded = spec.layers.length ? `The encoder reads the source and leaves ${spec.layers.at(-1).length > 1 ? "a vector, from both directions," : "a vector"} at each position.` : encoder ? `The encoder (${encoder.name}) leaves a vector at each position.` : "The encoder's positions attend to each other; a vector is left at each.";
    const chances = probabilities(step.logits.data);
    this.say("output", `p(${letter}) = ${short(chances[step.written])}`, `${view.attends ? "State and context give" : "The state gives"} each symbol a probability. The likeliest is written, and read at the next step.`);
    if (!view.attends) return this.bottleneck(encoded);
    const j = view.position(), n = sub(j + 1), width = now.width, heads = step.scores.data.length / width;
    const ofHead = Array.from({length: heads}, (_, head) => step.softmax.data[head * width + j]), head = ofHead.indexOf(Math.max(...ofHead)), cell = head * width + j;
    const {graphs} = view.session().model, {places} = graphs.prepare, outputs = places.has("states") ? "states" : "memory.values";
    const prepared = new Explanation(graphs.prepare, view.session().encoded.prepared(), {[outputs]: () => formula(`h${n}`)});
    const isKnown = outputs === "states" || places.has(outputs) && prepared.origins(places.get("memory.keys")).has(prepared.root(places.get(outputs)));  // a key is made of it
    const made = (name, otherwise) => {  // the row of this position, as it is made from the encoder's state
      if (!isKnown || !places.has(name)) return formula(otherwise);
      const depth = product(prepared.values[places.get(name)].shape.slice(2));
      return prepared.term(places.get(name), Array.from({length: depth}, (_, k) => j * depth + k));
    };
    const {shape: [, , depth], data: states} = isKnown ? prepared.values[places.get(outputs)] : {shape: []};
    this.say("states", "", isKnown ? encoded : `${encoded} Keys k and values v are made of these.`, states ? {[`h${n}`]: Array.from(states.slice(j * depth, (j + 1) * depth))} : {});
    const key = made("memory.keys", `k${n}`), value = made("memory.values", `v${n}`);
    const at = sign => cells => formula(cells.length > 1 ? sign : sign + sub(cells[0] % width + 1));
    const values = step.trace(), layers = Object.keys(spec.graphs.step.inputs).filter(name => name.startsWith("memory.layers"));
    const covered = history && history.name === "coverage" && heads === 1 ? values[graphs.step.places.get("state.past")].data : null;
    const names = {query: () => formula("s"), "memory.keys": () => key, ...(covered ? {"state.past": at("C")} : {}), ...Object.fromEntries(layers.map(name => [name, () => key]))};
    const e = new Explanation(graphs.step, values, names), scored = e.of("scores", cell);
    const p = new Explanation(graphs.step, values, {...names, scores: at("e")}).of("softmax", cell);
    const a = new Explanation(graphs.step, values, {...names, softmax: at("p")}).of("weights", j);
    const equal = (sign, {text, numbers}, value) => [`${sign} = ${text}`, numbers, exact(value)].filter((part, k) => part && (k === 0 || !text.endsWith(part))).join(" = ");
    const aligned = decoder && decoder.name === "hard_monotonic";
    const past = e.reads("scores", "state.past"), held = view.isForced(t, j), kinds = (...parts) => parts.filter(part => part && part.formula && part.name !== "none" && part.name !== "global").map(part => `${part.name}: ${part.summary} (${written(part.formula)}).`);
    const changers = [view.sources.some((_, k) => view.isForced(t, k)) ? "you" : "", window && window.name !== "global" ? `the window ${window.name}` : "", history && history.name !== "none" && !past ? `the history ${history.name}` : "", aligned ? `the decoder ${decoder.name}: how probable this position is after those before` : ""].filter(one => one);
    const query = Array.from(step.query.data.slice(head * step.query.data.length / heads, (head + 1) * step.query.data.length / heads)), context = Array.from(step.context.data);
    const reread = heads === 1 && history && history.name !== "none" && places.has("memory.values") && context.length > prepared.values[places.get("memory.values")].shape.at(-1);
    this.say("query", "", [decoder ? `The decoder's state: what this step looks for (${decoder.name}: ${decoder.summary}).` : "What this step looks for.", heads > 1 ? `Head ${head + 1} of ${heads} is shown.` : "", firstQuery(query, states, view.ids.length - 1)].join(" "), {"": query});
    this.say("score", `${score ? `${written(score.formula)}${/√D/.test(written(score.formula)) ? `, D = ${query.length}` : ""}: ` : ""}${equal(`e${n}`, scored, step.scores.data[cell])}`, [`How well the query fits the key${score ? `: ${score.name}, ${score.summary}` : ""}.`, ...kinds(past ? history : null), covered ? `C${n} = ${exact(covered[j])}: the attention that this position has had so far.` : ""].join(" "), {...(covered ? {"C, by position": Array.from(covered)} : {}), ...(e.dot ? {...(e.dot.names[0] === "s" ? {} : {[e.dot.names[0]]: e.dot.left}), [e.dot.names[1]]: e.dot.right, [summed(e.dot.left.map((one, k) => one * e.dot.right[k]))]: e.dot.left.map((one, k) => one * e.dot.right[k])} : {})});
    this.say("softmax", equal(`p${n}`, p, step.softmax.data[cell]), [normaliser && normaliser.name !== "softmax" ? kinds(normaliser)[0] : "The exponential of each score, as a share of their sum: all are positive and sum to 1.", ...kinds(window), view.windowAt(t, "") && `In this step it is around position ${view.windowAt(t, ", R = ")}${view.map.outside(t, j) ? `: position ${j + 1} is outside, its weight is 0` : ""}.`, scalable ? `Scalable: ${scalable.summary}.` : "", state.temperature === 1 ? "" : isUnscaled() ? `The temperature 1/√D = ${exact(state.temperature)} undoes the division by √D.` : "Scores are divided by the temperature.", spec.mask_padding ? "" : "Padding is not masked in this model."].join(" "));
    const moved = t && heads === 1 ? e.distribution("weights", "softmax") : null, from = peak(now.steps[Math.max(0, t - 1)].weights.data, width);
    const leaving = moved && Array.from({length: moved.shape.at(-2)}, (_, d) => moved.data[d * moved.shape.at(-1) + from % moved.shape.at(-1)]), reach = moved && (leaving.length - 1) / 2, move = moved && peak(leaving) - reach;
    const signed = distance => `${distance > 0 ? "+" : distance < 0 ? "−" : ""}${Math.abs(distance)}`, around = from + move < 0 || from + move >= view.count ? ", around the end" : "";
    this.say("weight", equal(`α${n}`, a, step.weights.data[j]), [held ? "You set this weight." : moved && changers[0] !== "you" ? `What the step attends with: the weights of the step before, moved by the history ${history.name}, and sharpened.` : Math.abs(step.softmax.data[j] - step.weights.data[j]) < 1e-6 ? "What the step attends with: p, unchanged." : heads > 1 ? `The mean over ${heads} heads.` : `What the step attends with: p, changed by ${changers.join(" and ") || "you"}.`, ...kinds(past ? null : history), moved ? `The step before looked at ${view.sources[from]}; from there, the likeliest move is ${signed(move)}${around}.` : ""].join(" "), moved ? {[`moves from ${view.sources[from]}, ${signed(-reach)} to ${signed(reach)}`]: leaving} : {});
    if (aligned) this.say("context", "", "There is no mean of positions: each one predicts a symbol by itself, and counts as much as its weight α.");
    else this.say("context", `c = Σ α ${value.text.includes("h") ? "h" : "v"} = ${short(step.weights.data[j])} × ${within(value, 3)} + …`, `The mean of what stands at each position, weighted by α${reread ? `, and how often what it reads was read before (the history ${history.name})` : ""}. Besides its state, it is all that this step sees of the source.`, {"": context});
  }

  // What a model without attention has instead.
  bottleneck(encoded) {
    this.say("states", "", encoded);
    const {first} = this.view.session().encoded, names = Object.keys(first).filter(name => name.startsWith("state.cell")), vector = names.flatMap(name => Array.from(first[name].data));
    this.say("vector", `${this.view.count} symbols → ${vector.length} numbers`, `This model has no attention. All that the decoder ever knows of the source is this one vector, the encoder's last state. However long the string is, it has to fit in here: a bottleneck.`, {"": vector});
  }

  say(part, sum, why, vectors = {}) {
    const [, formulaOf, sentence, place] = this.rows[part].children, entries = Object.entries(vectors);
    put(formulaOf, "textContent", sum);
    put(sentence, "textContent", why.replace(/ +/g, " ").trim());
    if (place.children.length !== entries.length) place.replaceChildren(...entries.map(() => make("div", {}, make("span"), make("canvas", {role: "img"}))));
    entries.forEach(([name, numbers], k) => {
      const [label, canvas] = place.children[k].children;
      put(label, "textContent", name);
      canvas.setAttribute("aria-label", `${name || part}: ${numbers.length} numbers, ${numbers.slice(0, 4).map(exact).join(", ")} …`);
      paintVector(canvas, numbers, this.look, Math.max(100, this.view.room(".parts") - 20), state.numbers);
    });
  }

  likeliest(step, before, t) {
    const {view} = this, chances = probabilities(step.logits.data), others = before && view.now !== view.before ? probabilities(before.logits.data) : null;
    const order = [...chances.keys()].filter(id => step.choices.data[id] > -Infinity).sort((a, b) => chances[b] - chances[a]).slice(0, SHOWN_NEXT);
    if (others && !order.includes(before.likeliest)) order[SHOWN_NEXT - 1] = before.likeliest;
    put(this.find(".beside h4"), "textContent", `Likeliest next${others ? "; ❙ without your changes" : ""}`);
    this.find(".likeliest").replaceChildren(...order.flatMap(id => {
      const bar = make("i"), track = make("div", {className: "track"}, bar);
      bar.style.setProperty("--size", `${100 * chances[id]}%`);
      if (others) {
        const mark = make("u", {title: `without your changes: ${others[id].toFixed(3)}`});
        mark.style.setProperty("--at", `min(calc(100% - 3px), ${100 * others[id]}%)`);
        track.append(mark);
      }
      return [
        make("button", {type: "button", textContent: view.symbol(id), title: "write this symbol", ariaLabel: `write ${view.symbol(id)}, probability ${chances[id].toFixed(3)}`, className: state.write.get(t) === id ? "changed" : "", onclick: () => hold("write", t, id)}),
        track,
        make("span", {textContent: chances[id].toFixed(3)}),
      ];
    }));
  }
}

// What the first query is, where it is not yet the decoder's: the state that the encoder left, or zeros. states: those of the encoder, after each other.
function firstQuery(query, states, last) {
  if (query.every(number => number === 0)) return "It is still 0, so that it fits no key better than another.";
  if (!states || query.some((number, k) => number !== states[last * query.length + k])) return "";
  return `It is still the encoder's last state, from which the key of position ${last + 1} is made: it is no surprise that the two fit.`;
}

function summed(products) {
  const parts = products.slice(0, 4).map((one, k) => `${one < 0 ? "− " : k ? "+ " : ""}${short(Math.abs(one))}`).join(" ");
  return `their products, sum ${exact(products.reduce((total, one) => total + one, 0))} = ${parts}${products.length > 4 ? " + …" : ""}`;
}

// The place of the largest of the first numbers.
const peak = (numbers, count = numbers.length) => numbers.slice(0, count).reduce((best, one, k, all) => one > all[best] ? k : best, 0);

function probabilities(logits) {
  const most = Math.max(...logits), powers = Array.from(logits, logit => Math.exp(logit - most)), total = powers.reduce((a, b) => a + b);
  return powers.map(power => power / total);
}
