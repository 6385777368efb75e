// Training in a worker, so that the page can be typed in meanwhile.

const REPORT = 150 // milliseconds between two reports at least

class Trainer {
  constructor() {
    this.settings = {} // {rate, mask, until}
    this.playing = false
    this.seen = true // whether the page has drawn the last report
    this.reported = 0
    this.news = []
  }

  // {kind: "start", specs, seed} begins, "run", "pause" and "step" are the buttons; "seen" asks for
  // the next report.
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

  tick() {
    if (this.playing) {
      this.once()
      setTimeout(() => this.tick())
    }
    this.report()
  }

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
