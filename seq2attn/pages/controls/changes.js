// What the user changes: weights, positions, symbols that were written.

function choose(t, j) {
  state.step = t
  state.position = j
  draw()
}

function hold(kind, key, value) {
  state[kind].set(key, value)
  if (kind === "force") state.ban.delete(key)
  update()
}

function setWeight(t, j, weight) {
  if (canForce())
    hold("force", `${t},${j}`, possible(state.force, t, j, weight))
}

// The weight of a cell, within what the other weights that are set in its row leave.
function possible(force, t, j, weight) {
  let left = 1
  for (const [cell, other] of force) {
    if (cell.startsWith(`${t},`) && cell !== `${t},${j}`) left -= other
  }
  return Math.round(1000 * between(weight, 0, left)) / 1000
}

// Ban a place, "t,j" for position j at step t or "j" for all steps, or allow it again. What is
// banned cannot keep a weight that the user has set.
function ban(place) {
  if (!state.ban.delete(place)) {
    state.ban.add(place)
    for (const cell of state.force.keys()) {
      if (cell === place || cell.endsWith(`,${place}`))
        state.force.delete(cell)
    }
  }
  update()
}

// Undo what was changed in a cell; if nothing was, what was written at its step.
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

// ---- a score that is divided by √D, as the catalogue writes it: the temperature 1/√D takes that
// back ----

const dividesByRoot = ({parts: {score}}) =>
  Boolean(score?.formula.includes("sqrt(D)"))

// √D of a head.
function rootOf({now, sources}) {
  const {query, scores} = now.steps[0]
  return Math.sqrt((query.data.length * sources.length) / scores.data.length)
}

const unscaled = view => Number((1 / rootOf(view)).toPrecision(3))

function isUnscaled() {
  const view = shownModel()
  const isDivided = view.now && dividesByRoot(view.spec)
  return isDivided && state.temperature === unscaled(view)
}

// ---- keys ----

const MOVES = {
  ArrowUp: [-1, 0],
  ArrowDown: [1, 0],
  ArrowLeft: [0, -1],
  ArrowRight: [0, 1]
}
const ACTS = {
  Enter: (t, j) => setWeight(t, j, 1),
  b: (t, j) => ban(`${t},${j}`),
  B: (_, j) => ban(`${j}`),
  Delete: release,
  Backspace: release
}

// A key that is pressed on the map: arrows move the chosen cell, others change it.
function mapKey(event) {
  if (!active.now) return // no answer yet, of a link with a text that the model cannot read
  const {key} = event
  const j = active.position()
  if (Object.hasOwn(MOVES, key)) {
    const [down, right] = MOVES[key]
    choose(state.step + down, right ? j + right : state.position)
  } else if (!actOn(key, state.step, j)) return
  event.preventDefault()
}

// Whether a key changes a cell, or would if the weights of the model could be set.
function actOn(key, t, j) {
  const isWeight = key === "Enter" || /^[0-9]$/.test(key)
  if (!isWeight && !Object.hasOwn(ACTS, key)) return false
  if (isWeight && active.whyFixed) {
    toast(active.whyFixed)
    return true
  }
  state.position = j
  if (Object.hasOwn(ACTS, key)) ACTS[key](t, j)
  else setWeight(t, j, Number(key) / 10)
  return true
}
