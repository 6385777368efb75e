// What the user changes in a decoding: weights that are set, positions that are banned or
// forgotten, symbols that are written in place of the model's own. `state` (state.js) keeps it; t
// is a step, j a source position, and "t,j" a cell of the attention map.

function choose(t, j) {
  state.step = t
  state.position = j
  draw()
}

// Keep a change: hold("force", "t,j", weight) or hold("write", t, id of a symbol). A weight that is
// set replaces a ban of its cell.
function hold(kind, key, value) {
  state[kind].set(key, value)
  if (kind === "force") state.ban.delete(key)
  update()
}

function setWeight(t, j, weight) {
  if (canForce())
    hold("force", `${t},${j}`, possible(state.force, t, j, weight))
}

// The weight that cell (t, j) gets when the user asks for `weight`, to three digits: what the other
// set weights of step t, in `force`, leave of 1 at the most, and 0 at the least.
function possible(force, t, j, weight) {
  let left = 1
  for (const [cell, other] of force) {
    if (cell.startsWith(`${t},`) && cell !== `${t},${j}`) left -= other
  }
  return Math.round(1000 * between(weight, 0, left)) / 1000
}

// Ban a place, or allow it again if it is banned. place: "t,j" for position j at step t, "j" for
// position j at all steps. A ban releases the weights that the user has set there.
function ban(place) {
  if (toggle(state.ban, place)) {
    for (const cell of state.force.keys()) {
      if (cell === place || cell.endsWith(`,${place}`))
        state.force.delete(cell)
    }
  }
  update()
}

const remembers = ({spec}) => spec.parts.history?.name === "coverage"

// Let a model with coverage forget, before each step, what it has read at a position; or no more.
function forget(j) {
  toggle(state.forget, `${j}`)
  update()
}

// Put an entry into a set, or take it out. Returns whether it is in.
function toggle(set, entry) {
  const wasIn = set.delete(entry)
  if (!wasIn) set.add(entry)
  return !wasIn
}

// Undo what the user changed in a cell, or if that is nothing, the symbol that was written at its
// step.
function release(t, j) {
  const isForced = state.force.delete(`${t},${j}`)
  const isBanned = state.ban.delete(`${t},${j}`)
  if (!isForced && !isBanned) state.write.delete(t)
  update()
}

function undoAll() {
  Object.assign(state, {position: null}, unchanged())
  update()
}

// ---- "without √D": scores that the model divides by √D are multiplied by it again, which is what
// the temperature 1/√D does ----

const dividesByRoot = ({parts: {score}}) =>
  Boolean(score?.formula.includes("sqrt(D)"))

// 1/√D, where D is how many numbers the query of one head has. query: (heads, D), scores: (heads,
// S).
function unscaled({now, sources}) {
  const {query, scores} = now.steps[0]
  const D = (query.data.length * sources.length) / scores.data.length
  return Number((1 / Math.sqrt(D)).toPrecision(3))
}

function isUnscaled() {
  const view = shownModel()
  return (
    view.now &&
    dividesByRoot(view.spec) &&
    state.temperature === unscaled(view)
  )
}

// ---- keys ----

const MOVES = {
  // [down, right]
  ArrowUp: [-1, 0],
  ArrowDown: [1, 0],
  ArrowLeft: [0, -1],
  ArrowRight: [0, 1]
}
const CELL_KEYS = {
  Enter: (t, j) => setWeight(t, j, 1),
  b: (t, j) => ban(`${t},${j}`),
  B: (_, j) => ban(`${j}`),
  f: (_, j) => forget(j),
  Delete: release,
  Backspace: release
}

// Act on a key that was pressed anywhere but in a text field: arrows move the chosen cell of the
// map, others change it, and the rest are left to the browser. It is about `active`, the model that
// the user touched last. ↑ and ↓ leave the chosen position as it is: null if none is chosen.
function mapKey(event) {
  if (!active.now) return // no answer yet: a link had a text that the model cannot read
  const {key} = event
  const j = active.position()
  if (Object.hasOwn(MOVES, key)) {
    const [down, right] = MOVES[key]
    choose(state.step + down, right ? j + right : state.position)
  } else if (!actOn(key, state.step, j)) return
  event.preventDefault()
}

// Change cell (t, j) as a key says: a digit sets the weight, 3 to 0.3, and Enter to 1; others are
// in CELL_KEYS. Returns whether the key means anything. If it asks for a weight and the model's
// weights cannot be set, a message says why instead.
function actOn(key, t, j) {
  const isDigit = /^[0-9]$/.test(key)
  if (!isDigit && !Object.hasOwn(CELL_KEYS, key)) return false
  if ((isDigit || key === "Enter") && active.whyFixed) {
    toast(active.whyFixed)
    return true
  }
  state.position = j
  if (isDigit) setWeight(t, j, Number(key) / 10)
  else CELL_KEYS[key](t, j)
  return true
}
