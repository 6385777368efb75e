// The address, which has everything that is shown after its #; and the map as a file.

const asText = {write: String, read: text => text.slice(0, 10000)}
const asFlag = {
  write: value => `${Number(value)}`,
  read: text => text === "1"
}
const asNumber = (least, most) => ({
  write: String,
  read: text =>
    Number(text) >= least && Number(text) <= most ? Number(text) : undefined
})

// A whole number, which is counted from `least` in the address and from 0 in the state, or is none.
const asCount = (least, most, first = least) => ({
  write: value => `${value + first}`,
  read: text => {
    const isRight = /^\d+$/.test(text) && text >= least && text <= most
    return isRight ? Number(text) - first : undefined
  }
})

// Entries such as 0,1;2,3.
const asEntries = (pattern, read) => ({
  write: entries => [...entries].join(";"),
  read: text => read(text.split(";").filter(entry => pattern.test(entry)))
})
const numbersIn = entry => entry.split(",").map(Number)

// How the address has the fields of the state, and what makes sense of it.
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
  ban: asEntries(/^\d{1,4}(,\d{1,4})?$/, entries => new Set(entries)),
  write: asEntries(/^\d{1,4},\d{1,4}$/, readWritten)
}

function readForce(entries) {
  const force = new Map()
  for (const [t, j, weight] of canForce() ? entries.map(numbersIn) : []) {
    force.set(`${t},${j}`, possible(force, t, j, weight))
  }
  return force
}

function readWritten(entries) {
  const symbols = Math.min(
    ...data.models.map(({target}) => target.tokens.length)
  )
  return new Map(entries.map(numbersIn).filter(([, id]) => id < symbols))
}

// What the state has beyond the usual, as the address has it. moment: with the batch that training
// has come to.
function fragment(moment = false) {
  const shown = {...state, until: (moment && training.step) || null}
  const usual = {...initial(), text: null, features: ""}
  const fields = new URLSearchParams()
  for (const [name, {write}] of Object.entries(FIELDS)) {
    const written = values =>
      values[name] === null ? "" : write(values[name])
    if (written(shown) !== written(usual)) fields.set(name, written(shown))
  }
  return `${fields}`
}

// The opposite of `fragment`: put the state of an address into the page. Fields that are missing or
// make no sense keep their usual values.
function restore(text) {
  const fields = new URLSearchParams(text)
  const {text: typed, features} = state
  Object.assign(state, initial(), {text: typed, features})
  for (const [name, {read}] of Object.entries(FIELDS)) {
    const value = fields.has(name) ? read(fields.get(name)) : undefined
    if (value !== undefined) state[name] = value
  }
}

let waiting = 0

// Write the state into the address, when nothing has changed for a moment.
function remember() {
  clearTimeout(waiting)
  waiting = setTimeout(() => {
    try {
      history.replaceState(null, "", `#${fragment()}`)
    } catch {
      // a browser may refuse it for files
    }
  }, 200)
}

function toast(text) {
  by("toast").textContent = text
  by("toast").hidden = false
  clearTimeout(toast.timer)
  toast.timer = setTimeout(() => {
    by("toast").hidden = true
  }, 4000)
}

// Copy a link to what is shown; where the clipboard is not allowed, show the link.
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

// On paper, maps are light.
const PAPER = {
  text: "#171c21",
  soft: "#edf0f2",
  line: "#c3cad1",
  held: "#c2410c",
  good: "#1a7f37",
  bad: "#b3261e"
}
const FINEST = 4 // pixels of the file for one of the page
const LARGEST = 8000 // pixels of a side

// Offer the map of the model that was touched last as a picture in a file.
function save() {
  const view = active.map ? active : views.find(one => one.map)
  if (!view) return
  const map = {...view.map, chosen: null}
  const layout = mapLayout(map, 46 * map.columns.length, 76)
  const {width, height} = layout
  const scale = Math.min(FINEST, LARGEST / Math.max(width, height))
  const canvas = make("canvas")
  const pen = new Pen(canvas, width, height, scale)
  pen.fill(0, 0, width, height, "#ffffff")
  new MapPainter(pen, map, layout, PAPER).paint()
  const href = canvas.toDataURL()
  make("a", {href, download: "attention.png"}).click()
}
