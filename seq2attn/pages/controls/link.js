// The address, which has everything that is shown after its #; and the map as a file.

// moment: with the batch that training has come to.
function fragment(moment = false) {
  const fields = {
    ...shownFields(),
    ...trainingFields(moment),
    ...changedFields()
  }
  const given = Object.entries(fields).filter(([, value]) => value)
  return `${new URLSearchParams([["text", state.text], ...given])}`
}

function shownFields() {
  const {step, position, features, numbers, tour, snapshots} = state
  const isLast = snapshots.every((at, k) => at === lastSnapshot(data.models[k]))
  return {
    step: step + 1,
    position: position !== null && position + 1,
    features,
    numbers: numbers && 1,
    tour: tour !== null && tour + 1,
    snapshots: !isLast && snapshots.join()
  }
}

function trainingFields(moment) {
  const [{training: own}] = data.models
  if (!own) return {}
  const {rate, seed} = state
  return {
    rate: rate !== own.rate && rate,
    seed: seed !== own.seed && `${seed}`,
    batch: moment && training.step
  }
}

function changedFields() {
  const {temperature, padding, mask} = state
  return {
    temperature: temperature !== 1 && temperature,
    padding,
    mask: mask !== null && `${Number(mask)}`,
    set: [...state.force].join(";"),
    ban: [...state.ban].join(";"),
    write: [...state.write].join(";")
  }
}

// What an address says, as far as it makes sense.
class Address {
  constructor(text) {
    this.fields = new URLSearchParams(text)
  }

  has(name) {
    return this.fields.has(name)
  }

  get(name, otherwise = "") {
    return this.fields.get(name) ?? otherwise
  }

  number(name, low, high, otherwise) {
    const value = Number(this.fields.get(name))
    return this.has(name) && value >= low && value <= high ? value : otherwise
  }

  whole(name, low, high, otherwise) {
    return Math.floor(this.number(name, low, high, otherwise))
  }

  // One counted from 1, as one counted from 0; null where there is none.
  counted(name, high) {
    return this.has(name) ? this.whole(name, 1, high, 1) - 1 : null
  }

  // Entries such as 0,1;2,3 whose first numbers are whole ones.
  rows(name, least, most) {
    const isWhole = part => /^\d{1,4}$/.test(part)
    const entries = this.get(name)
      .split(";")
      .map(row => row.split(","))
    const isRight = row =>
      row.length >= least &&
      row.length <= most &&
      row.slice(0, 2).every(isWhole)
    return entries.filter(isRight).map(row => row.map(Number))
  }
}

function restore(text) {
  const address = new Address(text)
  restoreShown(address)
  restoreTraining(address)
  restoreChanges(address)
}

function restoreShown(address) {
  state.text = address.get("text", state.text).slice(0, 10000)
  state.features = address.get("features") || state.features
  state.step = address.counted("step", 10000) ?? 0
  state.position = address.counted("position", 10000)
  state.numbers = address.get("numbers") === "1"
  state.tour = data.models[0].training ? null : address.counted("tour", 99)
  const shots = address.get("snapshots").split(",").map(Number)
  state.snapshots = data.models.map((model, k) => {
    const isKnown = address.has("snapshots") && model.snapshots[shots[k]]
    return isKnown ? shots[k] : lastSnapshot(model)
  })
}

function restoreTraining(address) {
  const {rate, seed} = data.models[0].training ?? {}
  state.rate = address.number("rate", 1e-4, 0.1, rate)
  state.seed = address.whole("seed", 0, 99999, seed)
  state.until = address.whole("batch", 1, 99999, 0) || null
}

function restoreChanges(address) {
  state.temperature = address.number("temperature", 0.001, 1000, 1)
  state.padding = address.whole("padding", 0, MOST_PADDING, 0)
  state.mask = address.has("mask") ? address.get("mask") === "1" : null
  state.force = new Map()
  for (const [t, j, weight] of canForce() ? address.rows("set", 3, 3) : []) {
    if (weight >= 0 && weight <= 1)
      state.force.set(`${t},${j}`, possible(t, j, weight))
  }
  state.ban = new Set(address.rows("ban", 1, 2).map(row => row.join()))
  const symbols = Math.min(
    ...data.models.map(model => model.target.tokens.length)
  )
  state.write = new Map(
    address.rows("write", 2, 2).filter(([, id]) => id < symbols)
  )
}

let waiting = 0

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

async function share() {
  const address = `${location.href.split("#")[0]}#${fragment(true)}`
  const opens =
    "It opens this page with your string and your changes, for those who have the file."
  try {
    await navigator.clipboard.writeText(address)
    toast(`The link is in the clipboard. ${opens}`)
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
const MARGIN = 8

function save() {
  const view = active.map ? active : views.find(one => one.map)
  if (!view) return
  const {columns, rows} = view.map
  const fitted = mapLayout(columns, rows, 46 * columns.length, state.numbers)
  const layout = {
    ...fitted,
    left: fitted.left + MARGIN,
    top: fitted.top + MARGIN
  }
  const [width, height] = [fitted.width, fitted.height].map(
    size => size + 2 * MARGIN
  )
  const pen = new SvgPen(width, height)
  pen.fill(0, 0, width, height, "#ffffff")
  new MapPainter(
    pen,
    {...view.map, chosen: null},
    layout,
    PAPER,
    state.numbers
  ).paint()
  const text = new XMLSerializer().serializeToString(pen.root)
  const href = URL.createObjectURL(new Blob([text], {type: "image/svg+xml"}))
  make("a", {href, download: "attention.svg"}).click()
  setTimeout(() => URL.revokeObjectURL(href), 1000)
}
