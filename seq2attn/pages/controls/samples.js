// Tests of a model on several strings at once, for the guided tour.

const SAMPLE = 40
const NEIGHBOUR = "computer"
const WORDS = `cat dog pen hello world apple train seven orange
  pencil`.split(/\s+/)

// SAMPLE random strings, by default as long as the one on the screen. There are none if the page
// does not have the task as a graph, `answer`, which computes the right answer to any string; and
// none for tasks with features.
function sample({spec, count: onScreen}, count = onScreen) {
  const {symbols, separator} = spec.source
  if (!spec.graphs.answer || spec.source.features?.length) return []
  const uniform = uniforms(count)
  const draw = () => symbols[Math.floor(symbols.length * uniform())]
  return counted(SAMPLE).map(() => counted(count).map(draw).join(separator))
}

// The strings of one symbol alone, as long as the one on the screen; none where `sample` has none.
function repeats(view) {
  const {symbols, separator} = view.spec.source
  return sample(view).length
    ? symbols.map(one => new Array(view.count).fill(one).join(separator))
    : []
}

const tested = new WeakMap() // Model -> Map: a test -> what was written, and what is right

// What a model writes in answer to these strings, and what is right: [{written, right}], as ids
// without the end; `written` is null if the model does not end. It decodes without the user's
// changes but, if so asked, with a mask or without. paddingFor: how many empty positions follow a
// string of so many symbols, as in a batch with a longer string. The tour asks for the same again
// and again, so what each string gave is kept.
function testAnswers(view, texts, paddingFor = () => 0, mask = null) {
  const {model} = view
  const session = new Session(model)
  if (!tested.has(model)) tested.set(model, new Map())
  const known = tested.get(model)
  return texts.map(text => {
    const {ids, plain, bound, count} = tokenise(view.spec, text, "")
    const padding = paddingFor(count)
    const test = `${padding} ${mask} ${text}`
    if (!known.has(test)) {
      const changes = {...unchanged(), padding, mask}
      const {steps, finished} = session.decode(ids, changes, bound)
      const withoutEnd = steps.map(step => step.written).slice(0, -1)
      known.set(test, {
        written: finished ? withoutEnd : null,
        right: rightAnswer(model, plain)
      })
    }
    return known.get(test)
  })
}

// How many of these strings a model gets right, and how many of its answers end too early.
const counting =
  holds =>
  (...test) =>
    testAnswers(...test).filter(holds).length
const countRight = counting(
  ({written, right}) => written && written.join() === right?.join()
)
const countShort = counting(
  ({written, right}) => written?.length < right?.length
)

// Whether the right answers to these texts are known, and the model can read them.
const knows = (spec, texts) =>
  spec.graphs.answer && texts.every(text => tokenise(spec, text, "").ids)

// How many empty positions a text of so many symbols has in a batch with NEIGHBOUR.
const besides = count => Math.max(0, Array.from(NEIGHBOUR).length - count)

// How many empty positions follow the string that is on the screen.
const paddingOf = ({count}) => (state.beside ? besides(count) : state.padding)
