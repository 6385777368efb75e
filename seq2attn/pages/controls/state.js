// What the user has typed, chosen and changed.

const MOST_PADDING = 8

const untouched = unchanged()

// The state before the user does anything: the first example, without changes.
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
  const isOther = ([name, usual]) =>
    state[name]?.size ?? state[name] !== usual
  return Object.entries(untouched).some(isOther)
}

const masksPadding = () =>
  state.mask ?? data.models.every(model => model.mask_padding)

// Whether a weight of one of the models can be set: those of hard_monotonic cannot.
const canForce = () =>
  data.models.some(model => model.attends && !model.force_reason)

let look = colours()
