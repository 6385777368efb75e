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
  const fitting = stops => stops.filter(stop => stop.of(toured(), shownModel()))
  const pair = fitting(PAIR_STOPS)
  return pair.length ? pair : fitting(STOPS)
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
  const card = new Card(stop, state.tour, stops.length)
  by("tour").replaceChildren(...card.parts())
  by("tour").hidden = false
  light(null)
  if (innerWidth < 941) by("models").scrollIntoView()
  else scrollTo({top: 0})
  document.body.classList.add("touring")
  card.press.focus({preventScroll: true})
}

// What a stop asks and tells.
class Card {
  constructor(stop, number, count) {
    const isLast = number + 1 === count
    const go = () => (isLast ? leave() : visit(number + 1))
    Object.assign(this, {stop, number, count, view: shownModel(), guessed: ""})
    this.guesses = make("div", {
      className: "guesses",
      role: "group",
      ariaLabel: "your guess"
    })
    this.guesses.append(
      ...(stop.guess?.(this.view) ?? []).map(text => this.guess(text))
    )
    this.told = make("p", {className: "told", ariaLive: "polite"})
    this.next = button(isLast ? "Done" : "Next", go, {className: "next-stop"})
    this.press = button(stop.press, () => this.act(), {className: "press"})
  }

  parts() {
    const back = button("Back", () => visit(this.number - 1), {
      disabled: this.number === 0
    })
    const all = [button("Leave", leave), back, this.press, this.next]
    const title = `${this.number + 1} of ${this.count}: ${this.stop.title}`
    return [
      make("h2", {textContent: title}),
      make("p", {textContent: this.stop.ask(this.view)}),
      this.guesses,
      this.told,
      make("div", {className: "buttons"}, ...all)
    ]
  }

  guess(text) {
    const choice = () => {
      this.guessed = text
      for (const other of this.guesses.children) {
        other.setAttribute("aria-pressed", String(other === made))
      }
    }
    const made = button(text, choice, {ariaPressed: "false"})
    return made
  }

  act() {
    cover(false, this.stop.shows)
    this.guesses.hidden = true
    this.next.classList.add("press")
    this.press.classList.remove("press")
    this.stop.act(this.view)
    if (playing) afterwards = () => this.tell()
    else this.tell()
  }

  tell() {
    const {stop, view, guessed} = this
    const verdict = guessed === stop.truth?.(view) ? "right" : "wrong"
    const judged = guessed && `You guessed “${guessed}”: ${verdict}.`
    this.told.textContent = sentences(judged, stop.tell(view))
    if (stop.act === play) cover(false)
  }
}

function leave() {
  if (playing) pause()
  state.tour = null
  by("tour").hidden = true
  document.body.classList.remove("touring")
  cover(false)
  undoAll()
}
