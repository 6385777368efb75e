// Stops of the guided tour for a page of two models, about the part in which they differ. stops.js
// says what the fields of a stop are.

const whoIsRight = {
  guess: () => ["both", ...modelNames(), "neither"],
  truth: rightOnes
}
const PAIR_STOPS = [
  {
    title: "What can step 1 look for?",
    of: zeroed,
    covered: true,
    guess: () => ["all positions alike", "one more than others"],
    truth: () =>
      isEven(blank()) ? "all positions alike" : "one more than others",
    ask: () => `Here both decoders start from zeros, not from what the encoder has
      read. ${blank().spec.name} attends before its cell has read anything: the query
      of its first step is 0. What will that step attend to?`,
    press: "Uncover both",
    act: () => choose(0, null),
    tell: () => `The largest weight of step 1 is ${each(
      view => strongest(view, 0).shown
    )}. A score of the query 0 is the same for every key; the other one's
      cell has read the start before it attends. From the encoder's last state, as is
      usual, the query would not be 0. ${sampled()}`
  },
  {
    title: "What goes into the cell?",
    of: zeroed,
    guess: modelNames,
    truth: () => blank().spec.name,
    ask: () => `The boxes of the diagram stand in the order in which each decoder
      computes them; f is its cell. Which one's cell makes its new state from the
      context c that it has just read?`,
    press: "Play",
    act: play,
    tell: () => `The cell of ${blank().spec.name} comes after c, and reads it: the
      query is the state before. The other one's cell comes first; the query is its
      new state, and c goes past the cell.`
  },
  {
    title: "Only to the right",
    of: () => differing("decoder") && oneWay(),
    covered: true,
    ...whoIsRight,
    ask: () => `The attention of ${oneWay().spec.name} can only move to the right: each
      step is at one position, and a weight is the probability of being there. Both
      were trained on the task ${oneWay().spec.about.task}. Will both get
      “${state.text}” right, one of them, or neither?`,
    press: "Uncover both",
    act: () => chooseFirstWrong(oneWay()),
    tell: () => `The largest weights of ${oneWay().spec.name} are at ${peaks(oneWay())}
      (in step 2 ${strongest(oneWay(), 1).shown}): it never goes back (⏎ ends an answer).
      ${
        isRight(oneWay())
          ? ""
          : "From the end, only its state can tell it what to write."
      }
      ${sampled()}`
  },
  {
    title: "What is hard about it",
    of: () => differing("decoder") && oneWay() && isRight(oneWay()),
    guess: modelNames,
    truth: () =>
      modelWithMost(({now}) => -Math.max(...chancesOf(now.steps[1]))),
    ask: () => `Ban position 2 in step 2: both share its weight among other positions.
      One then writes a letter without doubt, the other one wavers between two. Which
      one wavers?`,
    press: "Ban it",
    act: () => {
      ban("1,1")
      choose(1, null)
    },
    tell: () => `The likeliest symbols are ${each(likeliest)}. Soft attention writes
      one symbol, from the mean of what it reads. Hard attention is at one position or
      at another, and each has an answer of its own, about as likely as its weight. ⏎
      comes from position 1, which it has just written: to stand still means the end.
      Ban positions 3 to ${oneWay().count} of step 2, too: both then read position 1
      alone, and agree on ⏎. They differ only where several positions are read. And it
      never goes back:
      «stuck.html#tour=1|hard monotonic attention, stuck».`
  },
  {
    title: "One of the two is wrong",
    of: () => !oneWay() && !blank() && rivals(),
    covered: true,
    guess: view => (remembers(winner) ? letters(view) : modelNames()),
    truth: () => (remembers(winner) ? twice(loser) : loser.spec.name),
    ask: () => {
      const local = `Each step reads only a few positions around a centre, which moves with the
        answer (local attention): one centre moves the wrong way`
      return `Both were trained on the task ${loser.spec.about.task}. ${
        contrast() || (hasWindow() ? local : "They differ in their weights")
      }. ${
        remembers(winner)
          ? "The one without is wrong. Which letter does it write too often"
          : "Which one is wrong"
      } on “${state.text}”?`
    },
    press: "Uncover both",
    act: () => chooseFirstWrong(loser),
    tell: () => {
      const attending = views.filter(({attends}) => attends)
      const largest = attending.map(view => {
        const {shown, ...found} = strongest(view)
        return `There ${view.spec.name} attends most to ${place(found)}: ${shown}.`
      })
      return `${loser.spec.name} writes ${answerOf(loser)}. Step ${state.step + 1} is
        the first that is wrong. ${largest.join(" ")} ${sampled()}
        ${hasWindow() ? "A window is wrong where what a step needs lies outside it." : ""}`
    }
  },
  {
    title: "A shorter string",
    of: () => rivals() && (hasWindow() || !loser.attends),
    ...rightOrWrong,
    truth: () => rightOrWrong.truth(loser),
    ask: () => `Will ${loser.spec.name} be right on “${shorter()}”?`,
    press: "Type it",
    act: () => type(shorter()),
    tell: () => {
      const closing = hasWindow()
        ? `Step 1 writes the last letter, outside its window: it came that way. In
          ${loser.spec.name}, give any position of step 1 all attention, and the answer
          stays.`
        : `A wider vector lets more letters through; with attention a narrow one is
          enough. Four times the training helps up to a point: with 64 numbers 12
          letters go from .1 of strings to .9, with 16 numbers 4 letters from .1 to .4,
          and 6 letters stay at 0.`
      return `${judged(loser)} What attention does not bring has to come through one
        vector, the encoder's last state, as wide for a long string as for a short one:
        a bottleneck. ${sampled()} ${closing}`
    }
  },
  {
    title: "Longer than in training",
    of: () => rivals() && hasWindow(),
    ...whoIsRight,
    ask: ({
      spec: {trained}
    }) => `What is a window good for? In training, strings had
      ${trained.join(" to ")} symbols. Which will be right on one of ${trained[1] + 6}?`,
    press: "Type it",
    act: view => type(textOf(view, view.spec.trained[1] + 6)),
    tell: () => `${sampled()} Where a window leads to the right place, it still does so
      in strings longer than those of training.`
  },
  {
    title: "What has been read",
    of: () => rivals() && remembers(winner),
    covered: true,
    guess: positions,
    truth: view => positions(view)[peak(readBefore(winner, state.step))],
    start: () => chooseFirstWrong(loser),
    ask: () => `Coverage, C, adds up the attention that each position has had. Which
      one has had the most in ${winner.spec.name} before step ${state.step + 1}, the
      first that ${loser.spec.name} gets wrong?`,
    press: "Show it",
    act: () => {
      chooseRead()
      showScores(winner)
    },
    tell: () => `From position to position, C is now ${readBefore(
      winner,
      state.step
    )
      .map(short)
      .join(", ")}. With a learned w, w C goes into the scores of
      ${winner.spec.name}: what it attended to, not what it wrote.`
  },
  {
    title: "Take the memory away",
    of: () => rivals() && remembers(winner),
    guess: letters,
    truth: () => twice(winner),
    start: chooseRead,
    ask: view => `${winner.spec.name} writes ${answerOf(winner)}. Now let it forget one
      position: C of ${positions(view)[state.position]} is 0 before each step, as if
      it had not been read. Which letter will it then write too often?`,
    press: "Forget it",
    act: () => forget(state.position),
    tell: () => `It now writes ${answerOf(winner)}: it reads there again, and
      ${less(rightText(winner), answerOf(winner))} is left out. That is what coverage
      is for: to read nothing twice, and leave nothing out. Try other positions:
      choose a cell in the map of ${winner.spec.name}, and press “forget it”.`
  },
  {
    title: "Does it know where it has looked?",
    of: () => zeroed() && rivals(),
    guess: modelNames,
    truth: () => modelWithMost(moved),
    start: () => choose(2, null),
    ask: view => `Let all attention of step ${state.step} go to
      ${positions(view).at(-1)}; the letter that it writes is held. In which will step
      ${state.step + 1} change more?`,
    press: "Set both weights to 1",
    act: ({right, count}) => {
      const t = state.step
      const {j} = strongest(winner, t)
      hold("write", t - 1, right[t - 1])
      setWeight(t - 1, count - 1, 1)
      choose(t, j)
    },
    tell: view => `The weight of ${positions(view)[state.position]} in step
      ${state.step + 1} was ${each(({now, before}) =>
        [before, now].map(weightThere).map(short).join(", then ")
      )}. The context goes into the
      cell of bahdanau, so that its state knows. luong attends after its cell, which
      has read the letter alone.`
  },
  {
    title: "Flatter weights",
    of: () => differing("score") && bothAttend(),
    covered: true,
    ...whoIsRight,
    start: () => choose(1, null),
    ask: () => `${contrast()}. The temperature 5 divides all scores by 5, and the
      weights become flatter. Which answer will still be right?`,
    press: "Temperature 5",
    act: () => set({temperature: 5}),
    tell: () => `They write ${each(view => answerOf(view))}. The largest weight of step
      2 falls from ${each(view => strongest(view, state.step, view.before).shown)} to
      ${each(view => strongest(view).shown)}. Scores go from ${each(
        ({scale}) => scale.map(short).join(" to ")
      )}: those far apart stay apart. ${sampled()}
      That is without the temperature: of such strings neither score has more right.
      Of strings of one repeated letter additive has: see the leaderboard. How many bear
      5 differs from seed to seed. Below 1, it sharpens: move the slider.`
  }
]

// A string of less than half the length of the one on the page.
const shorter = () => textOf(loser, Math.floor(0.45 * loser.count))
const hasWindow = () => loser.map?.centres[0].length
const bothAttend = () => views.every(({attends}) => attends)
// What is left of a text without the letters of another: less("eeersst", "deersst") is "e".
function less(text, other) {
  const letters = Array.from(other)
  return letters.reduce((rest, letter) => rest.replace(letter, ""), text)
}

// The letter that a model writes more often than is right.
const twice = view => less(answerOf(view), rightText(view))

// Choose the first step that the loser has wrong, and what the winner reads there.
function chooseRead() {
  chooseFirstWrong(loser)
  choose(state.step, strongest(winner).j)
}

// The weight of the chosen cell, and how much a change has moved it.
const weightThere = ({steps}) =>
  steps[state.step].weights.data[state.position]
const moved = ({before, now}) =>
  Math.abs(weightThere(now) - weightThere(before))

// The model whose first query is 0, since its decoder starts from zeros.
const blank = () =>
  views.find(
    ({attends, now}) => attends && !now.steps[0].query.data.some(Boolean)
  )

// Whether only one of two decoders begins so: with what else they differ in is for other stops.
function zeroed() {
  return differing("decoder") && blank()
}

// Whether the first step attends to all positions alike.
function isEven({now}) {
  const {data: weights} = now.steps[0].weights
  return Math.max(...weights) - Math.min(...weights) < 1e-4
}

// The model of hard monotonic attention, which moves over the source in one direction. Its weights
// cannot be set.
const oneWay = () => views.find(({whyFixed}) => whyFixed)

// Which of the two models are right: a name, "both" or "neither".
function rightOnes() {
  const [name, other] = views.filter(isRight).map(({spec}) => spec.name)
  return other ? "both" : (name ?? "neither")
}

// The two likeliest symbols of the chosen step, with their probabilities: "a .51 and b .46".
function likeliest({now, symbol}) {
  const step = now.steps[state.step]
  const chances = chancesOf(step)
  const [first, second] = ranked(step).map(
    id => `${symbol(id)} ${short(chances[id])}`
  )
  return `${first} and ${second}`
}

// A sentence on how many of some random strings each model gets right, so that the one on the
// screen is not taken for all. They have its length. "" if the page cannot tell what is right.
function sampled() {
  const texts = sample(views[0])
  const counts = each(view => countRight(view, texts))
  return texts.length
    ? `Of ${texts.length} strings of this length, ${counts} are right.`
    : ""
}
