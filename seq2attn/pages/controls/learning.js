// Stops of the guided tour for a page that trains. stops.js says what the fields of a stop are.

// The batches of a stop: as many as the config trains, but at most 300, for which one can wait. A
// config that counts epochs has no steps, and a page that trains nothing no such stop.
const batches = () => Math.min(300, firstModel.training?.steps || 300)
const percent = share => `${Math.round(100 * share)} %`

// The results of the last exam, for each model.
const latest = () => training.exams.at(-1)?.[1] ?? []

// Train as long as a stop asks, from the beginning if there have been more batches.
function trainForStop() {
  state.until = batches()
  if (training.step > state.until) resetTraining()
  by("train-until").value = state.until
  if (training.step < state.until) setTraining(true)
}

// Of the letters that a model would write itself in what it was given, how many are right.
const rightLetters = ({right}, {steps}) =>
  right.filter((id, t) => steps[t]?.likeliest === id).length

// Write the right answer in place of the model's own.
const forceRight = ({right}) => set({write: new Map(right.entries())})

const forcing = {
  of: without,
  press: "Force the right letters",
  act: forceRight
}
const LEARNING_STOPS = [
  {
    title: "Teacher forcing",
    ...forcing,
    guess: view => [rightText(view)[0], "what step 1 would write"],
    truth: view => rightText(view)[0],
    start: () => choose(1, null),
    ask: view => `In use, each step reads the letter that the one
      before it has written; below is what step 2 reads. Be the
      teacher: force the right letters, ${rightText(view)}, on the
      model. What will step 2 read then?`,
    tell: view => `Step 2 now reads ${rightText(view)[0]}, the right
      letter, whatever step 1 would have written: teacher forcing. In
      training all steps read the right letter before them; in use
      there is nobody to force it.`
  },
  {
    title: "Who learns faster?",
    of: () => !hasOneModel,
    guess: modelNames,
    truth: () => modelWithMost(({number}) => latest()[number].whole),
    ask: () =>
      `Both get the same batches. ${contrast()}.
      Which one will have more strings right after ${batches()}
      batches?`,
    press: `Train ${batches()} batches`,
    act: trainForStop,
    tell: () => `${each(({number}) =>
      percent(latest()[number].whole)
    )} of ${EXAM.strings} new strings
      are right, all as long as the longest of training. Of so few,
      shares less than 20 % apart may be luck: set Seed to 2, press
      Train, and see whether it holds. This is who learns faster, not
      what either can learn: clear “Stop at” and train on. The other
      one may follow, and since the learning rate stays as it is, either
      may lose for a while what it had learned. ${
        bothAttend()
          ? `«root.html#${views[0].spec.name}|Why one learns faster».`
          : ""
      }`
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
    ask: ({attends}) => `This model has ${attends ? "" : "no"} attention. In
      training it writes each letter after the right ones (teacher
      forcing), in use after its own. Train ${batches()} batches,
      counted above the charts: will as many strings be right as
      letters?`,
    press: `Train ${batches()} batches`,
    act: trainForStop,
    tell: ({attends}) => {
      const [{given, own, whole}] = latest()
      const length = firstModel.trained[1]
      return `Two effects. Of the letters, ${percent(given)} are right
      after the right ones, ${percent(own)} after its own: a wrong one
      misleads the next. And a string needs all its letters, the
      harder the longer it is: if each of ${length} were right in
      ${percent(given)}, whatever the others are,
      ${percent(given ** length)} of strings would be right; after its
      own, ${percent(whole)} are. ${
        attends
          ? "Attention reads each where it stands: few are wrong"
          : "All share one vector: many are wrong"
      }.`
    }
  },
  {
    title: "Teacher forcing by hand",
    ...forcing,
    guess: () => ["more", "not more"],
    truth: view =>
      rightLetters(view, view.now) > rightLetters(view, view.before)
        ? "more"
        : "not more",
    ask: view => `${judged(view)} Force the right letters on it again:
      teacher forcing. Of the letters that it would write itself, will
      more be right?`,
    tell: view => `After its own letters it wrote
      ${answerOf(view, view.before)}, with
      ${rightLetters(view, view.before)} of ${view.count} letters right.
      After the right ones it would write ${ownText(view)}, with
      ${rightLetters(view, view.now)} right.`
  }
]
