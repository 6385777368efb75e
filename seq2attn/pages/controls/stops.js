// The stops of the guided tour. A stop asks a question about the model on the page, offers
// something to press, and then tells what came of it, with the numbers that the model has computed.
//
// The fields of a stop, most of which are functions of the View of the model:
//   title, ask, press: its heading, its question, and the label of its button
//   of: whether the stop makes sense for this model
//   start: a change or choice to make before asking
//   guess: answers for the user to choose from; truth: the right one, once the button is pressed
//   act: what the button does
//   tell: the text that is shown then; if `act` plays or trains, when that has ended
//   covered: true to hide answers and maps until the button is pressed; shows(t): whether step t is
//     shown afterwards, by default all

const without = view => !view.attends
const masked = view => view.attends && view.spec.mask_padding
const unmasked = view => view.attends && !view.spec.mask_padding
const forcible = view => masked(view) && canForce()

const yesIfSame = {
  guess: () => ["yes", "no"],
  truth: view => (isSame(view) ? "yes" : "no")
}
const rightOrWrong = {
  guess: () => ["right", "wrong"],
  truth: view => (isRight(view) ? "right" : "wrong")
}
const ofTenWords = {
  of: view => unmasked(view) && knows(view.spec, WORDS),
  guess: () => ["0", "5", "10"],
  start: () => type(WORDS[3])
}
// Change fields of the state: set({temperature: 5}).
const set = values => {
  Object.assign(state, values)
  update()
}

// About one model.
const STOPS = [
  {
    title: "Who sits beside you",
    ...ofTenWords,
    truth: view => `${countRight(view, WORDS)}`,
    covered: true,
    ask: () => `Strings of a batch are filled up to the longest with
      empty positions. A mask gives these the weight 0; this model was
      trained without one. Ten words, each alone: how many will it get
      right? ${WORDS.join(", ")}.`,
    press: "Count them",
    act: draw,
    tell: () =>
      `Alone ${each(view => countRight(view, WORDS))} of 10 are right.`
  },
  {
    title: "Does anybody notice?",
    ...ofTenWords,
    truth: view => `${countRight(view, WORDS, besides)}`,
    ask: view => `${judged(view)} That was “${state.text}” alone. Now
      test the ten words in batches, each beside “${NEIGHBOUR}”, which
      fills it up to 8 positions, as nearly always in training. How
      many will be right?`,
    press: `Beside “${NEIGHBOUR}”`,
    act: () => set({beside: true}),
    tell: () => `There ${each(view => countRight(view, WORDS, besides))}
      are right: in batches like those of training these ten show
      nothing. With one empty position after each word,
      ${each(view => countRight(view, WORDS, () => 1))} are. Without a
      mask, your answer depends on who sits beside you: that is what a
      mask is for.`
  },
  {
    title: "A mask after training?",
    of: unmasked,
    ...rightOrWrong,
    start: view => set({padding: lacking(view)}),
    ask: view => `Can a mask be added after training? The model
      ${view.spec.name} reads “${state.text}” and
      ${lacking(view)} empty positions, ∅, as in training.
      ${judged(view)} Its first step gives the empty ones
      ${short(emptyShare(view, 0))} of its attention. Now a mask sets
      their weights to 0. Will its answer be right?`,
    press: "Mask them",
    act: () => set({mask: true}),
    tell: view => `${judged(view)} The empty positions were part of
      what it learned from. Masked, they are missing, as when the word
      stands alone. So a mask has to be there in training.`
  },
  {
    title: "Where does it look?",
    of: masked,
    covered: true,
    shows: t => t === state.step,
    guess: positions,
    truth: view => positions(view)[strongest(view).j],
    start: () => choose(1, null),
    ask: view => `The model reads ${state.text}, and writes
      ${answerOf(view)}. Rows of the map are steps, columns are
      positions. Which position will step ${state.step + 1} attend to?`,
    press: "Uncover it",
    act: draw,
    tell: view => {
      const {shown, ...found} = strongest(view)
      return `It attends to ${place(found)}, with the weight ${shown},
      and writes ${writtenAt(view)}.`
    }
  },
  {
    title: "Step after step",
    of: masked,
    covered: true,
    shows: t => t <= state.step,
    guess: () => ["to the right", "to the left", "it stays", "it jumps"],
    truth: direction,
    ask: () => `Next, the decoding is played: query, scores, softmax,
      weights, context, output, at each step. Which way will the
      bright cell move?`,
    press: "Play",
    act: play,
    tell: view => `The largest weights are at ${peaks(view)}. The last
      step writes ⏎, the end, which copies nothing.`
  },
  {
    title: "From a score to a weight",
    of: masked,
    covered: true,
    guess: () => ["below 0", "exactly 0", "above 0"],
    truth: view => (lowest(view, "weights") ? "above 0" : "exactly 0"),
    start: () => choose(2, null),
    ask: view => `A score says how well the query, which the decoder
      asks with, fits a key, which the encoder left at a position. In
      step 3 the lowest is ${exact(lowest(view, "scores"))}. What will
      the weight of that position be?`,
    press: "Show it",
    act: showScores,
    tell: view => `It is ${exact(lowest(view, "weights"))}. The softmax
      makes weights of any scores: they sum to 1, and the largest
      score gets the largest weight. The row shows how that one, of
      position ${strongest(view).j + 1}, is made.
      ${described(view.spec.parts.score)}`
  },
  {
    title: "A cause, or only a picture?",
    of: forcible,
    covered: true,
    shows: t => !t || isLast(t), // the next stop asks about the others
    guess: letters,
    truth: writtenAt,
    ask: view => `All attention of the first step, and of the last,
      which writes the end ⏎, is to go to
      ${positions(view)[elsewhere(view)]}. What will the first step
      write?`,
    press: "Set both weights to 1",
    act: view => {
      const j = elsewhere(view)
      setWeight(view.now.steps.length - 1, j, 1)
      setWeight(0, j, 1)
      choose(0, j)
    },
    tell: view => {
      const [before, now] = [view.before, view.now].map(({steps}) =>
        view.wrote(steps[0])
      )
      if (now === before)
        return `It still writes ${now}: this weight was not the cause.`
      return `It writes ${now}, not ${before}: of the letter, the
      weight is a cause. The last step ${
        endsAsBefore(view)
          ? "still ends it: of this string's end, weights are only a picture"
          : "does not end it"
      }. Of every string's?`
    }
  },
  {
    title: "And of another string?",
    of: view => forcible(view) && knows(view.spec, ["banana"]),
    ...yesIfSame,
    start: () => type("banana"),
    ask: view => `${judged(view)} Now all attention of the last step is
      to go to the last letter. Will the answer stay the same?`,
    press: "Set that weight to 1",
    act: ({count, now}) => {
      const t = now.steps.length - 1
      setWeight(t, count - 1, 1)
      choose(t, count - 1)
    },
    tell: view => `${compared(view)}. One string or one step is not
      all: whether a weight is a cause, only a change tells.`
  },
  {
    title: "And the next step?",
    of: forcible,
    covered: true,
    start: view => setWeight(0, elsewhere(view), 1),
    guess: () => ["from there", "as before"],
    truth: view => {
      const [before, now] = weightsAt(view, state.step)
      return now.j === before.j ? "as before" : "from there"
    },
    ask: () => `The first step was made to look elsewhere. Will the
      second go on from there, or look where it did before?`,
    press: "Go to step 2",
    act: () => choose(1, null),
    tell: tellNext
  },
  {
    title: "Take a position away",
    of: masked,
    guess: letters,
    truth: writtenAt,
    ask: view => `Ban the first position, ${view.sources[0]}, at every
      step: it is left out of the softmax. What will be written in its
      place?`,
    press: "Ban it",
    act: view => {
      ban("0")
      choose(firstChanged(view), null)
    },
    tell: view => {
      const t = firstChanged(view)
      return isSame(view)
        ? `${compared(view)}. No step needed that position.`
        : `${compared(view)}. Step ${t + 1} needed that position.
          Now it attends to what is left: ${place(strongest(view, t))}.`
    }
  },
  {
    title: "Flatter weights",
    of: masked,
    ...yesIfSame,
    ask: () => `The temperature divides the scores before the softmax.
      At 5, the weights become flatter. Will the answer stay the same?`,
    press: "Temperature 5",
    act: view => {
      set({temperature: 5})
      choose(firstChanged(view), null)
    },
    tell: view => {
      const t = Math.min(firstChanged(view), view.before.steps.length - 1)
      const [was, is] = weightsAt(view, t)
      return `${compared(view)}. The largest weight of step ${t + 1}
      was ${was.shown} and is ${is.shown}: the flatter, the more the
      context is a mixture of several positions.`
    }
  },
  {
    title: "Empty positions",
    of: masked,
    ...yesIfSame,
    ask: view => `A mask hides the empty positions that fill up short
      strings of a batch; it was on in training. Will the answer stay
      the same with ${lacking(view)} of them unmasked?`,
    press: "Add them, unmasked",
    act: view => set({padding: lacking(view), mask: false}),
    tell: view => `${compared(view)}: they get up to
      ${short(Math.max(...writing(view).map(t => emptyShare(view, t))))}
      of a step's attention, which the mask keeps at 0. Having learned
      with the mask, it gets
      ${countRight(view, sample(view), () => lacking(view), false)} of
      40 random strings of this length right so. What becomes of a
      model that is trained without one: «unmasked.html#tour=1|padding
      mask».`
  },
  {
    title: "Longer than in training",
    of: view => !unmasked(view),
    ...rightOrWrong,
    ask: ({
      spec: {trained}
    }) => `In training, strings had ${trained.join(" to ")} symbols.
      Will one of ${trained[1] + 6} be right?`,
    press: "Type a longer one",
    act: view => {
      type(textOf(view, view.spec.trained[1] + 6), state.features)
      chooseFirstWrong(view)
    },
    tell: view => `${judged(view)} Now try your own string.`
  }
]

// Where a step attends most without the user's changes and with them, as `strongest` tells it.
function weightsAt(view, t) {
  return [view.before, view.now].map(result =>
    strongest(view, Math.min(t, result.steps.length - 1), result)
  )
}

// The lowest of the chosen step's "scores", or of its "weights", which is at the same position.
const lowest = ({now}, name) => Math.min(...now.steps[state.step][name].data)

const isLast = t => t === shownModel().now.steps.length - 1

// What the user is told after moving the attention of the first step: where the second step attends
// to now.
function tellNext(view) {
  if (view.now.steps.length < 2) return "There is no second step."
  const [from, to] = weightsAt(view, 1)
  return to.j === from.j
    ? `Its largest weight is still at ${place(to)}: ${to.shown}, and
      was ${from.shown}. The row above moved it only a little: here
      its state knows how far it is.`
    : `It attends to ${place(to)}, with ${to.shown}, no longer to
      position ${from.j + 1}: it goes on from where it was.`
}
