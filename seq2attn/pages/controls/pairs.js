// Stops of the guided tour for a page of two models, about the part in which they differ. stops.js
// says what the fields of a stop are.

const whoIsRight = {
  guess: () => ["both", ...modelNames(), "neither"],
  truth: () => those(isRight)
}
const PAIR_STOPS = [
  {
    title: "What goes into the cell?",
    of: zeroed,
    covered: true,
    shows: t => t === 1, // the next stop asks about step 1
    guess: () => [...modelNames(), "both"],
    truth: () => blank().spec.name,
    start: () => choose(1, null),
    ask: () => `Both were trained on the task
      ${blank().spec.about.task}. A step attends, which gives the
      context c, and its cell f makes the new state. Which one's cell
      reads the c of its own step?`,
    press: "Uncover step 2",
    act: draw,
    tell: () => `The boxes stand in the order in which they are
      computed. The cell f of ${blank().spec.name} comes after c, and
      reads it: the query is the state before. The other one's cell
      comes first; the query is its new state, and c goes past the
      cell.`
  },
  {
    title: "What can step 1 look for?",
    of: zeroed,
    covered: true,
    guess: () => ["all positions alike", "one more than others"],
    truth: () =>
      isEven(blank()) ? "all positions alike" : "one more than others",
    ask: () => `Here the decoders start from zeros, not from what the
      encoder has read, and ${blank().spec.name} attends before its
      cell. What will its first step attend to?`,
    press: "Uncover both",
    act: () => choose(0, null),
    tell: () => `The largest weight of step 1 is ${each(
      view => strongest(view, 0).shown
    )}. ${blank().spec.name} asks with a state of 0, whose product
      with any key is 0; the other one's cell has read the start
      before it attends. From the encoder's last state, as is usual,
      the query would not be 0. ${sampled()} So even a flat row is not
      always wrong: the mean of all keys often tells the first letter,
      the better the fewer there are. Of 40 strings of 3,
      ${countRight(blank(), sample(blank(), 3))} are right.`
  },
  {
    title: "Will both be right?",
    of: () => !blank() && rivals() && !scored(),
    covered: true,
    ...whoIsRight,
    ask: () =>
      `Both were trained on the task ${loser.spec.about.task}. ${
        hasWindow()
          ? `Each step reads only a few positions around a centre
      (local attention),
          which moves by one a step, in each model its own way`
          : oneWay()
            ? "One has soft attention, the other hard monotonic attention"
            : contrast()
      }. Which will be right on “${state.text}”?`,
    press: "Uncover both",
    act: () => chooseFirstWrong(loser),
    tell: () => `${loser.spec.name} writes ${answerOf(loser)}. Step
      ${state.step + 1} is the first that is wrong. ${
        winner.attends
          ? `There ${winner.spec.name} attends most to
      ${place(strongest(winner))}.`
          : ""
      } ${
        hasWindow()
          ? "What that step needs lies outside the window: weight 0, whatever its score."
          : ""
      } ${sampled()}`
  },
  {
    title: "Send both to the end",
    of: () => differing("decoder") && oneWay(),
    ...whoIsRight,
    truth: view => {
      const {j} = strongest(view, 1, view.before)
      return those(one => strongest(one, 1).j === j)
    },
    ask: view => `The task is ${view.spec.about.task}. Ban all
      positions but the last in step 1, so that both are at
      ${positions(view).at(-1)}; the letter that step 1 writes is held.
      Which one will be at ${positions(view)[strongest(view, 1).j]} in
      step 2, where ${view.spec.name} is without the ban?`,
    press: "Ban them",
    act: view => banAllBut(view, view.count - 1),
    tell: () => `In step 2, ${each(view => place(strongest(view, 1)))}.
      Soft attention looks anywhere at each step.`
  },
  {
    title: "Send both to the second",
    of: () => differing("decoder") && oneWay(),
    guess: view => RANGES.map(range => `${range} ${positions(view)[1]}`),
    truth: view => {
      const [before, at] = oneWay().now.steps[1].weights.data
      const range = before > 0.01 ? 0 : at > 0.01 ? 1 : 2
      return `${RANGES[range]} ${positions(view)[1]}`
    },
    ask: view => `Now ban all but ${positions(view)[1]} in step 1. In
      step 2, where will the weights of ${oneWay().spec.name} lie?`,
    press: "Ban all but the second",
    act: view => banAllBut(view, 1),
    tell: () => `${oneWay().spec.name} is at one position, a weight
      being the probability of that, and can stay or move to the
      right: from the end it went nowhere.
      Without a ban its largest weights are at ${peaks(unchangedOne())}. ${
        isRight(unchangedOne())
          ? `This task goes right, too. ${sampled()} ${longest()}
      Does every task? «stuck.html|Reversing».`
          : `Reversing begins at the end: the rest only the state can
      tell («studies/leaderboard.html|after longer training»).`
      }`
  },
  {
    title: "What does attention bring?",
    of: () => rivals() && winner.attends && !loser.attends,
    guess: letters,
    truth: () => writtenAt(winner),
    start: () => chooseFirstWrong(loser),
    ask: () => `Step ${state.step + 1} of ${winner.spec.name} attends
      most to ${place(strongest(winner))}, and writes
      ${writtenAt(winner)}. Let all its attention go to
      ${positions(winner)[1]}. What will it write?`,
    press: "Set that weight to 1",
    act: () => {
      setWeight(state.step, 1, 1)
      choose(state.step, 1)
    },
    tell: () => `It writes ${writtenAt(winner)}: each step can fetch its
      symbol from the state that the encoder left there, one for each
      position. ${loser.spec.name} has no weights that you could move:
      its steps share one vector, s₀.`
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
      if (hasWindow())
        return `${judged(loser)} ${sampled()} Step 1 writes the last
      letter, which is outside its window: it came through the one vector
      that the decoder starts from. Give any position of step 1 all
      attention: ${loser.spec.name} writes the same.`
      return `${judged(loser)} Without attention all of a string has to
      come through one vector, the encoder's last state, as wide for a
      long string as for a short one: a bottleneck. ${sampled()}
      Training helps, too: after four times as much, a model without
      attention and with 64 numbers has .9 of strings of 12 letters
      right, not .1 («site/models.html|commands»).`
    }
  },
  {
    title: "What does it save?",
    of: () => rivals() && hasWindow(),
    guess: () => ["the positions inside", "all positions"],
    truth: view =>
      view.now.steps[state.step].scores.data.every(Number.isFinite)
        ? "all positions"
        : "the positions inside",
    start: view => choose(Math.floor(view.count / 2), null),
    ask: view => `Step ${state.step + 1} of ${view.spec.name} reads only
      what is in its window. Of which positions is the score computed?`,
    press: "Show the scores",
    act: () => light("score"),
    tell: view => {
      const {weights, scores} = view.now.steps[state.step]
      const read = weights.data.filter(Boolean).length
      return `${scores.data.length} positions have a score, ${read} a
      weight above 0: the other scores are computed and thrown away. So
      here a window saves no time. Code that computes only the scores
      inside needs at most 2 R + 1 a step, however long the string is.`
    }
  },
  {
    title: "Longer than in training",
    of: () => rivals() && hasWindow(),
    ...whoIsRight,
    ask: ({
      spec: {trained}
    }) => `What is a window good for? In training, strings had
      ${trained.join(" to ")} symbols. Which will be right on one of
      ${trained[1] + 6}?`,
    press: "Type a longer one",
    act: view => type(textOf(view, view.spec.trained[1] + 6)),
    tell: () => `${sampled()} Without a window, a model trained as on the
      page “window” has none of 1,000 strings of 18 letters right
      («site/models.html|commands»): a window that leads to the right
      place does so in longer strings, too. See for yourself:
      «bottleneck.html#text=${state.text}|this string, where additive has
      no window». But the direction has to be known; the window local_p
      predicts the place.`
  },
  {
    title: "Take the memory away",
    of: () => rivals() && remembers(winner),
    guess: view => [...letters(view), "none"],
    truth: () => twice(winner) || "none",
    start: () => {
      chooseFirstWrong(loser)
      choose(state.step, strongest(winner).j)
    },
    ask: view => `${winner.spec.name} writes ${answerOf(winner)}. Its
      memory, C, adds up the attention that each position has had, and
      goes into the scores as w C. What is that for? Take it away at
      ${positions(view)[state.position]}: C is 0 there before each step.
      Which letter will it then write too often, if any?`,
    press: "Take it away",
    act: () => {
      forget(state.position)
      choose(firstChanged(winner), state.position)
    },
    tell: () => `It now writes ${answerOf(winner)}: step
      ${state.step + 1} reads there again, and one
      ${less(rightText(winner), answerOf(winner))} is left out. Coverage
      is there to read nothing twice, and leave nothing out.
      ${sampled()} So few may mislead; on the page “coverage”, .738 and
      .889 of 1,000 strings of 12 letters do not
      («site/models.html|commands»). Try other words and positions: choose
      a cell of ${winner.spec.name}, and press “forget it”.`
  },
  {
    title: "Does it know where it has looked?",
    of: () => zeroed() && rivals(),
    guess: modelNames,
    truth: () => modelWithMost(moved),
    start: () => choose(2, null),
    ask: view => `Let all attention of step ${state.step} go to
      ${positions(view).at(-1)}; the letter that it writes is held. In
      which will step ${state.step + 1} change more?`,
    press: "Set both weights to 1",
    act: ({right, count}) => {
      const t = state.step
      const {j} = strongest(winner, t)
      hold("write", t - 1, right[t - 1])
      setWeight(t - 1, count - 1, 1)
      choose(t, j)
    },
    tell: view => `The weight of ${positions(view)[state.position]} in
      step ${state.step + 1} was ${each(({now, before}) =>
        [before, now].map(weightThere).map(short).join(", then ")
      )}. The context goes into the
      cell of bahdanau, so that its state knows. luong attends after
      its cell, which has read the letter alone (unless that context
      is fed to it, too: input feeding).`
  },
  {
    title: "Which score is better?",
    of: scored,
    covered: true,
    ...whoIsRight,
    ask: ({spec: {trained}}) => `${contrast()}. Both were trained on the task
      ${views[0].spec.about.task}, on random strings of
      ${trained.join(" to ")} symbols. ${sampled()} Which will be
      right on “${state.text}”?`,
    press: "Uncover both",
    act: () => chooseFirstWrong(views.at(-1)),
    tell: () => `They write ${each(view => answerOf(view))}.
      ${counts(repeats(views[0]), `strings of ${views[0].count} equal symbols`)}
      Other strings may differ: type some. «ranking.html|Which
      score is better: guess for all seven, on four tasks».`
  }
]

const unchangedOne = () => ({...oneWay(), now: oneWay().before})
const RANGES = ["also left of", "at or right of", "right of"]

// In step 1, ban all positions but j, and hold the letter that is right there; look at step 2.
function banAllBut(view, j) {
  hold("write", 0, view.right[0])
  for (const other of counted(view.count)) if (other !== j) ban(`0,${other}`)
  choose(1, strongest(view, 1, view.before).j)
}

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

// Which of the two models something holds of: a name, "both" or "neither".
function those(holds) {
  const [name, other] = views.filter(holds).map(({spec}) => spec.name)
  return other ? "both" : (name ?? "neither")
}

// Whether two models with attention have different scores.
function scored() {
  return differing("score") && bothAttend()
}

// What the chosen step of a model writes.
function writtenAt(view) {
  return view.wrote(view.now.steps[state.step])
}

// A sentence on how many of some random strings each model gets right, so that the one on the
// screen is not taken for all. They have its length. "" if the page cannot tell what is right.
const sampled = () =>
  counts(sample(views[0]), "random strings of this length")

// The same on the longest strings of training.
function longest() {
  const count = views[0].spec.trained[1]
  const texts = sample(views[0], count)
  const early = each(view => countShort(view, texts))
  return texts.length
    ? `${counts(texts, `of ${count} symbols`)} ${early} end too early.`
    : ""
}

function counts(texts, kind) {
  return texts.length
    ? `Of ${texts.length} ${kind}, ${each(view => countRight(view, texts))} are right.`
    : ""
}
