// The guided tour: a card on the page that asks a question at each of its stops, which are in
// stops.js, pairs.js and learning.js.

// Whether the map and the answer show step t. At some stops the tour hides steps that would answer
// its question, or that of the next stop.
let isUncovered = () => true

// The model that the tour is about: if possible one with attention whose weights can be set.
function shownModel() {
  const attending = views.filter(({attends}) => attends)
  return attending.find(({whyFixed}) => !whyFixed) ?? attending[0] ?? views[0]
}

// The stops that make sense for this page. A page of two models has those about their difference,
// or if there are none, those about one model.
function tourSteps() {
  const fitting = stops => stops.filter(stop => stop.of(shownModel()))
  if (training.worker) return fitting(LEARNING_STOPS)
  const pair = fitting(PAIR_STOPS)
  return pair.length ? pair : fitting(STOPS)
}

// Hide the answers and the cells of the maps; or show them, at those steps t for which shows(t).
function hideCells(isHidden = false, shows = () => true) {
  document.body.classList.toggle("covered", isHidden)
  isUncovered = shows
  draw()
}

// Go to a stop of the guided tour, by its number from 0: a stop asks a question, offers a button to
// press, and tells the result. Numbers beyond the last go to the last. Numbers in the maps are
// switched off. On a narrow screen, up to 940 pixels, as in the style sheet, the card covers the
// lower part, so that what the stop is about is scrolled to the top.
function visit(number) {
  if (playing) pause()
  document.body.classList.add("touring") // before anything is drawn, which has less room then
  state.numbers = false
  begin()
  const stops = tourSteps() // asks the models about their answers to the example
  state.tour = Math.min(number, stops.length - 1)
  const stop = stops[state.tour]
  begin(stop)
  hideCells(stop.covered)
  showCard(stop, state.tour, stops.length)
  light(null)
  const subject = by(training.worker ? "train" : "models")
  if (innerWidth <= 940) subject.scrollIntoView()
  else scrollTo({top: 0})
  card(".act").focus({preventScroll: true})
}

// Begin a stop with the first example and without changes, whatever the user did before; its own
// start comes after that.
function begin(stop) {
  undoAll()
  const {text, features} = initial()
  type(text, features)
  stop?.start?.(shownModel())
}

const card = selector => by("tour").querySelector(selector)

// Fill the card of the guided tour with a stop's question, and let the buttons of the card leave
// the tour, go back, do what the stop does, and go on. stop: as stops.js has it; number: from 0, of
// `count`. On a page of two models the title names the model, if the stop is about one of them.
function showCard(stop, number, count) {
  const view = shownModel()
  const isLast = number + 1 === count
  const model = STOPS.includes(stop) && nameBeside(view.spec)
  const title = model ? `${stop.title} (${model})` : stop.title
  const guesses = stop.guess?.(view) ?? []
  setText(card("h2"), `${number + 1} of ${count}: ${title}`)
  setText(card(".asked"), flowing(stop.ask(view)))
  setText(card(".told"), "")
  setText(card(".act"), stop.press)
  setText(card(".next-stop"), isLast ? "Done" : "Next")
  card(".guesses").replaceChildren(...guesses.map(guess))
  card(".leave").onclick = leave
  card(".back").onclick = () => visit(number - 1)
  card(".back").disabled = number === 0
  card(".act").onclick = () => act(stop, view)
  card(".next-stop").onclick = () => (isLast ? leave() : visit(number + 1))
  showAsked(true)
  by("tour").hidden = false
  makeRoom()
}

// Tell the style sheet how high the card is, so that the page leaves room for it.
function makeRoom() {
  document.body.style.setProperty(
    "--card-height",
    `${by("tour").offsetHeight}px`
  )
}

// Highlight the button of the stop while it asks (guesses are shown until the result is told);
// highlight the button that goes on after that. That button stays disabled until the result is
// told.
function showAsked(isAsking) {
  card(".act").classList.toggle("press", isAsking)
  card(".next-stop").classList.toggle("press", !isAsking)
  card(".next-stop").disabled = true
}

// A guess as a button. It stays pressed until another guess is pressed.
function guess(text) {
  const press = ({target}) => {
    for (const other of target.parentNode.children)
      other.ariaPressed = other === target
  }
  return button(text, press, {ariaPressed: "false"})
}

// Do what a stop of the guided tour does when its button is pressed: begin it again, since its
// question is about that, uncover the map, act, and tell the result. If `stop.act` has started to
// play the decoding or to train, the card says what to watch, and tells the result when that ends:
// `afterwards` is called then. While the decoding plays, `stop.shows` uncovers the map row by row;
// after that all rows are shown.
function act(stop, view) {
  begin(stop)
  hideCells(false, stop.shows)
  showAsked(false)
  stop.act(view)
  const tellResult = () => {
    card(".next-stop").disabled = false
    card(".told").replaceChildren(...linked(resultText(stop, view)))
    makeRoom()
    if (stop.act === play) hideCells()
  }
  if (!playing && !training.playing) return tellResult()
  afterwards = tellResult
  setText(
    card(".told"),
    playing ? "Watch the boxes light up." : "It trains: watch the charts."
  )
}

// A text as parts for an element: «page.html|title» becomes a link among the pages in docs/, and
// the title elsewhere.
const linked = text =>
  text.split(/«(.+?)»/).map((part, k) => {
    const [href, textContent = part] = part.split("|")
    const isLink = k % 2 && location.pathname.includes("/docs/")
    return isLink ? make("a", {href, textContent}) : textContent
  })

// Whether the user has guessed right, if there was a guess, and then what the stop tells.
function resultText(stop, view) {
  const guessed = card("[aria-pressed=true]")?.textContent
  const truth = stop.truth?.(view)
  const verdict = guessed === truth ? "right" : `wrong, it is “${truth}”`
  const onGuess = guessed ? `You guessed “${guessed}”: ${verdict}. ` : ""
  return onGuess + flowing(stop.tell(view))
}

// Close the card, and undo what the last stop changed, which would make the user's next strings
// wrong.
function leave() {
  if (playing) pause()
  state.tour = null
  by("tour").hidden = true
  document.body.classList.remove("touring")
  hideCells()
  undoAll()
}
