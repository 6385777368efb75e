"use strict";
// The page: tables, charts and maps of the visible runs or, for a comparison, of its groups.

const DATA = JSON.parse(document.getElementById("data").textContent);
const RUNS = DATA.runs;
const COMPARED = DATA.experiment ?? null; // if set, each of RUNS is a group of trials that differ only in their seed
const hidden = new Set();
const visible = () => RUNS.filter(run => !hidden.has(run.name));
const section = id => document.getElementById(id);

const CURVES = [
  ["loss", "Training loss", {log: true, y: "nats per token, log scale"}],
  ["wer", "Word error rate on the dev set", {share: true, y: "share of words"}],
  ["ser", "Symbol error rate on the dev set", {y: "edits per symbol"}],
  ["exact_match_mean", "Exact match, mean over trained lengths", {share: true, y: "share of strings"}],
  ["exact_match_worst", "Exact match, worst trained length", {share: true, y: "share of strings"}],
  ["teacher_forced", "Teacher-forced accuracy", {share: true, y: "share of characters"}],
  ["alignment", "Alignment accuracy", {share: true, y: "share of characters"}],
  ["entropy", "Attention entropy", {y: "nats"}],
  ["gradient_norm", "Gradient norm before clipping", {log: true, y: "norm, log scale"}],
  ["learning_rate", "Learning rate", {y: "learning rate"}],
  ["tokens_per_second", "Speed", {y: "target tokens per second"}],
];
const MEASURES = {
  exact_match: "exact match", character_accuracy: "characters", teacher_forced: "characters, teacher-forced",
  alignment: "alignment", entropy: "attention entropy, nats",
};

function table(header, rows) {
  const head = element("tr", {}, ...header.map(one => element("th", one.number ? {class: "number"} : {}, one.text ?? one)));
  const body = rows.map(({cells, kind}) => element("tr", kind ? {class: kind} : {}, ...cells.map((cell, i) =>
    element(i ? "td" : "th", header[i].number ? {class: "number"} : {}, i ? shown(cell) : cell))));
  return element("div", {class: "scroll"}, element("table", {}, element("thead", {}, head), element("tbody", {}, ...body)));
}

function runName(run) {
  return element("span", {}, element("span", {class: "dot", style: `background:${run.colour}`}), ` ${run.name}`);
}

function select(label, choices, chosen, act) {
  const made = element("select", {}, ...Object.entries(choices).map(([value, text]) => element("option", {value}, text)));
  if (chosen !== undefined) made.value = chosen;
  made.addEventListener("change", () => act(made.value));
  return element("label", {}, label, made);
}

function fill(id, ...parts) {
  const place = section(id);
  place.replaceChildren(place.querySelector("h2"), ...parts);
}

function drawSummary() {
  if (COMPARED) return drawComparison();
  const runs = visible();
  const names = Object.keys(RUNS[0].summary).filter(name => runs.some(run => run.summary[name] !== null));
  const thousandths = ["exact match, worst", "mean", "entropy"], percent = ["WER", "SER"]; // as in all other tables
  const written = (value, name) => percent.includes(name) ? `${(100 * value).toFixed(1)} %` : thousandths.includes(name) ? fixed(value) : value;
  const cell = (run, name) => run.summary[name] === null ? null : written(run.summary[name], name);
  const rows = runs.map(run => ({cells: [runName(run), ...names.map(name => cell(run, name))]}));
  const numeric = name => runs.some(run => typeof run.summary[name] === "number");
  fill("summary", table(["run", ...names.map(name => ({text: name, number: numeric(name)}))], rows));
}

function drawCurves() {
  const grid = element("div", {class: "charts"});
  fill("curves", grid);
  for (const [name, title, options] of CURVES) {
    const series = visible().filter(run => run.curves[name]).map(run => ({name: run.name, colour: run.colour, dash: run.dash, points: run.curves[name]}));
    if (!series.length) continue;
    const place = element("div", {});
    grid.append(element("div", {class: "chart"}, element("h3", {}, title), place));
    drawChart(place, series, {...options, band: Boolean(COMPARED), fromZero: true, x: "step", label: `${title} by step`});
  }
  if (!grid.children.length) grid.append(element("p", {class: "note"}, "Nothing was logged yet."));
  if (COMPARED) section("curves").append(element("p", {class: "note"},
    "Lines are the median over seeds for values logged during training, and the mean for evaluations; bands range from the lowest to the highest seed."));
}

let measure = COMPARED?.metric ?? "exact_match", family = "random";
// A choice of the family of strings to draw, if there are several; `rows` are those that can be drawn.
function chooseFamily(rows, draw) {
  const names = [...new Set(rows.map(row => row.family))];
  if (!names.includes(family)) family = names[0];
  return names.length < 2 ? [] : [select("strings", Object.fromEntries(names.map(name => [name, name])), family, chosen => { family = chosen; draw(); })];
}

function drawLengths() {
  if (COMPARED) return drawComparedLengths();
  const runs = visible().filter(run => run.lengths);
  if (!runs.length) return fill("lengths", element("p", {class: "note"}, "No evaluation yet: seq2attn eval RUN"));
  const choices = Object.fromEntries(Object.entries(MEASURES).filter(([name]) => runs.some(run => run.lengths.rows.some(row => row[name]))));
  if (!(measure in choices)) measure = "exact_match";
  const chooser = chooseFamily(runs.flatMap(run => run.lengths.rows), drawLengths);
  const rowsOf = run => run.lengths.rows.filter(row => row.family === family);
  const worst = runs.flatMap(run => run.lengths.rows.filter(row => row.worst).map(row =>
    ` ${run.name}: the worst family is ${row.family}, exact match ${row.exact_match[0].toFixed(3)} at length ${row.length}.`));
  const series = runs.map(run => ({name: run.name, colour: run.colour, dash: run.dash,
    points: rowsOf(run).filter(row => row[measure]).map(row => [row.length, ...row[measure]])})).filter(one => one.points.length);
  const rows = new Map();
  for (const run of runs) for (const row of rowsOf(run)) rows.set(row.length, (rows.get(row.length) ?? false) || !row.trained);
  const lengths = [...rows.keys()].sort((a, b) => a - b), shaded = lengths.filter(length => rows.get(length));
  const place = element("div", {});
  const value = (run, length) => rowsOf(run).find(row => row.length === length)?.[measure]?.[0] ?? null;
  const sources = runs.map(run => {
    const counts = run.lengths.rows.map(row => row.samples), fewest = Math.min(...counts), most = Math.max(...counts);
    return `${run.name}: ${run.lengths.source}, ${fewest < most ? `${fewest} to ` : ""}${most.toLocaleString("en")} strings per length`;
  });
  fill("lengths",
    element("div", {class: "controls"}, select("measure", choices, measure, chosen => { measure = chosen; drawLengths(); }), ...chooser),
    place,
    element("p", {class: "note"}, `Bars are 95 % intervals.${shaded.length ? " Grey: lengths that a run never saw in training." : ""} ${sources.join("; ")}.${worst.join("")}`),
    element("details", {}, element("summary", {}, "as a table"),
      table(["length", ...runs.map(run => ({text: run.name, number: true}))],
        lengths.map(length => ({cells: [`${length}${rows.get(length) ? " *" : ""}`, ...runs.map(run => value(run, length))]})))));
  drawChart(place, series, {share: measure !== "entropy", tall: true, around: true, shaded, x: "string length", y: MEASURES[measure], label: `${MEASURES[measure]} by string length`});
}

// On a narrow screen a map with many columns scrolls.
function readable(svg, map) {
  svg.style.minWidth = `${0.8 * mapBox(map).width}px`;
  return svg;
}

// Of runs on pairs: what is written in place of each symbol, and the most frequent edits.
function drawErrors() {
  const runs = visible().filter(run => run.errors);
  section("errors").hidden = !runs.length;
  const left = symbol => symbol === "" ? "∅" : symbol;
  fill("errors", element("div", {class: "maps"}, ...runs.map(run => {
    const {rows, columns, shares} = run.errors.matrix;
    const map = {source_symbols: columns.map(left), output_symbols: rows, weights: shares, ideal: []};
    const describe = (i, j) => [`${rows[i]} → ${left(columns[j])}`, [["", "share", shares[i][j].toFixed(3)]]];
    return element("div", {class: "map", style: mapWidth(map)}, element("h3", {}, runName(run)),
      element("p", {class: "run"}, `${run.errors.file}, ${run.errors.words.toLocaleString("en")} words`),
      ...(rows.length ? [element("div", {class: "scroll"}, readable(drawMap(map, false, numbers, {label: "confusion of symbols", axes: ["written", "right"], describe}), map))] : []));
  })),
  ramp(),
  element("p", {class: "note"}, "Rows: symbols of the right answers, those that are most often wrong. Columns: what is written; ∅: nothing. Cells: share of the symbol's occurrences."),
  ...runs.map(run => element("details", {}, element("summary", {}, `${run.name}: the most frequent edits`),
    table(["right", "written", {text: "count", number: true}, {text: "of", number: true}, "words"],
      run.errors.edits.map(([right, written, count, occurs, words]) => ({cells: [left(right), left(written), count, occurs, words.join(", ")]}))))));
}

const ALL = ""; // of one run, all strings are shown side by side
let text = RUNS.length === 1 ? ALL : null, step = Infinity, ideal = false, numbers = false, seed = null;
function drawAttention() {
  const seeds = COMPARED ? [...new Set(RUNS.flatMap(run => run.trials.filter(one => one.attention.length).map(one => one.seed)))].sort((a, b) => a - b) : [];
  if (!seeds.includes(seed)) seed = seeds[0];
  const ofSeed = run => ({...run, attention: [], ...run.trials.find(one => one.seed === seed)});
  const runs = (COMPARED ? visible().map(ofSeed) : visible()).filter(run => run.attention.length);
  if (!runs.length) return fill("attention", element("p", {class: "note"}, "No attention was recorded: the score is none, or there is no evaluation yet."));
  const texts = [...new Set(runs.flatMap(run => run.attention.at(-1).maps.map(map => map.source)))];
  if (!texts.includes(text) && !(text === ALL && runs.length === 1)) text = texts[0];
  const steps = [...new Set(runs.flatMap(run => run.attention.map(one => one.step)))].sort((a, b) => a - b);
  step = Math.min(step, steps.at(-1));
  const maps = element("div", {class: "maps"});
  const hasIdeal = runs.some(run => run.attention.at(-1).maps.some(map => map.ideal.length));
  const drawMaps = () => maps.replaceChildren(...runs.flatMap(run => (text === ALL ? texts : [text]).map(one => mapOf(run, one))));
  const number = element("output", {}, "");
  const slider = element("input", {type: "range", min: 0, max: steps.length - 1, "aria-label": "training step"});
  slider.value = steps.findLastIndex(one => one <= step);
  const move = () => { step = steps[slider.value]; number.textContent = `step ${step.toLocaleString("en")}`; drawMaps(); };
  slider.addEventListener("input", move);
  const choices = {...(runs.length === 1 && texts.length > 1 ? {all: "all"} : {}), ...texts.map(one => one.replaceAll(" ", "␣"))};
  const chosen = text === ALL ? "all" : texts.indexOf(text);
  fill("attention",
    element("div", {class: "controls"},
      ...(COMPARED ? [select("seed", Object.fromEntries(seeds.map(one => [one, one])), seed, chosen => { seed = Number(chosen); drawAttention(); })] : []),
      select("string", choices, chosen, value => { text = texts[value] ?? ALL; drawMaps(); }),
      ...(steps.length > 1 ? [element("label", {}, "through training", slider, number)] : []),
      ...(hasIdeal ? [tick("ideal alignment", ideal, value => { ideal = value; drawMaps(); })] : []),
      tick("numbers", numbers, value => { numbers = value; drawMaps(); }), ramp()),
    maps,
    element("p", {class: "note"}, "Each row is a step of decoding, labelled with the symbol it wrote, and shows how much of its attention is on each source symbol. ⏎ is the end of a string, <eos>. Point at a cell to see its weight."));
  move();
}

function tick(label, ticked, act) {
  const box = element("input", {type: "checkbox"});
  box.checked = ticked;
  box.addEventListener("change", () => act(box.checked));
  return element("label", {}, box, label);
}

// A text in which a space that is a symbol, and not one between symbols, can be seen.
function spelt(text, symbols) { return symbols.includes(" ") ? text.replaceAll(" ", sign(" ")) : text; }

function mapOf(run, source) {
  const snapshot = run.attention.findLast(one => one.step <= step) ?? run.attention[0];
  const map = snapshot.maps.find(one => one.source === source);
  const card = element("div", {class: "map", style: map ? mapWidth(map) : ""}, ...(RUNS.length > 1 ? [element("h3", {}, runName(run))] : []));
  if (run.run) card.append(element("p", {class: "run"}, run.run));
  if (!map) {
    card.append(element("p", {}, "no attention recorded for this string"));
    return card;
  }
  card.append(element("p", {}, `${spelt(map.source, map.source_symbols)} → ${spelt(map.output, map.output_symbols)}`), drawMap(map, ideal, numbers));
  return card;
}

function byRun(name) {
  return [...new Set(visible().flatMap(run => Object.keys(run[name])))];
}

let everything = RUNS.length === 1;
function drawConfig() {
  const runs = visible();
  const keys = byRun("config");
  const differs = key => new Set(runs.map(run => JSON.stringify(run.config[key] ?? null))).size > 1;
  const different = keys.filter(differs), same = keys.filter(key => !differs(key));
  const asText = value => value === null || value === undefined ? "–" : typeof value === "string" && value.trim() !== value || value === "" ? `"${value}"` : `${value}`;
  const rows = [...different.map(key => [key, "differs"]), ...(everything || !different.length ? same.map(key => [key, ""]) : [])]
    .map(([key, kind]) => ({kind, cells: [key, ...runs.map(run => asText(run.config[key]))]}));
  const also = tick(`also the ${same.length} keys that are the same`, everything, value => { everything = value; drawConfig(); });
  const controls = different.length ? [element("div", {class: "controls"}, also)] : [];
  const note = runs.length > 1 && !different.length ? [element("p", {class: "note"}, "The configs are the same.")] : [];
  fill("config", ...note, ...controls, table(["key", ...runs.map(run => run.name)], rows));
}

function drawParameters() {
  const runs = visible();
  const parts = [...byRun("parameters").filter(part => part !== "total"), "total"];
  fill("parameters", table(["part", ...runs.map(run => ({text: run.name, number: true}))], parts.map(part =>
    ({kind: part === "total" ? "total" : "", cells: [part, ...runs.map(run => run.parameters[part] ?? 0)]}))));
}

function drawEnvironment() {
  const runs = visible();
  const value = (run, key) => `${run.environment[key] ?? "–"}`;
  const hasValue = key => runs.some(run => ![null, undefined, "", "{}"].includes(run.environment[key]));
  const keys = byRun("environment").filter(hasValue), same = keys.filter(key => new Set(runs.map(run => value(run, key))).size === 1);
  const different = keys.filter(key => !same.includes(key));
  const parts = different.length ? [table(["", ...runs.map(run => run.name)], different.map(key => ({cells: [key, ...runs.map(run => value(run, key))]})))] : [];
  if (same.length) parts.push(table(["", runs.length > 1 ? "the same for all" : runs[0].name], same.map(key => ({cells: [key, value(runs[0], key)]}))));
  fill("environment", ...parts);
}

function drawAll() {
  document.querySelector("main").classList.toggle("few", visible().length <= 4);
  for (const draw of [drawSummary, drawCurves, drawLengths, drawErrors, drawAttention, drawConfig, drawParameters, drawEnvironment]) draw();
}

for (const run of RUNS) {
  const button = element("button", {type: "button", "aria-pressed": "true"}, element("span", {class: "dot", style: `background:${run.colour}`}), run.name);
  button.addEventListener("click", () => {
    if (!hidden.has(run.name) && hidden.size === RUNS.length - 1) return; // never hide the last one
    hidden.has(run.name) ? hidden.delete(run.name) : hidden.add(run.name);
    button.setAttribute("aria-pressed", String(!hidden.has(run.name)));
    drawAll();
  });
  section("runs").append(button);
}
drawAll();
