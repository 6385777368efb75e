// Training in a worker, so that the page can be typed in meanwhile.

const REPORT = 150; // milliseconds between two reports at least

// {kind: "start", specs} begins, "run", "pause", "step" and "reset" are the buttons; "seen" asks for the next report.
class Trainer {
  constructor() {
    this.settings = {};
    this.playing = false;
    this.seen = true;
    this.reported = 0;
    this.news = [];
  }

  receive({kind, specs, ...given}) {
    Object.assign(this.settings, given);
    if (kind === "start") this.race = new Race(specs, this.settings.seed);
    if (kind === "seen") this.seen = true;
    else if (kind === "run") this.play();
    else this.stop(kind);
    if (!this.playing && (kind !== "seen" || this.news.length)) this.report();
  }

  play() {
    if (this.playing) return;
    this.playing = true;
    setTimeout(() => this.tick());
  }

  stop(kind) {
    this.playing = false;
    if (kind === "step") this.once();
    if (kind !== "reset") return;
    this.race.reset(this.settings.seed);
    this.news = [];
    this.seen = true;
  }

  tick() {
    if (this.playing) {
      this.once();
      setTimeout(() => this.tick());
    }
    this.report();
  }

  once() {
    const {lengths, each} = this.race.advance(
      this.settings.rate,
      this.settings.mask
    );
    const losses = each.map(({loss}) => loss);
    this.news.push({lengths, losses, right: each.map(({right}) => [...right])});
    if (
      this.race.step === this.settings.until ||
      !losses.every(Number.isFinite)
    )
      this.playing = false;
  }

  report() {
    const isEarly = this.playing && performance.now() - this.reported < REPORT;
    if (!this.seen || isEarly) return;
    this.seen = false;
    this.reported = performance.now();
    const weights = this.race.learners.map(learner => learner.weights());
    postMessage({
      round: this.settings.round,
      step: this.race.step,
      news: this.news,
      weights
    });
    this.news = [];
  }
}

function serve() {
  const trainer = new Trainer();
  addEventListener("message", ({data}) => trainer.receive(data));
}
