// What a person has typed, chosen and changed.

const MOST_PADDING = 8

const untouched = unchanged()

function initial() {
  const [{examples, training: own}] = data.models
  const [text, features = ""] = (examples[0] ?? "").split("\t")
  return {
    text,
    features,
    step: 0,
    position: null,
    numbers: false,
    snapshots: data.models.map(({snapshots}) => snapshots.length - 1),
    part: null,
    tour: null,
    rate: own?.rate, // of training
    seed: own?.seed,
    until: null, // the batch at which training pauses
    ...unchanged()
  }
}

const state = initial()
const views = []
let active = null // the view that keys act on

function isChanged() {
  const {temperature, padding, beside, mask} = state
  const {force, ban: banned, write} = state
  const isSet = temperature !== 1 || padding > 0 || beside || mask !== null
  return isSet || force.size + banned.size + write.size > 0
}

const masksPadding = () =>
  state.mask ?? data.models.every(model => model.mask_padding)

// Whether a weight of one of the models can be set: those of hard_monotonic cannot.
const canForce = () =>
  data.models.some(model => model.attends && !model.force_reason)

const measured = () => ({width: innerWidth, height: innerHeight})
let look = colours()
let inside = measured() // of the window: reading it makes the browser lay out the page
