// The guided tour: its card, and what of the map is covered meanwhile.

let isUncovered = () => true // of a step: while the tour asks, the map hides what it asks for

function toured() {
  const {models} = data
  const isOpen = model => model.attends && !model.force_reason
  return models.find(isOpen) ?? models.find(attends) ?? models[0]
}

const shownModel = () => views[data.models.indexOf(toured())]

// The stops for what the page shows: of two models with a contrast, those about it.
function tourSteps() {
  if (training.worker) return LEARNING_STOPS.filter(stop => stop.of())
  const fitting = stops =>
    stops.filter(stop => stop.of(toured(), shownModel()))
  const pair = fitting(PAIR_STOPS)
  return pair.length > 1 ? pair : [...pair, ...fitting(STOPS)]
}

function cover(on, shows = () => true) {
  document.body.classList.toggle("covered", on)
  isUncovered = shows
  draw()
}

// Begin a stop of the tour: the first example, without changes.
function visit(wanted) {
  if (playing) pause()
  Object.assign(state, {numbers: false, step: 0})
  rebuild()
  undoAll()
  type(...data.models[0].examples[0].split("\t"))
  const stops = tourSteps()
  state.tour = Math.min(wanted, stops.length - 1)
  const stop = stops[state.tour]
  stop.start?.(shownModel())
  cover(Boolean(stop.covered))
  const press = showCard(stop, state.tour, stops.length)
  light(null)
  if (innerWidth < 941) by("models").scrollIntoView()
  else scrollTo({top: 0})
  document.body.classList.add("touring")
  press.focus({preventScroll: true})
}

// Fill the card with what a stop asks; returns the button that shows what it tells.
function showCard(stop, number, count) {
  const view = shownModel()
  const isLast = number + 1 === count
  const guesses = make("div", {
    className: "guesses",
    role: "group",
    ariaLabel: "your guess"
  })
  const told = make("p", {className: "told", ariaLive: "polite"})
  const go = () => (isLast ? leave() : visit(number + 1))
  const next = button(isLast ? "Done" : "Next", go, {
    className: "next-stop"
  })
  const back = button("Back", () => visit(number - 1), {
    disabled: number === 0
  })
  const press = button(stop.press, () => act(stop, view), {
    className: "press"
  })
  guesses.append(...(stop.guess?.(view) ?? []).map(guess))
  by("tour").replaceChildren(
    make("h2", {
      textContent: `${number + 1} of ${count}: ${stop.title}`
    }),
    make("p", {textContent: flowing(stop.ask(view))}),
    guesses,
    told,
    make(
      "div",
      {className: "buttons"},
      button("Leave", leave),
      back,
      press,
      next
    )
  )
  by("tour").hidden = false
  return press
}

// A guess as a button: of all of them, the last that was pressed counts.
function guess(text) {
  const press = ({target}) => {
    for (const other of target.parentNode.children)
      other.ariaPressed = String(other === target)
  }
  return button(text, press, {ariaPressed: "false"})
}

// Do what a stop does, and tell what came of it: where the decoding is played, at its end.
function act(stop, view) {
  const card = by("tour")
  cover(false, stop.shows)
  card.querySelector(".guesses").hidden = true
  card.querySelector(".press").classList.remove("press")
  card.querySelector(".next-stop").classList.add("press")
  stop.act(view)
  const told = () => {
    say(card.querySelector(".told"), answered(stop, view))
    if (stop.act === play) cover(false)
  }
  if (playing || training.playing) afterwards = told
  else told()
}

function answered(stop, view) {
  const guessed = by("tour").querySelector("[aria-pressed=true]")?.textContent
  const verdict = guessed === stop.truth?.(view) ? "right" : "wrong"
  const said = guessed ? `You guessed “${guessed}”: ${verdict}. ` : ""
  return said + flowing(stop.tell(view))
}

function leave() {
  if (playing) pause()
  state.tour = null
  by("tour").hidden = true
  document.body.classList.remove("touring")
  cover(false)
  undoAll()
}
