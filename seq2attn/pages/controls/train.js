// The controls of training, and what its worker reports.

const RECENT = 0.9 // how much an earlier batch counts
const untrained = () => ({
  playing: false,
  step: 0,
  losses: data.models.map(() => []),
  right: data.models.map(() => new Map()),
  exams: [] // [batch, what each model has right]
})
const training = {worker: null, ...untrained()}

function tell(kind, more = {}) {
  const {rate, seed, mask, until} = state
  training.worker.postMessage({kind, rate, seed, mask, until, ...more})
}

// What a page that trains has more than others: controls and charts, and a worker. Temperature and
// padding are grey there, since training ignores them.
function prepareTraining() {
  const begins =
    data.models.length > 1 ? "These models begin" : "This model begins"
  for (const id of ["train", "train-help"]) by(id).hidden = false
  setText(
    by("intro"),
    `${begins} untrained: press Train, and watch the answer become right.`
  )
  setText(by("mask-name"), "mask it, in training too")
  for (const id of ["temperature", "unscaled", "padding"]) {
    const label = by(id).closest("label")
    label.classList.add("aside")
    label.dataset.tip += " It changes what you see, and nothing in training."
  }
  resetTraining()
  listenToTraining()
  if (state.until) setTraining(true) // a link to a moment of training
}

// Training begins again, in another worker.
function resetTraining() {
  const source = [`${by("engine").textContent}\nserve()`]
  const worker = new Worker(
    URL.createObjectURL(new Blob(source, {type: "text/javascript"}))
  )
  worker.onmessage = ({data: report}) => learnt(report)
  worker.onerror = ({message}) => toast(`Training stopped: ${message}`)
  training.worker?.terminate()
  Object.assign(training, {worker, ...untrained()})
  tell("start", {specs: data.models.map(({snapshots, ...spec}) => spec)})
  showTraining()
}

// Let the controls of training show the state and set it. The worker hears of another learning rate
// with the page's next message; another seed begins again.
function listenToTraining() {
  const whole = element => Math.max(0, Math.floor(Number(element.value) || 0))
  const [rate, seed, until] = ["rate", "seed", "until"].map(name =>
    by(`train-${name}`)
  )
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
    state.seed = whole(seed)
    remember()
    resetTraining()
  }
  until.onchange = () => {
    state.until = whole(until) || null
    tell(training.playing ? "run" : "pause")
  }
}

function setTraining(on) {
  training.playing = on
  tell(on ? "run" : "pause")
  showTraining()
}

// A report of the worker: what it learnt since the last one, and the weights that the page shows
// from now on. The worker sends no other report until the page says that it has painted this one.
function learnt({step, news, weights}) {
  for (const batch of news) count(batch)
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

// What waited for the end of training is done once the weights are shown.
function endTraining() {
  training.playing = false
  setTimeout(goOn)
}

// Add the results of a batch to what the charts show: the losses, exams where there was one, and by
// length the share that is right, in which a batch counts less the older it is.
function count({lengths, losses, right, exams}) {
  if (exams) training.exams.push([training.losses[0].length + 1, exams])
  for (const [k, loss] of losses.entries()) {
    const shares = training.right[k]
    training.losses[k].push(loss)
    lengths.forEach((length, row) => {
      const [good, all] = shares.get(length) ?? [0, 0]
      shares.set(length, [good * RECENT + right[k][row], all * RECENT + 1])
    })
  }
}

// How far training is, and the rate of its next batch: in the warm-up a share of the slider's.
function showTraining() {
  const {step, playing: isOn} = training
  const share = warmed(data.models[0].training, step)
  const rate = state.rate.toPrecision(2)
  const warming = `${(state.rate * share).toPrecision(2)} → ${rate}`
  const batches = `${step.toLocaleString("en")} batch${step === 1 ? "" : "es"}`
  setText(by("train-play"), isOn ? "❚❚ Pause" : "▶ Train")
  by("train").dataset.step = step // styles ask whether it is 0
  setText(by("train-now"), step ? `after ${batches}` : "untrained")
  setText(by("train-rate-value"), share < 1 ? warming : rate)
  drawTraining()
}
