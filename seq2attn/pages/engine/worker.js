// Training in a worker, so that the page can be typed in meanwhile.

const REPORT = 150 // milliseconds between two reports at least

// Trains in small steps between the messages of the page, and reports what is new whenever the page
// has drawn the report before.
class Trainer {
  constructor() {
    this.playing = false
    this.seen = true // whether the page has drawn the last report
    this.reported = 0
    this.news = []
  }

  // Does what a message of the page asks for, which also has the settings at that time. {kind:
  // "start", specs, seed} begins anew; "run", "pause" and "step" are the buttons; "seen" says that
  // the page has drawn the last report, so that the next may come. While steps run, `tick` reports.
  // Otherwise every message is answered with a report; "seen" only if there is something new, since
  // otherwise page and worker would answer each other for ever.
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

  // Takes one step of each model, with an exam now and then (`EXAM.every` steps), and notes what is
  // new for the next report. Stops at the step `until`, and when a loss is no longer finite.
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

  // Sends the page what is new since the last report, and the weights. Not yet if the page has not
  // drawn the last report, nor, while steps run, if that was less than `REPORT` milliseconds ago.
  report() {
    const isEarly = this.playing && performance.now() - this.reported < REPORT
    if (!this.seen || isEarly) return
    const {race, news} = this
    const weights = race.learners.map(learner => learner.weights())
    postMessage({step: race.step, news, weights})
    this.seen = false
    this.reported = performance.now()
    this.news = []
  }
}

function serve() {
  const trainer = new Trainer()
  addEventListener("message", ({data}) => trainer.receive(data))
}
