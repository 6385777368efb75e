// What the user has typed, chosen and changed: all that an answer and a drawing depend on.

const MOST_PADDING = 8

const untouched = unchanged()

// The state before the user does anything. Its fields are what a link keeps (link.js), but for
// `part`.
function initial() {
  const {examples, training: settings} = firstModel
  const [text, features = ""] = (examples[0] ?? "").split("\t")
  return {
    text, // the source string
    features, // and its features, for tasks that have some
    step: 0, // the chosen step
    position: null, // the chosen source position; null: the one with the largest weight
    numbers: false, // whether maps and bars show numbers
    snapshots: models.map(({snapshots}) => snapshots.length - 1), // of each model, the last
    part: null, // the part of a step that is highlighted
    tour: null, // the stop of the guided tour, from 0; null outside the tour
    rate: settings?.rate, // the learning rate of training
    seed: settings?.seed,
    until: null, // the batch at which training pauses
    ...unchanged() // the changes of a decoding: temperature, padding, mask, force, ban, write
  }
}

const state = initial()
const views = [] // a View of each model
let active = null // the view that keys act on

// Whether the user has changed anything of a decoding, of any model or of that of a View: a Set or
// Map of changes is not empty, or a value differs from the usual one. Only coverage can forget.
function isChanged(view = null) {
  const isOther = ([name, usual]) =>
    !(name === "forget" && view && !remembers(view)) &&
    (state[name]?.size ?? state[name] !== usual)
  return Object.entries(untouched).some(isOther)
}

// Whether a model masks padding: as the user wants it, or else as it did in training.
const masksPadding = spec => state.mask ?? spec.mask_padding

// Whether a weight of one of the models can be set: those of hard_monotonic cannot.
const canForce = () =>
  models.some(model => model.attends && !model.force_reason)

let look = colours()
