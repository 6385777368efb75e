// How many strings a model has right, of several.

const SAMPLE = 40
const NEIGHBOUR = "alphabet"
const WORDS = `cat dog pen hello world apple train seven orange
  pencil`.split(/\s+/)

// Strings of the length of the one that is shown, drawn from all symbols; none where the task has
// no rule that could judge them.
function sample({spec, count}) {
  const {symbols, separator} = spec.source
  if (!spec.graphs.answer || spec.source.features?.length) return []
  const uniform = uniforms(count)
  const draw = () => symbols[Math.floor(symbols.length * uniform())]
  return counted(SAMPLE).map(() => counted(count).map(draw).join(separator))
}

// How many of some strings a model has right. padding: how many empty positions follow a string of
// so many symbols, as in a batch with a longer one.
function countRight(view, texts, padding = () => 0) {
  const {model} = view.untouchedSession
  const session = new Session(model)
  const isRightText = text => {
    const {ids, plain, bound, count} = tokenise(view.spec, text, "")
    const right = rightAnswer(model, text, plain)
    const changes = {...unchanged(), padding: padding(count)}
    const {steps, finished} = session.decode(ids, changes, bound)
    const written = steps.map(step => step.written)
    return finished && `${written.slice(0, -1)}` === `${right}`
  }
  return texts.filter(isRightText).length
}

const knows = (spec, texts) =>
  spec.graphs.answer && texts.every(text => tokenise(spec, text, "").ids)

// The empty positions that a text of so many symbols gets beside the neighbour.
const besides = count => Math.max(0, Array.from(NEIGHBOUR).length - count)

// How many empty positions follow the string that is shown.
const paddingOf = ({count}) => (state.beside ? besides(count) : state.padding)
