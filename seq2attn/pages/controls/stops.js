// The stops of the tour: at each a question, something to press, and what came of it, in the words
// of what the models computed.

const attends = spec => spec.attends
const without = spec => !spec.attends
const masked = spec => spec.attends && spec.mask_padding
const forcible = spec => masked(spec) && canForce()

const yesIfSame = {
  guess: () => ["yes", "no"],
  truth: view => (isSame(view) ? "yes" : "no")
}
const rightOrWrong = {
  guess: () => ["right", "wrong"],
  truth: view => (isRight(view) ? "right" : "wrong")
}
const set = values => {
  Object.assign(state, values)
  update()
}

// of: the models that a stop is for; covered: the map is covered until `press` is pressed, and then
// shows the steps that `shows` chooses; ask: before, with answers to choose from, `guess`; press
// and act: what to press; tell: after; truth: the right guess. While `act` plays the decoding,
// nothing is told.

// About what two models differ in.
const PAIR_STOPS = [
  {
    title: "One of the two is wrong",
    of: rivals,
    covered: true,
    guess: modelNames,
    truth: () => loser.spec.name,
    ask: () => {
      const windows = each(view => view.windowAt(0, " ± "))
      const differ =
        contrast() || `The window of step 1 is around position ${windows}`
      return `Both were trained on the task ${loser.spec.about.task}. ${differ}.
        Which one is wrong on “${state.text}”?`
    },
    press: "Uncover both",
    act: () => choose(firstWrong(loser), null),
    tell: () => {
      const largest = each(view => {
        const {weight, ...found} = strongest(view, state.step)
        return `${place(found)}, with ${weight}`
      })
      return `${loser.spec.name} writes ${answerOf(loser)}.
        Step ${state.step + 1} is the first that is wrong.
        There the largest weight is that of ${largest}.`
    }
  },
  {
    title: "A shorter string",
    of: () => rivals() && loser.map.centres[0].length,
    ...rightOrWrong,
    truth: () => rightOrWrong.truth(loser),
    ask: () => `The first windows of ${loser.spec.name} are in the wrong place.
      Will it be right on “${shortest()}”?`,
    press: "Type it",
    act: () => type(...shortest().split("\t")),
    tell: () => `${judged(loser)}
      What its windows miss has to come through the state, as without attention:
      a few letters get through.`
  },
  {
    title: "What has been read",
    of: () => rivals() && winner.spec.parts.history?.name === "coverage",
    covered: true,
    guess: positions,
    truth: view => positions(view)[leastRead()],
    start: () => choose(firstWrong(loser), null),
    ask: () => `C adds up the attention that each position has had. Which one has had the least
      before step ${state.step + 1}, the first that ${loser.spec.name} gets wrong?`,
    press: "Show it",
    act: () => {
      choose(state.step, leastRead())
      showScores(winner)
    },
    tell: view => {
      const read = readBefore(winner, state.step)
      const [low, high] = [Math.min(...read), Math.max(...read)].map(short)
      return `${positions(view)[leastRead()]} has had ${low}, the others up to ${high}.
        ${winner.spec.name} adds w C to its scores, so that it knows what it has read;
        ${loser.spec.name} has to count in its state.`
    }
  },
  {
    title: "How a score is made",
    of: () => differing("score"),
    covered: true,
    guess: modelNames,
    truth: () => modelWithMost(({scale: [low, high]}) => high - low),
    ask: () => `${contrast()}. Whose scores lie further apart?`,
    press: "Show them",
    act: view => {
      choose(second(view), null)
      showScores(view)
    },
    tell: () => {
      const hasTanh = views.some(({spec}) =>
        spec.parts.score.formula.includes("tanh")
      )
      const why =
        "A product grows with query and key; each tanh in the sum is at most 1."
      return `${each(({scale}) => scale.map(short).join(" to "))}. ${hasTanh ? why : ""}`
    }
  },
  {
    title: "Flatter weights",
    of: () => differing("score"),
    guess: modelNames,
    truth: () => modelWithMost(view => strongest(view, state.step).value),
    start: view => choose(second(view), null),
    ask: () =>
      "The temperature 3 divides all scores by 3. Which keeps the larger weight in step 2?",
    press: "Temperature 3",
    act: () => set({temperature: 3}),
    tell: () => {
      const weight = (view, result) =>
        strongest(view, state.step, result).weight
      const both = each(
        view => `${weight(view, view.before)}, then ${weight(view)}`
      )
      return `${both}. Scores that lie far apart stay apart.`
    }
  }
]

// About one model.
const STOPS = [
  {
    title: "Empty positions",
    of: spec => spec.attends && !spec.mask_padding,
    ...rightOrWrong,
    ask: view => `${judged(view)}
      In training, without a mask, it could read the empty positions that fill strings up to
      ${view.spec.trained[1]}. Will ${lacking(view)} of them make it right?`,
    press: "Add them",
    act: view => set({padding: lacking(view)}),
    tell: view => {
      const learned = isSame(view) ? "" : ": it learned to count on them"
      return `${judged(view)} Step 1 puts ${short(emptyShare(view, 0))} of its attention on
        empty positions${learned}.`
    }
  },
  {
    title: "Where does it look?",
    of: masked,
    covered: true,
    shows: t => t === 1,
    guess: positions,
    truth: view => positions(view)[strongest(view, second(view)).j],
    ask: view => `The model reads ${state.text} ${taught(view)}.
      Rows of the map are steps, columns are positions. Which position will step 2 attend to?`,
    press: "Uncover it",
    act: view => choose(second(view), null),
    tell: view => {
      const {weight, ...found} = strongest(view, second(view))
      return `It attends to ${place(found)}, with the weight ${weight},
        and writes ${view.wrote(view.now.steps[second(view)])}.`
    }
  },
  {
    title: "What does it write?",
    of: without,
    ask: view => `The model reads ${state.text} ${taught(view)}, a symbol a step.
      It has no attention: there is no map. What does a step need to know of the source?`,
    press: "Show what it knows",
    act: () => light("vector"),
    tell: view => `One vector, the row "one vector": ${bottleneck(view).vector.sum}.
      Everything has to fit in there.`
  },
  {
    title: "Step after step",
    of: masked,
    covered: true,
    shows: t => t <= state.step,
    guess: () => ["to the right", "to the left", "it stays", "it jumps"],
    truth: direction,
    ask: () => `Next, the decoding is played: query, scores, softmax, weights, context, output,
      at each step. Which way will the bright cell move?`,
    press: "Play",
    act: play,
    tell: view => {
      const largest = writing(view).map(t => strongest(view, t).j + 1)
      return `The largest weights are at ${largest.join(", ")}.
        The last step writes ⏎, the end, which copies nothing.`
    }
  },
  {
    title: "Step after step",
    of: without,
    ask: () =>
      "Next, the decoding is played. What changes from step to step, and what does not?",
    press: "Play",
    act: play,
    tell: () =>
      "The decoder's state changes. The vector it began with stays as it was."
  },
  {
    title: "How a score is made",
    of: attends,
    covered: true,
    guess: positions,
    truth: view => positions(view)[strongest(view, third(view)).j],
    ask: view => `A score says how well the query, which the decoder asks with, fits a key,
      which the encoder left at a position. Which position will have the largest score in step
      ${third(view) + 1}?`,
    press: "Show it",
    act: view => {
      choose(third(view), null)
      showScores(view)
    },
    tell: view => {
      const {score} = view.spec.parts
      return `Position ${strongest(view, third(view)).j + 1}.
        The row shows how its score is made${score ? `: ${score.summary}` : ""}.
        The softmax makes weights of the scores.`
    }
  },
  {
    title: "Move its attention",
    of: forcible,
    guess: letters,
    truth: view => view.wrote(view.now.steps[0]),
    ask: view => `What will the first step write if all its attention goes to
      ${positions(view)[elsewhere(view)]}?`,
    press: "Set that weight to 1",
    act: view => {
      const j = elsewhere(view)
      choose(0, j)
      setWeight(0, j, 1)
    },
    tell: view => {
      const [before, now] = [view.before, view.now].map(({steps}) =>
        view.wrote(steps[0])
      )
      return now === before
        ? `It still writes ${now}. ${compared(view)}: this weight was not the cause.`
        : `It writes ${now}, not ${before}.
          ${compared(view)}: so a weight is a cause, not only a picture.`
    }
  },
  {
    title: "And the next step?",
    of: forcible,
    start: view => setWeight(0, elsewhere(view), 1),
    guess: () => ["from there", "as before"],
    truth: view => {
      const [before, now] = weightsAt(view, second(view))
      return now.j === before.j ? "as before" : "from there"
    },
    ask: () => `The first step was made to look elsewhere.
      Will the second go on from there, or look where it did before?`,
    press: "Go to step 2",
    act: () => choose(1, null),
    tell: tellNext
  },
  {
    title: "Take a position away",
    of: masked,
    guess: letters,
    truth: view => view.wrote(view.now.steps[firstChanged(view)]),
    ask: view => `Ban the first position, ${view.sources[0]}, at every step: it is left out of the
      softmax. What will be written in its place?`,
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
    title: "Why divide by √D?",
    of: (spec, view) => spec.attends && dividesByRoot(spec) && saturates(view),
    guess: () => ["larger", "smaller"],
    truth: view => {
      const [was, is] = weightsAt(view, flattest(view))
      return is.value > was.value ? "larger" : "smaller"
    },
    start: view => choose(flattest(view), null),
    ask: view => {
      const t = flattest(view)
      const {weight, ...found} = strongest(view, t)
      return `Scores are s · h divided by √D = ${exact(rootOf(view))}.
        Step ${t + 1} has the weight ${weight} at ${place(found)}.
        Will it be larger or smaller without the division?`
    },
    press: "Without √D",
    act: view => {
      set({temperature: unscaled(view)})
      light("softmax")
    },
    tell: tellRoot
  },
  {
    title: "Flatter weights",
    of: attends,
    ...yesIfSame,
    ask: () => `The temperature divides the scores before the softmax. At 5, the weights become
      flatter. Will the answer stay the same?`,
    press: "Temperature 5",
    act: view => {
      set({temperature: 5})
      choose(firstChanged(view), null)
    },
    tell: view => {
      const t = Math.min(firstChanged(view), view.before.steps.length - 1)
      const [was, is] = weightsAt(view, t)
      const mixed =
        is.value < 0.9 ? ": its context is a mixture of several positions" : ""
      return `${compared(view)}.
        The largest weight of step ${t + 1} was ${was.weight} and is ${is.weight}${mixed}.`
    }
  },
  {
    title: "Empty positions",
    of: masked,
    ...yesIfSame,
    ask: view => `A mask hides the empty positions that fill up short strings of a batch.
      Will the answer stay the same with ${lacking(view)} unmasked?`,
    press: "Add them, unmasked",
    act: view => set({padding: lacking(view), mask: false}),
    tell: view => {
      const shares = writing(view).map(t => emptyShare(view, t))
      return `${compared(view)}: they get at most ${short(Math.max(...shares))} of a step.
        Trained unmasked, a model needs them (unmasked.html).`
    }
  },
  {
    title: "One symbol more",
    of: without,
    ask: () => `The vector always has as many numbers.
      How many of them change if the string gets one symbol longer?`,
    press: "Add a symbol",
    act: view => {
      view.earlier = vectorOf(view)
      addSymbol(view.spec.source.symbols[0])
    },
    tell: view => {
      const vector = vectorOf(view)
      const count = vector.filter(
        (value, k) => value !== view.earlier[k]
      ).length
      return `${count} of ${vector.length}: the symbols have no place of their own in it.`
    }
  },
  {
    title: "Put words in its mouth",
    of: without,
    ask: view => `At each step the model reads what it wrote last.
      What follows if its first symbol is changed to ${view.symbol(3)}?`,
    press: "Change it",
    act: () => hold("write", 0, 3),
    tell: view =>
      `${compared(view)}. What it has yet to write comes from its state.`
  },
  {
    title: "As long as in training",
    of: without,
    ...rightOrWrong,
    ask: ({spec: {trained}}) =>
      `In training, strings had ${trained.join(" to ")} symbols. Will the longest be right?`,
    press: "Type one",
    act: view => type(longText(view, view.spec.trained[1]), state.features),
    tell: view =>
      `${judged(view)} The longer the string, the more has to fit into the vector.`
  },
  {
    title: "Longer than in training",
    of: () => true,
    ...rightOrWrong,
    ask: ({
      spec: {trained}
    }) => `In training, strings had ${trained.join(" to ")} symbols.
      Will one of ${trained[1] + 6} be right?`,
    press: "Type a longer one",
    act: view => {
      type(longText(view, view.spec.trained[1] + 6), state.features)
      choose(Math.max(0, firstWrong(view)), null)
    },
    tell: view => `${judged(view)} ${tooLong(view)} Now try your own string.`
  }
]

// The largest weights of a step, before it was changed and now.
function weightsAt(view, t) {
  return [view.before, view.now].map(result =>
    strongest(view, Math.min(t, result.steps.length - 1), result)
  )
}

function tellNext(view) {
  const [before, now] = [view.before, view.now].map(result => result.steps[1])
  if (!now || !before) return "There is no second step."
  const [from, to] = weightsAt(view, 1)
  const [first, after] = [before, now].map(step =>
    short(chance(step, before.likeliest))
  )
  const chances = `p(${view.symbol(before.likeliest)}) was ${first} and is ${after}.`
  return to.j === from.j
    ? `Its largest weight is still at ${place(to)}: ${to.weight}, and was ${from.weight};
      ${chances} The decoder's state knows how far it is.`
    : `It attends to ${place(to)}, with ${to.weight}, no longer to position ${from.j + 1};
      ${chances} It goes on from where it was.`
}

function tellRoot(view) {
  const weights = weightsAt(view, state.step)
  const [was, is] = weights.map(({value}) =>
    Number((value * (1 - value)).toPrecision(2))
  )
  const [, now] = weights
  const saturated = now.value > 0.9 ? ": the softmax saturates" : ""
  return `${now.weight}${saturated}.
    Its slope p (1 − p), through which the model learns, goes from ${was} to ${is}.
    The temperature slider is the same experiment: it is now at 1/√D.`
}

function tooLong(view) {
  if (!view.spec.attends) return "The vector was never asked to hold as much."
  const t = firstWrong(view)
  if (t < 0) return ""
  const {j} = strongest(view, t)
  return `Step ${t + 1} is the first that is wrong: it attends to position ${j + 1}.`
}
