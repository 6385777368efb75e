// The controls of a page that trains, and the reports of the worker, which trains in a thread of
// its own.

const RECENT = 0.9 // for the share by length: how much a batch counts against the one after it

// What the page knows of training. right: for each model, Map from a length to [how many strings of
// it were right, how many there were], of recent batches.
const untrained = () => ({
  playing: false,
  step: 0, // batches so far
  losses: models.map(() => []), // of each model, one a batch
  right: models.map(() => new Map()),
  exams: [] // [batch, results of each model] of the tests on new strings
})
const training = {worker: null, ...untrained()}

// Send a message to the worker: "start", "run", "pause", "step" or "seen".
function tell(kind, more = {}) {
  const {rate, seed, mask, until} = state
  training.worker.postMessage({kind, rate, seed, mask, until, ...more})
}

// Turn the page into one that trains: show controls and charts, and start a worker. The style sheet
// greys temperature and padding, which act on what is shown, not on training. A link to a moment of
// training starts it at once.
function prepareTraining() {
  for (const id of ["train", "train-help"]) by(id).hidden = false
  setText(
    by("intro"),
    "Untrained: press Train, and watch the answer become right."
  )
  setText(by("mask-name"), "mask it, in training too")
  resetTraining()
  listenToTraining()
  if (state.until) setTraining(true)
}

// Begin training anew, in a new worker: the old one may be in the middle of a batch. The worker's
// script is the engine, which stands in the page, so that the page needs no other file. It gets the
// models without their trained weights.
function resetTraining() {
  const source = [`${by("engine").textContent}\nserve()`]
  const script = new Blob(source, {type: "text/javascript"})
  const worker = new Worker(URL.createObjectURL(script))
  worker.onmessage = ({data: report}) => receive(report)
  worker.onerror = ({message}) => toast(`Training stopped: ${message}`)
  training.worker?.terminate()
  Object.assign(training, {worker, ...untrained()})
  const specs = models.map(({snapshots, ...spec}) => spec)
  tell("start", {specs})
  showTraining()
}

// Set the controls of training from the state, and the state from the controls. The slider of the
// learning rate has its logarithm; the worker reads a new rate from the next message. A new seed
// means other first weights, so that training begins anew. A new end is told to the worker at once.
function listenToTraining() {
  const wholeNumber = ({value}) => Math.max(0, Math.floor(Number(value) || 0))
  const rate = by("train-rate")
  const seed = by("train-seed")
  const until = by("train-until")
  rate.value = Math.log10(state.rate)
  seed.value = state.seed
  until.value = state.until ?? ""
  by("train-play").onclick = () => setTraining(!training.playing)
  by("train-reset").onclick = resetTraining
  by("train-step").onclick = () => {
    setTraining(false)
    tell("step")
  }
  rate.oninput = () => {
    state.rate = Number((10 ** rate.value).toPrecision(2))
    showTraining()
    remember()
  }
  seed.onchange = () => {
    state.seed = wholeNumber(seed)
    remember()
    resetTraining()
  }
  until.onchange = () => {
    state.until = wholeNumber(until) || null
    tell(training.playing ? "run" : "pause")
  }
}

// Start training, or pause it.
function setTraining(isOn) {
  training.playing = isOn
  tell(isOn ? "run" : "pause")
  showTraining()
}

// Take a report of the worker: `step`, the batches so far; `news`, the results of those since the
// last report; `weights` of each model, with which the page decodes from now on. "seen" asks for
// the next report, once the browser has painted this one: a fast worker would otherwise flood a
// slow screen.
function receive({step, news, weights}) {
  for (const batch of news) addBatch(batch)
  training.step = step
  if (step === state.until) endTraining()
  if (!news.every(({losses}) => losses.every(Number.isFinite))) {
    endTraining()
    toast(
      "The loss is not a number any more: Reset, and take a smaller learning rate."
    )
  }
  for (const view of views) {
    view.learnt = weights[view.number]
    view.load()
  }
  update()
  showTraining()
  requestAnimationFrame(() => setTimeout(() => tell("seen")))
}

// Note that the worker has paused. What the tour left to do then waits (setTimeout) until `receive`
// has shown the last weights.
function endTraining() {
  training.playing = false
  setTimeout(runAfterwards)
}

// Add the results of a batch to what the charts show. lengths: of its strings; losses: of each
// model; right[model][string]: 1 or 0; exams: after every 20th batch the results of a test on new
// strings, else null. In the shares by length older batches count less and less: all that was
// counted before is multiplied by RECENT.
function addBatch({lengths, losses, right, exams}) {
  // before its loss is added: the losses so far are one fewer than the batches
  if (exams) training.exams.push([training.losses[0].length + 1, exams])
  for (const [model, loss] of losses.entries()) {
    const byLength = training.right[model]
    training.losses[model].push(loss)
    for (const [string, length] of lengths.entries()) {
      const [good, all] = byLength.get(length) ?? [0, 0]
      const isRight = right[model][string]
      byLength.set(length, [good * RECENT + isRight, all * RECENT + 1])
    }
  }
}

// Show how far training is, the learning rate, and the charts. During the warm-up the next batch
// has only a share of the learning rate that is set: it is shown as "0.0010 → 0.0050".
function showTraining() {
  const {step, playing: isOn} = training
  const share = warmed(firstModel.training, step)
  const rate = state.rate.toPrecision(2)
  const warming = `${(state.rate * share).toPrecision(2)} → ${rate}`
  const batches = `${step.toLocaleString("en")} batch${step === 1 ? "" : "es"}`
  setText(by("train-play"), isOn ? "❚❚ Pause" : "▶ Train")
  by("train").dataset.step = step // the style sheet asks whether it is 0
  setText(by("train-now"), step ? `after ${batches}` : "untrained")
  setText(by("train-rate-value"), share < 1 ? warming : rate)
  drawTraining()
}
