// The controls of training, and what its worker reports.

const RECENT = 0.9 // how much an earlier batch counts
const training = {
  worker: null,
  playing: false,
  round: 0,
  step: 0,
  losses: [],
  right: [],
  times: []
}

function tell(kind, more = {}) {
  const {rate, seed, mask, until} = state
  training.worker.postMessage({
    kind,
    rate,
    seed,
    mask,
    until,
    round: training.round,
    ...more
  })
}

function prepareTraining() {
  const begins =
    data.models.length > 1 ? "These models begin" : "This model begins"
  for (const id of ["train", "train-help"]) by(id).hidden = false
  say(
    by("intro"),
    `${begins} untrained: press Train, and watch the answer become right.`
  )
  say(by("mask-name"), "mask it, in training too")
  startWorker()
  listenToTraining()
  clearCurves()
  showTraining()
  drawTraining()
  const specs = data.models.map(({training: own, weights, mask_padding}) => ({
    training: own,
    weights,
    mask_padding
  }))
  tell("start", {specs})
  if (state.until) setTraining(true) // a link to a moment of training
}

function startWorker() {
  const source = new Blob([`${by("engine").textContent}\nserve();`], {
    type: "text/javascript"
  })
  training.worker = new Worker(URL.createObjectURL(source))
  training.worker.onmessage = ({data: report}) => learnt(report)
  training.worker.onerror = ({message}) => toast(`Training stopped: ${message}`)
}

function listenToTraining() {
  const whole = id => Math.max(0, Math.floor(Number(by(id).value) || 0))
  by("train-rate").value = Math.log10(state.rate)
  by("train-seed").value = state.seed
  by("train-until").value = state.until ?? ""
  by("train-play").addEventListener("click", () =>
    setTraining(!training.playing)
  )
  by("train-reset").addEventListener("click", resetTraining)
  by("train-step").addEventListener("click", () => {
    setTraining(false)
    tell("step")
  })
  by("train-rate").addEventListener("input", () => {
    state.rate = Number((10 ** by("train-rate").value).toPrecision(2))
    showTraining()
    remember()
  })
  by("train-seed").addEventListener("change", () => {
    state.seed = whole("train-seed")
    remember()
    resetTraining()
  })
  by("train-until").addEventListener("change", () => {
    state.until = whole("train-until") || null
    tell(training.playing ? "run" : "pause")
  })
}

function clearCurves() {
  const losses = data.models.map(() => [])
  const right = data.models.map(() => new Map())
  Object.assign(training, {step: 0, losses, right, times: []})
}

function setTraining(on) {
  training.playing = on
  tell(on ? "run" : "pause")
  showTraining()
}

function resetTraining() {
  training.playing = false
  training.round += 1 // reports of earlier rounds may still be on their way
  clearCurves()
  tell("reset")
  showTraining()
  drawTraining()
}

// A report of the worker: what it learnt since the last one, and the weights that the page shows
// from now on.
function learnt({round, step, news, weights}) {
  if (round !== training.round) {
    tell("seen")
    return
  }
  for (const batch of news) count(batch)
  training.step = step
  if (step === state.until) training.playing = false
  if (news.some(({losses}) => !losses.every(Number.isFinite))) {
    training.playing = false
    toast(
      "The loss is not a number any more: Reset, and take a smaller learning rate."
    )
  }
  for (const view of views) {
    view.learnt = weights[view.number]
    view.load(0)
  }
  const recent = training.times.filter(
    ([time]) => performance.now() - time < 5000
  )
  training.times = [...recent, [performance.now(), step]]
  update()
  showTraining()
  drawTraining()
  requestAnimationFrame(() => setTimeout(() => tell("seen")))
}

function count({lengths, losses, right}) {
  for (const [k, loss] of losses.entries()) {
    training.losses[k].push(loss)
    lengths.forEach((length, row) => {
      const [good, all] = training.right[k].get(length) ?? [0, 0]
      training.right[k].set(length, [
        good * RECENT + right[k][row],
        all * RECENT + 1
      ])
    })
  }
}

function showTraining() {
  const {step, playing: isOn} = training
  const share = warmed(data.models[0].training, step)
  const rate = state.rate.toPrecision(2)
  const counted = `${step.toLocaleString("en")} batch${step === 1 ? "" : "es"}`
  say(by("train-play"), isOn ? "❚❚ Pause" : "▶ Train")
  say(
    by("train-now"),
    step ? `after ${counted}${isOn ? speed() : ""}` : "untrained"
  )
  say(
    by("train-rate-value"),
    share < 1 ? `${(state.rate * share).toPrecision(2)} → ${rate}` : rate
  )
}

function speed() {
  const [from, first] = training.times[0] ?? [0, 0]
  const [to, last] = training.times.at(-1) ?? [0, 0]
  const each = ((last - first) / (to - from)) * 1000
  return last > first ? ` · ${each.toPrecision(2)} a second` : ""
}
