// The page: what the user types and changes, and what the models make of it.

// Let every model answer the string again, then draw. A string that a model cannot read is a
// message on the page.
function update() {
  for (const view of views) {
    try {
      view.compute()
    } catch (error) {
      view.problem = `${view.spec.name} cannot read that: ${error.message}`
    }
  }
  draw()
}

// Draw the page as the state is. A page that trains hides its models until its worker has sent the
// first weights.
function draw() {
  const shown = views.filter(view => view.now)
  const isUntrained = views.some(view => view.spec.training && !view.learnt)
  by("models").hidden = !shown.length
  by("models").style.visibility = isUntrained ? "hidden" : "" // not trained by this page
  keepWithin(
    "step",
    shown.map(view => view.now.steps)
  )
  keepWithin(
    "position",
    shown.map(view => view.sources)
  )
  drawMessage()
  drawControls()
  drawChanges()
  for (const view of views) view.draw()
  remember()
}

// Whether chosen or not, a place is one of what is shown.
function keepWithin(name, shown) {
  const last = Math.max(1, ...shown.map(({length}) => length)) - 1
  if (state[name] !== null) state[name] = between(state[name], 0, last)
}

// The line below the string: what is wrong with it, with a button for a spelling that the model can
// read, where there is one.
function drawMessage() {
  const {problem, offer} =
    views.find(view => view.problem !== undefined) ?? {}
  const isEmpty = views.every(view => view.empty)
  const parts = [problem ?? (isEmpty ? "Type a string." : "")]
  if (offer)
    parts.push(
      " · ",
      button(`use ${offer}`, () => take(offer, state.features))
    )
  by("message").replaceChildren(...parts)
  by("message").classList.toggle("problem", Boolean(problem))
  by("text").ariaInvalid = String(Boolean(problem))
}

// Let the controls show the state, which a link or another control may have changed.
function drawControls() {
  by("temperature").value = Math.log10(state.temperature)
  setText(by("temperature-value"), short(state.temperature))
  by("unscaled").checked = isUnscaled()
  by("padding").value = paddingOf(shownModel())
  by("beside").checked = state.beside
  by("mask").checked = masksPadding()
  by("reset").disabled = !isChanged()
  by("numbers").ariaPressed = String(state.numbers)
  document.body.classList.toggle("numbered", state.numbers)
}

function cellName(key) {
  const [one, other] = numbersIn(key).map(place => place + 1)
  return other ? `step ${one}, position ${other}` : `position ${one}`
}

// What the user can change, and how the bar says it: of a value, or of each that the user has set,
// with its key.
const SAID = {
  temperature: value =>
    isUnscaled() ? "without √D" : `temperature ${short(value)}`,
  padding: count => `padding ${count}`,
  beside: () => `beside “${NEIGHBOUR}”`,
  mask: isMasked => (isMasked ? "masked" : "not masked"),
  force: (weight, key) => `${cellName(key)}: ${short(weight)}`,
  ban: key => `${cellName(key)}: banned`,
  write: (id, t) => `step ${t + 1} writes ${views[0].symbol(id)}`
}

// What is changed: [text, act], which undoes it.
function changes() {
  const found = []
  for (const [name, told] of Object.entries(SAID)) {
    const value = state[name]
    const reset = () => Object.assign(state, {[name]: untouched[name]})
    if (value instanceof Object) {
      for (const [key, one] of value.entries())
        found.push([told(one, key), () => value.delete(key)])
    } else if (value !== untouched[name]) found.push([told(value), reset])
  }
  return found
}

// A button for each change that the user has made; pressing it undoes the change.
function drawChanges() {
  const made = changes().map(([text, undo]) => {
    const act = () => {
      undo()
      update()
    }
    return button(`${text} ✕`, act, {title: "undo"})
  })
  by("hint").hidden = made.length > 0
  refill(by("changes"), made)
  by("changes").scrollLeft = 1e6 // to the latest
}

// ---- the start ----

// Build the page: the state from its address, controls, and a view of each model.
function start() {
  by("back")?.toggleAttribute("hidden", self !== top) // the site's page around it leads there
  const [first] = data.models
  restore(location.hash.slice(1))
  prepareHeader(first)
  prepareControls()
  prepareText(first.source)
  for (const [number, spec] of data.models.entries()) {
    views.push(new View(spec, number))
    by("models").append(views[number].root)
  }
  ;[active] = views
  listen()
  prepareTips()
  update()
  if (first.training) prepareTraining()
  showPlaying()
  if (!matchMedia("(pointer: coarse)").matches) by("text").select() // typing works at once
  if (state.tour !== null) visit(state.tour)
}

function prepareHeader(first) {
  const isAlone = data.models.length === 1
  by("about").replaceChildren(...(isAlone ? describe(first) : []))
  by("about").hidden = !isAlone
  by("models").className = isAlone ? "" : "two"
  by("save").hidden = !data.models.some(model => model.attends)
}

// Hide the controls that none of the models has a use for.
function prepareControls() {
  const attends = data.models.some(model => model.attends)
  for (const id of ["temperature", "padding", "mask"])
    by(id).closest("label").hidden = !attends
  by("unscaled").closest("label").hidden = !data.models.every(dividesByRoot)
  by("beside").closest("label").hidden = data.models.some(
    model => !model.attends || model.mask_padding
  )
  if (!attends) setText(by("hint"), "Retype a symbol of the answer.")
  else if (!canForce())
    setText(by("hint"), "Ban a position, or retype a symbol.")
}

// The field for the string, buttons with examples, and a button for each symbol, for those that a
// keyboard lacks.
function prepareText({features, symbols}) {
  const examples = new Set(data.models.flatMap(model => model.examples))
  by("features-label").hidden = !features
  for (const text of examples) {
    const name = shownText(text).replace("␉", " ")
    by("examples").append(button(name, () => take(...text.split("\t"))))
  }
  for (const symbol of symbols) {
    by("symbols").append(button(shownSymbol(symbol), () => addSymbol(symbol)))
  }
  by("text").value = state.text
  by("features").value = state.features
}

function type(text, features = "") {
  by("text").value = text
  by("features").value = features
  Object.assign(state, {text, features, step: 0, position: null})
  update()
}

function addSymbol(symbol) {
  const {separator} = data.models[0].source
  type((state.text && state.text + separator) + symbol, state.features)
}

function take(text, features) {
  type(text, features)
  by("text").focus()
}

// ---- events ----

function listen() {
  listenToText()
  listenToControls()
  document.addEventListener("keydown", key)
  addEventListener("resize", redraw)
  addEventListener("hashchange", () => location.reload())
  matchMedia("(prefers-color-scheme: dark)").onchange = redraw
}

function redraw() {
  look = colours()
  drawTraining()
  draw()
}

// Answer with each letter that is typed; ↑ and ↓ choose the step meanwhile.
function listenToText() {
  for (const name of ["text", "features"]) {
    by(name).addEventListener("input", ({target}) => {
      if (playing) pause()
      state[name] = target.value
      update()
    })
  }
  by("text").addEventListener("keydown", event => {
    const move = {ArrowDown: 1, ArrowUp: -1}[event.key]
    if (!move) return
    choose(state.step + move, state.position)
    event.preventDefault()
  })
}

// set: an input with this id sets this field of the state, to what `read` makes of the element.
function listenToControls() {
  const set = (id, name, read) =>
    by(id).addEventListener("input", ({target}) => {
      state[name] = read(target)
      update()
    })
  const isUsual = checked =>
    data.models.every(model => model.mask_padding === checked)
  set("unscaled", "temperature", ({checked}) =>
    checked ? unscaled(shownModel()) : 1
  )
  set("temperature", "temperature", ({value}) =>
    Number((10 ** value).toPrecision(3))
  )
  set("padding", "padding", ({value}) => {
    state.beside = false // one or the other says how many
    return Number(value)
  })
  set("beside", "beside", ({checked}) => {
    state.padding = 0
    return checked
  })
  set("mask", "mask", ({checked}) => (isUsual(checked) ? null : checked))
  by("reset").onclick = undoAll
  by("share").onclick = share
  by("save").onclick = save
  by("numbers").onclick = toggleNumbers
  by("take-tour").onclick = () => visit(0)
}

// A key that is pressed anywhere. Those with Ctrl, Alt or Meta are the browser's, and in a text
// field letters are text.
function key(event) {
  const {target} = event
  if (
    event.ctrlKey ||
    event.metaKey ||
    event.altKey ||
    event.defaultPrevented
  )
    return
  if (event.key === "Escape") (state.tour === null ? undoAll : leave)()
  else if (target.closest("select, input:not([type=checkbox])")) return
  else if (event.key === "n") toggleNumbers()
  else if (event.key === "p") togglePlay()
  else if (event.key !== "Enter" || !target.closest("button, summary"))
    mapKey(event)
}

function toggleNumbers() {
  state.numbers = !state.numbers
  draw()
}

start()
by("damaged").remove()
