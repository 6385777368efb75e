"use strict";
// What a person changes: weights, positions, symbols that were written.

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

// Whether a weight of one of the models can be set: those of hard_monotonic cannot.
const canForce = () => data.models.some(model => model.attends && !model.force_reason);

function setWeight(t, j, weight) { if (canForce()) hold("force", `${t},${j}`, possible(t, j, weight)); }

// The weight of a cell, within what the other weights that are set in its row leave.
function possible(t, j, weight) {
  let left = 1;
  for (const [cell, other] of state.force) if (cell.startsWith(`${t},`) && cell !== `${t},${j}`) left -= other;
  return Math.round(1000 * Math.max(0, Math.min(left, weight))) / 1000;
}

function ban(place) {
  if (!state.ban.delete(place)) {
    state.ban.add(place);
    for (const cell of [...state.force.keys()]) if (cell === place || cell.endsWith(`,${place}`)) state.force.delete(cell);
  }
  update();
}

// Undo what was changed in a cell; if nothing was, what was written at its step.
function release(t, j) {
  const forced = state.force.delete(`${t},${j}`), banned = state.ban.delete(`${t},${j}`);
  if (!forced && !banned) state.write.delete(t);
  update();
}

// A score that is divided by √D, as the catalogue writes it: the temperature 1/√D takes that back.
const dividesByRoot = ({parts: {score}}) => Boolean(score) && /sqrt\(D\)/.test(score.formula);
const rootOf = ({now, sources}) => {
  const {query, scores} = now.steps[0];
  return Math.sqrt(query.data.length * sources.length / scores.data.length);  // per head
};
const unscaled = view => Number((1 / rootOf(view)).toPrecision(3));

function undoAll() {
  Object.assign(state, {position: null, temperature: 1, padding: 0, mask: null, force: new Map(), ban: new Set(), write: new Map()});
  update();
}

function mapKey(event) {
  if (!active.now) return;  // no answer yet, of a link with a text that the model cannot read
  const t = state.step, j = active.position(), moves = {__proto__: null, ArrowUp: [t - 1, j], ArrowDown: [t + 1, j], ArrowLeft: [t, j - 1], ArrowRight: [t, j + 1]};
  const undo = () => release(t, j), acts = {__proto__: null, Enter: () => setWeight(t, j, 1), b: () => ban(`${t},${j}`), B: () => ban(`${j}`), Delete: undo, Backspace: undo};
  const digit = /^[0-9]$/.test(event.key), act = digit ? () => setWeight(t, j, Number(event.key) / 10) : acts[event.key];
  if (moves[event.key]) choose(moves[event.key][0], moves[event.key][1] === j ? state.position : moves[event.key][1]);
  else if (!act) return;
  else if ((digit || event.key === "Enter") && active.spec.force_reason) toast(active.spec.force_reason);
  else {
    state.position = j;
    act();
  }
  event.preventDefault();
}
