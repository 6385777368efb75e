"use strict";
// The address, which has everything that is shown after its #; and the map as a file.

// moment: with the batch that training has come to.
function fragment(moment = false) {
  const fields = new URLSearchParams({text: state.text, step: state.step + 1});
  if (state.position !== null) fields.set("position", state.position + 1);
  if (state.features) fields.set("features", state.features);
  if (state.temperature !== 1) fields.set("temperature", state.temperature);
  if (state.padding) fields.set("padding", state.padding);
  if (state.mask !== null) fields.set("mask", Number(state.mask));
  const [{training: own}] = data.models;
  for (const name of ["rate", "seed"]) if (own && state[name] !== own[name]) fields.set(name, state[name]);
  if (own && moment && training.step) fields.set("batch", training.step);
  if (state.numbers) fields.set("numbers", 1);
  if (state.tour !== null) fields.set("tour", state.tour + 1);
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
  const {rate, seed} = data.models[0].training || {};
  Object.assign(state, {rate: number("rate", 1e-4, 0.1, rate), seed: Math.floor(number("seed", 0, 99999, seed)), until: Math.floor(number("batch", 1, 99999, 0)) || null});
  state.numbers = fields.get("numbers") === "1";
  state.tour = data.models[0].training || !fields.has("tour") ? null : Math.floor(number("tour", 1, 99, 1)) - 1;
  state.force = new Map();
  for (const [t, j, weight] of canForce() ? rows("set") : []) {
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
  const address = `${location.href.split("#")[0]}#${fragment(true)}`;
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
  const pen = new SvgPen(layout.width + 16, layout.height + 16), paper = {text: "#171c21", soft: "#edf0f2", line: "#c3cad1", held: "#c2410c", good: "#1a7f37", bad: "#b3261e"};
  pen.fill(0, 0, layout.width + 16, layout.height + 16, "#ffffff");
  paintMap(pen, {...view.map, chosen: null}, {...layout, left: layout.left + 8, top: layout.top + 8}, paper, numbers);
  const blob = new Blob([new XMLSerializer().serializeToString(pen.root)], {type: "image/svg+xml"});
  const link = make("a", {href: URL.createObjectURL(blob), download: "attention.svg"});
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
