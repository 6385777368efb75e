// The address of the page, which after its # has all that is shown, such as "text=hello&step=2".

// How fields of the state are written in an address and read from it: {write: value -> text, read:
// text -> value, or undefined if the text makes no sense}.
const asText = {write: String, read: text => text.slice(0, 10000)}
const asFlag = {
  write: value => `${Number(value)}`,
  read: text => text === "1"
}

// A number from `least` to `most` in the address, where steps and positions are counted from 1;
// `first` there is 0 in the state.
const asNumber = (least, most, first = 0, pattern = /./) => ({
  write: value => `${value + first}`,
  read: text => {
    const isRight = pattern.test(text) && text >= least && text <= most
    return isRight ? Number(text) - first : undefined
  }
})
const asCount = (least, most, first = least) =>
  asNumber(least, most, first, /^\d+$/)

// A Map or Set as entries such as "0,1;2,3"; those that do not have the pattern are left out.
const asEntries = (pattern, read) => ({
  write: entries => [...entries].join(";"),
  read: text => read(text.split(";").filter(entry => pattern.test(entry)))
})
const asPlaces = asEntries(
  /^\d{1,4}(,\d{1,4})?$/,
  entries => new Set(entries)
)
const numbersIn = entry => entry.split(",").map(Number)

// How the address has each field of the state that it keeps.
const FIELDS = {
  text: asText,
  features: asText,
  step: asCount(1, 10000),
  position: asCount(1, 10000),
  numbers: asFlag,
  snapshots: {write: String, read: numbersIn},
  tour: asCount(1, 99),
  rate: asNumber(1e-4, 0.1),
  seed: asCount(0, 99999),
  until: asCount(1, 99999, 0),
  temperature: asNumber(0.001, 1000),
  padding: asCount(0, MOST_PADDING),
  beside: asFlag,
  mask: asFlag,
  force: asEntries(/^\d{1,4},\d{1,4},[01](\.\d+)?$/, readForce),
  ban: asPlaces,
  forget: asPlaces,
  write: asEntries(/^\d{1,4},\d{1,4}$/, readWritten)
}

// Weights that are set, Map "t,j" -> weight, from entries "t,j,weight": within what is possible,
// and none if the weights of no model can be set.
function readForce(entries) {
  const force = new Map()
  const allowed = canForce() ? entries : []
  for (const [t, j, weight] of allowed.map(numbersIn)) {
    force.set(`${t},${j}`, possible(force, t, j, weight))
  }
  return force
}

// Symbols that the user wrote, Map t -> id, from entries "t,id": ids that the models have.
function readWritten(entries) {
  const {length} = firstModel.target.tokens
  return new Map(entries.map(numbersIn).filter(([, id]) => id < length))
}

// The state as an address has it, "text=hello&step=2": the text, and those fields that differ from
// the initial state. withBatch: also the batch that training has come to, so that the link trains
// up to it.
function fragment(withBatch = false) {
  const shown = {...state, until: (withBatch && training.step) || null}
  const usual = {...initial(), features: ""} // of a text: written unless there are none
  const fields = new URLSearchParams()
  for (const [name, {write}] of Object.entries(FIELDS)) {
    const textOf = value => (value === null ? "" : write(value))
    const text = textOf(shown[name])
    if (name === "text" || text !== textOf(usual[name]))
      fields.set(name, text)
  }
  return `${fields}`
}

// The opposite of `fragment`: set the state from an address. Fields that the address lacks, or that
// make no sense there, get their initial values.
function restore(address) {
  const fields = new URLSearchParams(address)
  Object.assign(state, initial())
  for (const [name, {read}] of Object.entries(FIELDS)) {
    const value = fields.has(name) ? read(fields.get(name)) : undefined
    if (value !== undefined) state[name] = value
  }
}

let waiting = 0 // the timer of `remember`

// Write the state into the address once it has not changed for 0.2 seconds: browsers allow only so
// many changes of the address in a time, and a slider makes many.
function remember() {
  clearTimeout(waiting)
  waiting = setTimeout(() => {
    try {
      history.replaceState(null, "", `#${fragment()}`)
    } catch {
      // some browsers refuse it for pages that are files
    }
  }, 200)
}

// Show a message at the edge of the window for four seconds.
function toast(text) {
  by("toast").textContent = text
  by("toast").hidden = false
  clearTimeout(toast.timer)
  toast.timer = setTimeout(() => {
    by("toast").hidden = true
  }, 4000)
}

// Copy a link to what is on the screen; if the browser does not allow that, show the link.
async function share() {
  const address = `${location.href.split("#")[0]}#${fragment(true)}`
  try {
    await navigator.clipboard.writeText(address)
    toast(`The link is in the clipboard. It opens this page with your string and your changes, for
      those who have the file.`)
  } catch {
    toast(address)
  }
}
