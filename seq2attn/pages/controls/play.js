// Playing the decoding: part after part of a step, step after step.

const PACE = 900 // milliseconds a part of the first step that is played
const FASTER = 350 // and of the others

let playing = 0
let afterwards = null // what is done once, when playing ends

function light(part) {
  state.part = part
  for (const view of views) showLit(view)
}

// Show the parts of each step one after the other, from the chosen step to the last, or from the
// first if the last is chosen. The first step that is played is slower, to be followed.
function play() {
  const view = views.find(one => one.attends && one.now) ?? views[0]
  if (!view.now) return // no answer yet, of a link with a text that the model cannot read
  const {length} = view.now.steps
  const from = state.step < length - 1 ? state.step : 0
  const moments = counted(length - from, from).flatMap(t =>
    view.parts.slice(1).map(part => [t, part])
  )
  const tick = () => {
    if (!moments.length) return pause()
    const [t, part] = moments.shift()
    choose(t, null)
    light(part)
    playing = setTimeout(tick, t === from ? PACE : FASTER)
  }
  tick()
  showPlaying()
}

function pause() {
  clearTimeout(playing)
  playing = 0
  light(null)
  showPlaying()
  goOn()
}

// Do what waited for the end.
function goOn() {
  const act = afterwards
  afterwards = null
  act?.()
}

function togglePlay() {
  if (playing) pause()
  else play()
}

function showPlaying() {
  document.body.classList.toggle("playing", Boolean(playing))
  for (const view of views) {
    const toggle = view.find(".play")
    setText(toggle, playing ? "❚❚ pause" : "▶ play")
    toggle.ariaLabel = `${playing ? "pause" : "play"} the decoding`
  }
}
