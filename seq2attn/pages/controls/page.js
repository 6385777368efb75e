// The page: what a person types and changes, and what the models make of it.

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

function draw() {
  const shown = views.filter(view => view.now)
  const steps = Math.max(1, ...shown.map(view => view.now.steps.length))
  const isUntrained = views.some(view => view.spec.training && !view.learnt)
  by("models").hidden = !shown.length
  by("models").style.visibility = isUntrained ? "hidden" : "" // not trained by this page
  state.step = Math.min(state.step, steps - 1)
  drawMessage()
  drawControls()
  drawChanges()
  for (const view of views) view.draw(look)
  remember()
}

function drawMessage() {
  const {problem, offer} = views.find(view => view.problem !== undefined) ?? {}
  const parts = [
    problem ?? (views.every(view => view.empty) ? "Type a string." : "")
  ]
  const take = () => {
    type(offer, state.features)
    by("text").focus()
  }
  if (offer) parts.push(" · ", button(`use ${offer}`, take))
  by("message").replaceChildren(...parts)
  by("message").classList.toggle("problem", Boolean(problem))
  by("text").setAttribute("aria-invalid", String(Boolean(problem)))
}

function drawControls() {
  by("temperature").value = Math.log10(state.temperature)
  say(by("temperature-value"), short(state.temperature))
  by("unscaled").checked = shownModel().now && isUnscaled()
  by("padding").value = state.padding
  by("mask").checked = masksPadding()
  by("reset").disabled = !isChanged()
  by("numbers").setAttribute("aria-pressed", String(state.numbers))
}

function cellName(key) {
  const [one, other] = key.split(",").map(place => Number(place) + 1)
  return other ? `step ${one}, position ${other}` : `position ${one}`
}

// A button for each change, which undoes it: [text, act].
function changes() {
  const {temperature, padding, mask} = state
  const found = []
  const add = (isSet, text, name) => {
    if (isSet)
      found.push([text, () => Object.assign(state, {[name]: untouched[name]})])
  }
  const heated = isUnscaled()
    ? "without √D"
    : `temperature ${short(temperature)}`
  add(temperature !== 1, heated, "temperature")
  add(padding, `padding ${padding}`, "padding")
  add(mask !== null, mask ? "masked" : "not masked", "mask")
  for (const [key, weight] of state.force) {
    found.push([
      `${cellName(key)}: ${short(weight)}`,
      () => state.force.delete(key)
    ])
  }
  for (const key of state.ban) {
    found.push([`${cellName(key)}: banned`, () => state.ban.delete(key)])
  }
  for (const [t, id] of state.write) {
    const text = `step ${t + 1} writes ${views[0].symbol(id)}`
    found.push([text, () => state.write.delete(t)])
  }
  return found
}

function drawChanges() {
  const made = changes().map(([text, undo]) => {
    const act = () => {
      undo()
      update()
    }
    return button(`${text} ✕`, act, {title: "undo"})
  })
  by("hint").hidden = made.length > 0
  by("changes").replaceChildren(...made)
  by("changes").scrollLeft = 1e6 // to the latest
}

// ---- the start ----

function start() {
  const [first] = data.models
  const examples = [...new Set(data.models.flatMap(model => model.examples))]
  ;[state.text, state.features = ""] = (examples[0] ?? "").split("\t")
  restore(location.hash.slice(1))
  prepareHeader(first)
  prepareControls()
  prepareText(first.source, examples)
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
  by("take-tour").hidden = Boolean(first.training) // it speaks of what was learnt
  by("save").hidden = !data.models.some(model => model.attends)
}

function prepareControls() {
  const attends = data.models.some(model => model.attends)
  for (let count = 0; count <= MOST_PADDING; count++) {
    by("padding").append(
      make("option", {value: count, textContent: `${count}`})
    )
  }
  for (const id of ["temperature", "padding", "mask"])
    by(id).closest("label").hidden = !attends
  by("unscaled").closest("label").hidden = !data.models.every(dividesByRoot)
  if (!attends) say(by("hint"), "Retype a symbol of the answer.")
  else if (!canForce()) say(by("hint"), "Ban a position, or retype a symbol.")
}

function prepareText({features, symbols, separator}, examples) {
  by("features-label").hidden = !features
  for (const text of examples) {
    const take = () => {
      type(...text.split("\t"))
      by("text").focus()
    }
    by("examples").append(button(shownText(text).replace("␉", " "), take))
  }
  for (const symbol of symbols) {
    const add = () =>
      type((state.text && state.text + separator) + symbol, state.features)
    by("symbols").append(button(shownSymbol(symbol), add))
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

// ---- events ----

function listen() {
  listenToText()
  listenToControls()
  document.addEventListener("keydown", key)
  addEventListener("resize", () => {
    inside = measured()
    drawTraining()
    for (const view of views) view.rooms.clear()
    draw()
  })
  addEventListener("hashchange", () => {
    restore(location.hash.slice(1))
    by("text").value = state.text
    for (const view of views) view.load(state.snapshots[view.number])
    update()
    if (state.tour !== null) visit(state.tour)
  })
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    look = colours()
    draw()
    drawTraining()
  })
}

function listenToText() {
  by("text").addEventListener("input", () => {
    if (playing) pause()
    state.text = by("text").value
    update()
  })
  by("features").addEventListener("input", () => {
    state.features = by("features").value
    update()
  })
  by("text").addEventListener("keydown", event => {
    const move = {ArrowDown: 1, ArrowUp: -1}[event.key]
    if (!move) return
    choose(state.step + move, state.position)
    event.preventDefault()
  })
}

function listenToControls() {
  const set = (id, event, change) =>
    by(id).addEventListener(event, () => {
      change(by(id))
      update()
    })
  set("unscaled", "change", ({checked}) => {
    state.temperature = checked ? unscaled(shownModel()) : 1
  })
  set("temperature", "input", ({value}) => {
    state.temperature = Number((10 ** value).toPrecision(3))
  })
  set("padding", "change", ({value}) => {
    state.padding = Number(value)
  })
  set("mask", "change", ({checked}) => {
    const isUsual = data.models.every(model => model.mask_padding === checked)
    state.mask = isUsual ? null : checked
  })
  const presses = {
    reset: undoAll,
    share,
    save,
    numbers: toggleNumbers,
    "take-tour": () => visit(0)
  }
  for (const [id, act] of Object.entries(presses))
    by(id).addEventListener("click", act)
  const scale = data.colours.map(parts => `rgb(${parts.join()})`).join()
  for (const view of views) {
    view.find("figcaption i").style.background =
      `linear-gradient(90deg, ${scale})`
  }
}

function key(event) {
  const {target} = event
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented)
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
  rebuild()
  draw()
}

// The bars' columns: with numbers they are wider.
function rebuild() {
  for (const view of views) view.panel.bars.columns = []
}

start()
by("damaged").remove()
