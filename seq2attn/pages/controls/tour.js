// The guided tour: its card, and what of the map is covered meanwhile.

let isUncovered = () => true // of a step: while the tour asks, the map hides what it asks for

// The model that the tour is about.
function shownModel() {
  const attending = views.filter(({attends}) => attends)
  return attending.find(({whyFixed}) => !whyFixed) ?? attending[0] ?? views[0]
}

// The stops for what the page shows: of two models with a contrast, those about it.
function tourSteps() {
  const fitting = stops => stops.filter(stop => stop.of(shownModel()))
  if (training.worker) return fitting(LEARNING_STOPS)
  const pair = fitting(PAIR_STOPS)
  return pair.length ? pair : fitting(STOPS)
}

function cover(on, shows = () => true) {
  document.body.classList.toggle("covered", on)
  isUncovered = shows
  draw()
}

// Begin a stop of the tour, with the first example and without changes. On a narrow screen the card
// covers the lower part: what the stop is about goes to the top.
function visit(wanted) {
  if (playing) pause()
  state.numbers = false
  undoAll()
  type(...data.models[0].examples[0].split("\t"))
  const stops = tourSteps()
  state.tour = Math.min(wanted, stops.length - 1)
  const stop = stops[state.tour]
  stop.start?.(shownModel())
  cover(Boolean(stop.covered))
  showCard(stop, state.tour, stops.length)
  light(null)
  const shown = by(training.worker ? "train" : "models")
  if (innerWidth < 941) shown.scrollIntoView()
  else scrollTo({top: 0})
  document.body.classList.add("touring")
  card(".act").focus({preventScroll: true})
}

const card = name => by("tour").querySelector(name)

// What a stop asks, and what its buttons do.
function showCard(stop, number, count) {
  const view = shownModel()
  const isLast = number + 1 === count
  const whose = STOPS.includes(stop) && nameBeside(view.spec)
  const title = whose ? `${stop.title} (${whose})` : stop.title
  setText(card("h2"), `${number + 1} of ${count}: ${title}`)
  setText(card(".asked"), flowing(stop.ask(view)))
  setText(card(".told"), "")
  setText(card(".act"), stop.press)
  setText(card(".next-stop"), isLast ? "Done" : "Next")
  card(".guesses").replaceChildren(...(stop.guess?.(view) ?? []).map(guess))
  card(".leave").onclick = leave
  card(".back").onclick = () => visit(number - 1)
  card(".back").disabled = number === 0
  card(".act").onclick = () => act(stop, view)
  card(".next-stop").onclick = () => (isLast ? leave() : visit(number + 1))
  showAsked(true)
  by("tour").hidden = false
  makeRoom()
}

// What the card would cover moves down.
function makeRoom() {
  document.body.style.setProperty(
    "--card-height",
    `${by("tour").offsetHeight}px`
  )
}

// Whether the stop asks, or acts: the button to press next is the coloured one. What comes of it
// has to be told before one can go on.
function showAsked(isAsked) {
  card(".guesses").hidden = !isAsked
  card(".act").classList.toggle("press", isAsked)
  card(".next-stop").classList.toggle("press", !isAsked)
  card(".next-stop").disabled = true
}

// A guess as a button: of all of them, the last that was pressed counts.
function guess(text) {
  const press = ({target}) => {
    for (const other of target.parentNode.children)
      other.ariaPressed = String(other === target)
  }
  return button(text, press, {ariaPressed: "false"})
}

// Do what a stop does, and tell what came of it: at once, or when what it has started ends, playing
// or training.
function act(stop, view) {
  cover(false, stop.shows)
  showAsked(false)
  stop.act(view)
  const told = () => {
    card(".next-stop").disabled = false
    setText(card(".told"), answered(stop, view))
    makeRoom()
    if (stop.act === play) cover(false)
  }
  if (playing || training.playing) afterwards = told
  else told()
}

function answered(stop, view) {
  const guessed = card("[aria-pressed=true]")?.textContent
  const truth = stop.truth?.(view)
  const verdict = guessed === truth ? "right" : `wrong, it is “${truth}”`
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
