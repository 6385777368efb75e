// What a person has typed, chosen and changed.

const MOST_PADDING = 8

const unchanged = () => ({
  temperature: 1,
  padding: 0,
  mask: null,
  force: new Map(),
  ban: new Set(),
  write: new Map()
})
const untouched = unchanged()
const state = {
  text: "",
  features: "",
  step: 0,
  position: null,
  numbers: false,
  snapshots: data.models.map(lastSnapshot),
  part: null,
  tour: null,
  rate: null, // of training
  seed: null,
  until: null, // the batch at which training pauses
  ...unchanged()
}
const views = []
let active = null // the view that keys act on

function lastSnapshot({snapshots}) {
  return snapshots.length - 1
}

function isChanged() {
  const {temperature, padding, mask, force, ban: banned, write} = state
  const isSet = temperature !== 1 || padding > 0 || mask !== null
  return isSet || force.size + banned.size + write.size > 0
}

const isBanned = (t, j) => isIn(state.ban, t, j)

const masksPadding = () =>
  state.mask ?? data.models.every(model => model.mask_padding)

// Whether a weight of one of the models can be set: those of hard_monotonic cannot.
const canForce = () =>
  data.models.some(model => model.attends && !model.force_reason)

const measured = () => ({width: innerWidth, height: innerHeight})
let look = colours()
let inside = measured() // of the window: reading it makes the browser lay out the page
