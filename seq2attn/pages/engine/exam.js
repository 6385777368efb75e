// The exam of a model in training: how much it has right of strings that are drawn once, by another
// generator than the batches. Letter by letter, given the right ones before each, as in training;
// and of what it writes by itself.

const EXAM = {strings: 24, batches: 8, every: 20}

// The strings of the exam: the longest of some batches that the task's graph `draw` draws, since
// long ones are the hard ones. [{source, target}], lists of ids without padding.
function examStrings({draw}, random) {
  const found = counted(EXAM.batches).flatMap(() => {
    const drawn = draw.run(randomInputs(draw.spec, random))
    const targets = unpadded(drawn.target, drawn.target_lengths)
    const sources = unpadded(drawn.source, drawn.source_lengths)
    return sources.map((source, k) => ({source, target: targets[k]}))
  })
  found.sort((one, other) => other.source.length - one.source.length)
  return found.slice(0, EXAM.strings)
}

// The rows of a matrix of ids (B, T) as lists, without the padding after the first `lengths` (B).
function unpadded(ids, lengths) {
  const width = ids.shape[1]
  const numbers = [...numbersOf(ids)]
  return Array.from(numbersOf(lengths), (length, k) =>
    numbers.slice(k * width, k * width + length)
  )
}

// Decodes the strings [{source, target}], lists of ids, twice, and returns three shares:
//   given: of letters that are right where each step reads the right letter before it
//   own: of letters that are right where each step reads what the model wrote
//   whole: of strings that are right when it reads what it wrote, with `<eos>` after them
// Its own answer may end early: the letters that it lacks count as wrong. mask: whether padding
// gets no attention.
function examine(model, strings, mask) {
  const {spec} = model
  const session = new Session(model)
  const right = {given: 0, own: 0, whole: 0}
  let letters = 0
  for (const {source, target} of strings) {
    const ids = spec.source_eos ? [...source, spec.eos] : source
    const wanted = [...target, spec.eos]
    const decode = write =>
      session.decode(ids, {...unchanged(), mask, write}, wanted.length).steps
    const own = decode(new Map())
    const given = decode(new Map(target.entries()))
    for (const [t, id] of target.entries()) {
      right.given += given[t].likeliest === id
      right.own += own[t]?.likeliest === id
    }
    right.whole += wanted.every((id, t) => own[t]?.likeliest === id)
    letters += target.length
  }
  return {
    given: right.given / letters,
    own: right.own / letters,
    whole: right.whole / strings.length
  }
}
