// Playing the decoding: part after part of a step is highlighted, step after step.

const PACE = 800 // milliseconds for a part of the first step that is played
const FASTER = 220 // and for those of later steps

let playing = 0 // the timer while it plays, else 0
let afterwards = null // what the tour does once when playing, or training, ends

// Highlight a part of the step: by its name, such as "score", or by its place among the parts of
// each model, since decoders differ in their order; none with null.
function light(part) {
  state.part = part
  for (const view of views) showLit(view)
}

// Play from the chosen step, or from the first if the last is chosen: each part of each step is
// highlighted for a moment. The first step goes slower, so that it can be followed. Its parts begin
// after the encoder's states, the first of view.parts, which are not computed in a step.
function play() {
  const view = views.find(({attends, now}) => attends && now) ?? views[0]
  if (!view.now) return // no answer yet: a link had a text that the model cannot read
  const last = view.now.steps.length - 1
  const first = state.step < last ? state.step : 0
  const moments = counted(last + 1 - first, first).flatMap(t =>
    counted(view.parts.length - 1, 1).map(place => [t, place])
  )
  const showNext = () => {
    if (!moments.length) return pause()
    const [t, place] = moments.shift()
    choose(t, null)
    light(place)
    playing = setTimeout(showNext, t === first ? PACE : FASTER)
  }
  showNext()
  showPlaying()
}

function pause() {
  clearTimeout(playing)
  playing = 0
  light(null)
  showPlaying()
  runAfterwards()
}

// Do, once, what the tour left to do when playing or training ends.
function runAfterwards() {
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
