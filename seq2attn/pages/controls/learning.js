// Stops of the guided tour for a page that trains. stops.js says what the fields of a stop are.

// How many batches each of the two stops trains: after so many, the worker has just held an exam, a
// test on new strings.
const TRAINED = 300
const RACED = 200
const percent = share => `${Math.round(100 * share)} %`

// The results of the last exam, for each model.
const latest = () => training.exams.at(-1)?.[1] ?? []

// Train until so many batches have been seen, from the beginning if there have been more.
function trainTo(batches) {
  if (training.step > batches) resetTraining()
  state.until = batches
  by("train-until").value = batches
  if (training.step < batches) setTraining(true)
}

const LEARNING_STOPS = [
  {
    title: "Who learns faster?",
    of: () => !hasOneModel,
    guess: modelNames,
    truth: () => modelWithMost(({number}) => latest()[number].whole),
    ask: () => `Both get the same batches. ${contrast()}.
      Which one will have more strings right after ${RACED} batches?`,
    press: `Train ${RACED} batches`,
    act: () => trainTo(RACED),
    tell: () => {
      const share = each(({number}) => percent(latest()[number].whole))
      const loss = each(({number}) =>
        training.losses[number].at(-1).toFixed(2)
      )
      return `${share} of ${EXAM.strings} new strings are right, all as long as the longest of
        training. The losses are ${loss}. One string alone may be luck: look at the shares.`
    }
  },
  {
    title: "Letters and strings",
    of: () => hasOneModel,
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
      return `${percent(given)} of the letters are right after the right ones, ${percent(own)} after
        its own: a wrong letter misleads the next. And ${percent(whole)} of the strings are right: a
        string needs all its letters.`
    }
  }
]
