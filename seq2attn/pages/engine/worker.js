// Training in a worker, so that the page can be typed in meanwhile.

const REPORT = 150 // milliseconds between two reports at least

// Trains in small steps between the messages of the page, and reports what is new whenever the page
// has drawn the report before.
class Trainer {
  constructor() {
    this.settings = {} // {rate, mask, until}
    this.playing = false
    this.seen = true // whether the page has drawn the last report
    this.reported = 0
    this.news = []
  }

  // A message of the page, with the settings at that time. {kind: "start", specs, seed} begins
  // anew; "run", "pause" and "step" are the buttons; "seen": the last report is drawn, the next may
  // come. While steps run, `tick` reports; otherwise this does, but not to "seen" without news.
  receive({kind, specs, seed, ...settings}) {
    this.settings = settings
    if (kind === "start") this.race = new Race(specs, seed)
    if (kind === "seen") this.seen = true
    else if (kind === "run") this.play()
    else this.playing = false
    if (kind === "step") this.once()
    if (!this.playing && (kind !== "seen" || this.news.length)) this.report()
  }

  play() {
    if (!this.playing) setTimeout(() => this.tick())
    this.playing = true
  }

  // Takes a step, and comes back after the messages that have arrived meanwhile.
  tick() {
    if (this.playing) {
      this.once()
      setTimeout(() => this.tick())
    }
    this.report()
  }

  // Takes one step of each model, and an exam now and then. Stops at the step `until`, and where a
  // loss is not finite.
  once() {
    const {rate, mask, until} = this.settings
    const {lengths, each} = this.race.advance(rate, mask)
    const losses = each.map(({loss}) => loss)
    this.news.push({
      lengths,
      losses,
      right: each.map(({right}) => [...right]),
      exams: this.race.step % EXAM.every ? null : this.race.examine(mask)
    })
    if (this.race.step === until || !losses.every(Number.isFinite))
      this.playing = false
  }

  // Sends what is new, unless the page is still drawing, or drew just now.
  report() {
    const isEarly = this.playing && performance.now() - this.reported < REPORT
    if (!this.seen || isEarly) return
    const {race, news} = this
    const weights = race.learners.map(learner => learner.weights())
    postMessage({step: race.step, news, weights})
    Object.assign(this, {
      seen: false,
      reported: performance.now(),
      news: []
    })
  }
}

function serve() {
  const trainer = new Trainer()
  addEventListener("message", ({data}) => trainer.receive(data))
}
