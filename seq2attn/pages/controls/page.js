// The page as a whole: it is built, computed, drawn, and listened to.

// Decode the string with every model, then draw: what to call after any change of what the models
// read, or of how they decode. What a model cannot read is said on the page, not thrown.
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

// Draw the page from the state, without decoding: what to call after a choice. A chosen step or
// position that no longer exists is first moved to the last one, as everything draws them. A page
// that trains hides its models until its worker has sent the first weights.
function draw() {
  const isUntrained = views.some(view => view.spec.training && !view.learnt)
  by("models").hidden = !views.some(view => view.now)
  by("models").style.visibility = isUntrained ? "hidden" : ""
  keepWithin("step", view => view.now?.steps)
  keepWithin("position", view => view.sources)
  drawMessage()
  drawControls()
  drawChanges()
  for (const view of views) view.draw()
  remember()
}

// Let state[name], an index that may also be null for "not chosen", be one of the longest of the
// lists that the views have.
function keepWithin(name, listOf) {
  const last =
    Math.max(1, ...views.map(view => listOf(view)?.length ?? 0)) - 1
  if (state[name] !== null) state[name] = between(state[name], 0, last)
}

// Draw the line below the string: why a model cannot read it, and a button for a spelling that it
// can read, if there is one (such as small letters).
function drawMessage() {
  const {problem, offer} = views.find(view => view.problem) ?? {}
  const isEmpty = views.every(view => view.empty)
  const parts = [problem ?? (isEmpty ? "Type a string." : "")]
  const use = () => take(offer, state.features)
  if (offer) parts.push(" · ", button(`use ${offer}`, use))
  by("message").replaceChildren(...parts)
  by("message").classList.toggle("problem", Boolean(problem))
  by("text").ariaInvalid = Boolean(problem)
}

// Set the controls from the state, which a link or another control may have changed. The slider of
// the temperature has its logarithm, so that 1 is in the middle.
function drawControls() {
  by("temperature").value = Math.log10(state.temperature)
  setText(by("temperature-value"), short(state.temperature))
  by("unscaled").checked = isUnscaled()
  by("padding").value = paddingOf(shownModel())
  by("beside").checked = state.beside
  by("mask").checked = masksPadding(firstModel)
  by("reset").disabled = !isChanged()
  by("numbers").ariaPressed = state.numbers
}

// The name of a place, "t,j" or "j": "step 2, position 1" or "position 1".
function cellName(key) {
  const [first, second] = numbersIn(key).map(index => index + 1)
  return second ? `step ${first}, position ${second}` : `position ${first}`
}

// How each change that the user can make is named on its button. Of a Map or Set of changes, such
// as the weights that are set, each has a button of its own: it is named by its value and its key.
const CHANGE_NAMES = {
  temperature: value =>
    isUnscaled() ? "without √D" : `temperature ${short(value)}`,
  padding: count => `padding ${count}`,
  beside: () => `beside “${NEIGHBOUR}”`,
  mask: isMasked => (isMasked ? "masked" : "not masked"),
  force: (weight, key) => `${cellName(key)}: ${short(weight)}`,
  ban: key => `${cellName(key)}: banned`,
  forget: key => `${cellName(key)}: forgotten`,
  write: (id, t) => `step ${t + 1} writes ${views[0].symbol(id)}`
}

// A button for each change that the user has made. A field of the state either has one value, which
// differs from the usual one if the user has changed it, or is a Map or Set, in which each entry is
// a change.
function changeButtons() {
  const buttons = []
  const add = (name, undo) => {
    const undoAndUpdate = () => {
      undo()
      update()
    }
    buttons.push(button(`${name} ✕`, undoAndUpdate, {title: "undo"}))
  }
  for (const [field, nameOf] of Object.entries(CHANGE_NAMES)) {
    const value = state[field]
    const usual = {[field]: untouched[field]}
    if (value instanceof Object) {
      for (const [key, entry] of value.entries())
        add(nameOf(entry, key), () => value.delete(key))
    } else if (value !== usual[field]) {
      add(nameOf(value), () => Object.assign(state, usual))
    }
  }
  return buttons
}

// Draw the changes that the user has made, in place of the hint.
function drawChanges() {
  const buttons = changeButtons()
  by("hint").hidden = buttons.length > 0
  refill(by("changes"), buttons)
}

// ---- building ----

// Build the page: take the state from the address, prepare header and controls, make a View of each
// model, and draw. Tips are prepared after the views, since views have tips too; a tour that the
// link is in the middle of comes last, since it types and draws.
function start() {
  by("back")?.toggleAttribute("hidden", self !== top) // the site's page around it leads there
  restore(location.hash.slice(1))
  prepareHeader()
  prepareControls()
  prepareText()
  for (const [number, spec] of models.entries()) {
    const view = new View(spec, number)
    views.push(view)
    by("models").append(view.root)
  }
  active = views[0]
  listen()
  prepareTips()
  update()
  if (firstModel.training) prepareTraining()
  showPlaying()
  const hasMouse = !matchMedia("(pointer: coarse)").matches
  if (hasMouse) by("text").select() // one can type at once; a phone would open its keyboard
  if (state.tour !== null) visit(state.tour)
}

// Fill the head of the page: the facts about its model, if it has only one; two have their own.
function prepareHeader() {
  if (hasOneModel) by("about").replaceChildren(...describe(firstModel))
  else by("models").className = "two"
}

// Hide the controls that mean nothing to the models of this page: all for models without attention;
// "without √D" if a score is not divided by it; and the padding that a longer string brings, unless
// the first model was trained without a mask, for which alone it matters.
function prepareControls() {
  const attends = models.some(model => model.attends)
  for (const id of ["temperature", "padding", "mask"])
    labelOf(id).hidden = !attends
  labelOf("unscaled").hidden = !models.every(dividesByRoot)
  const isMasked = firstModel.mask_padding
  labelOf("beside").hidden = !attends || isMasked
  if (!isMasked) setText(by("mask-name"), "mask now (trained without a mask)")
  if (!attends) setText(by("hint"), "Retype a symbol of the answer.")
  else if (models.some(model => model.force_reason))
    setText(by("hint"), "Ban a position, or retype a symbol.")
}

// Fill the field for the string, and add buttons: for examples, "string" or "string TAB features";
// and for all symbols, since a keyboard may lack some.
function prepareText() {
  const {features, symbols} = firstModel.source
  const examples = new Set(models.flatMap(model => model.examples))
  by("features-label").hidden = !features
  for (const example of examples) {
    const name = shownText(example).replace("␉", " ")
    by("examples").append(button(name, () => take(...example.split("\t"))))
  }
  for (const symbol of symbols) {
    by("symbols").append(button(shownSymbol(symbol), () => addSymbol(symbol)))
  }
  by("text").value = state.text
  by("features").value = state.features
}

// Put a string into its field as if the user had typed it. What was chosen before is not kept.
function type(text, features = "") {
  by("text").value = text
  by("features").value = features
  Object.assign(state, {text, features, step: 0, position: null})
  update()
}

function addSymbol(symbol) {
  const {separator} = firstModel.source
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
  document.onkeydown = onKey
  addEventListener("resize", redraw)
  addEventListener("hashchange", () => location.reload())
  matchMedia("(prefers-color-scheme: dark)").onchange = redraw
}

function redraw() {
  look = colours()
  drawTraining()
  draw()
}

// Decode at each letter that is typed.
function listenToText() {
  for (const name of ["text", "features"]) {
    by(name).oninput = ({target}) => {
      if (playing) pause()
      state[name] = target.value
      update()
    }
  }
}

// Let the controls set the state. `bind`: whenever the control with this id changes, the field of
// the state becomes what `read` makes of the control. "Padding" and "beside" both say how many
// empty positions there are: each switches the other off. Null stands for masking as in training.
function listenToControls() {
  const bind = (id, field, read) => {
    by(id).oninput = ({target}) => {
      state[field] = read(target)
      update()
    }
  }
  bind("unscaled", "temperature", ({checked}) =>
    checked ? unscaled(shownModel()) : 1
  )
  bind("temperature", "temperature", ({value}) =>
    Number((10 ** value).toPrecision(3))
  )
  bind("padding", "padding", ({value}) => {
    state.beside = false
    return Number(value)
  })
  bind("beside", "beside", ({checked}) => {
    state.padding = 0
    return checked
  })
  bind("mask", "mask", ({checked}) =>
    checked === firstModel.mask_padding ? null : checked
  )
  by("reset").onclick = undoAll
  by("share").onclick = share
  by("numbers").onclick = toggleNumbers
  by("take-tour").onclick = () => visit(0)
}

// Whether a key belongs to the element that has the focus: in a field letters are typed and arrows
// move, and Enter presses a button. ↑ and ↓ do not belong to the field of the string, which has one
// line: they choose the step.
function isForElement({key, target}) {
  const isForStep = target === by("text") && /^Arrow(Up|Down)$/.test(key)
  const isInField = target.closest("select, input:not([type=checkbox])")
  const isPress = key === "Enter" && target.closest("button, summary")
  return isPress || (isInField && !isForStep)
}

// A key that was pressed anywhere on the page, and was not handled by the element itself. Escape
// undoes all, or leaves the tour; n and p act on the page, and all others on the map.
function onKey(event) {
  const {key} = event
  if (isCommand(event) || event.defaultPrevented) return
  if (key === "Escape") (state.tour === null ? undoAll : leave)()
  else if (isForElement(event)) return
  else if (key === "n") toggleNumbers()
  else if (key === "p") togglePlay()
  else mapKey(event)
}

function toggleNumbers() {
  state.numbers = !state.numbers
  draw()
}

start()
by("damaged").remove() // last: if the script stops before this, the page says that it is damaged
