// Stops of the tour of a page that trains.

// Batches, after which an exam is due.
const TRAINED = 300
const RACED = 200
const percent = share => `${Math.round(100 * share)} %`
const latest = () => training.exams.at(-1)?.[1] ?? []

// Of two exams, [batch, results], the one whose letters and strings are further apart.
function wider(one, other) {
  const gap = ([, [{given, whole}]]) => given - whole
  return gap(other) > gap(one) ? other : one
}

function trainTo(batches) {
  if (training.step > batches) resetTraining()
  state.until = batches
  by("train-until").value = batches
  if (training.step < batches) setTraining(true)
}

const LEARNING_STOPS = [
  {
    title: "Who learns faster?",
    of: () => data.models.length === 2,
    guess: modelNames,
    truth: () => {
      const [one, other] = latest().map(({whole}) => whole)
      return modelNames()[Number(other > one)]
    },
    ask: () => `Both get the same batches. ${contrast()}.
      Which one will have more strings right after ${RACED} batches?`,
    press: `Train ${RACED} batches`,
    act: () => trainTo(RACED),
    tell: () => {
      const shares = latest().map(({whole}) => percent(whole))
      const losses = training.losses.map(all => all.at(-1).toFixed(2))
      const told = data.models.map(
        ({name}, k) =>
          `${shares[k]} of the strings (${name}, loss ${losses[k]})`
      )
      return `${told.join(" and ")}, of ${EXAM.strings} new strings, as long as the
        longest of training.
        One string alone may be luck: look at the shares.`
    }
  },
  {
    title: "Letters and strings",
    of: () => data.models.length === 1,
    covered: true,
    guess: () => ["nearly as many", "about half as many", "hardly any"],
    truth: () => {
      const [{given, whole}] = latest()
      if (whole > 0.75 * given) return "nearly as many"
      return whole > 0.25 * given ? "about half as many" : "hardly any"
    },
    ask: () => `In training the model writes each letter after the right ones (teacher forcing).
      In use it writes after its own. Train ${TRAINED} batches: of its letters many will be right.
      Will as many strings be right as letters?`,
    press: `Train ${TRAINED} batches`,
    act: () => trainTo(TRAINED),
    tell: () => {
      const [{given, own, whole}] = latest()
      const [batch, [then]] = training.exams.reduce(wider)
      return `${percent(given)} of the letters are right after the right ones, ${percent(own)} after
        its own, and ${percent(whole)} of the strings. Letters and strings were furthest
        apart after batch ${batch}, ${percent(then.given)} and ${percent(then.whole)}. A string
        needs all its letters, and a wrong letter misleads the next.`
    }
  }
]
