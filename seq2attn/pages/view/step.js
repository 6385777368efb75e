// The panel of one step: a diagram of it, bars to take hold of, the likeliest symbols, and a row
// for each part, with its formula.

// Of a step, as they follow each other: sign, name, and what it means.
const PARTS = {
  states: [
    "h",
    "states",
    "What the encoder has read up to each position, as a vector."
  ],
  query: [
    "s",
    "query",
    "What the step looks for, as a vector: it is compared with every key."
  ],
  score: [
    "e",
    "scores",
    "How well the query fits each position's key: one number a position."
  ],
  softmax: [
    "p",
    "softmax",
    "Turns scores into shares: all positive, with the sum 1; a difference in score is their ratio."
  ],
  weight: ["α", "weights", "How much of each position the step reads."],
  context: [
    "c",
    "context",
    "What the step reads: the mean of all positions, each counted with its weight."
  ],
  vector: [
    "s₀",
    "one vector",
    "All that a model without attention knows of the source."
  ],
  output: [
    "y",
    "output",
    "A probability for each symbol that could be written."
  ]
}
const WITHOUT_ATTENTION = ["states", "vector", "output"]
const SHOWN_NEXT = 5

// The panel of a step, once: its buttons, and a row and a box of the diagram for each part. A model
// with attention has no one vector; one whose weights cannot be set, as they are probabilities of
// where it is, mixes answers, and has no context.
function buildStep(view) {
  const move = count => () => choose(state.step + count, state.position)
  view.find(".previous").onclick = move(-1)
  view.find(".next").onclick = move(1)
  view.find(".play").onclick = togglePlay
  view.find(".attending").hidden = !view.attends
  const absent = ["vector", view.whyFixed && "context"]
  const parts = Object.keys(PARTS).filter(part => !absent.includes(part))
  view.parts = view.attends ? parts : WITHOUT_ATTENTION
  view.rows = {}
  for (const part of view.parts) addRow(view, part)
}

// A row that explains a part, and its box in the diagram, which leads to the row.
function addRow(view, part) {
  const [sign, name, tip] = PARTS[part]
  const row = copyOf("part")
  const show = () => {
    light(part)
    row.scrollIntoView({block: "nearest", behavior: "smooth"})
    row.focus({preventScroll: true})
  }
  const stage = button("", show, {className: part, "data-tip": tip})
  stage.append(make("b", {textContent: sign}), ` ${name}`)
  say(row.firstElementChild, `${name} ${sign}`)
  row.ariaLabel = name
  view.rows[part] = row
  view.find(".parts").append(row)
  view.find(".stages").append(stage)
}

// Show the chosen step, or the last where another model's answer is longer.
function drawStep(view) {
  const {steps} = view.now
  const t = Math.min(state.step, steps.length - 1)
  drawHeading(view, steps, t)
  if (view.attends) drawBars(view, steps[t], t)
  drawLikeliest(view, steps[t], view.before.steps[t], t)
  const explained = view.attends
    ? new AttentionParts(view, steps[t], t).all()
    : bottleneck(view)
  explained.output = output(view, steps[t], t)
  for (const part of view.parts) drawRow(view, part, explained[part])
  showLit(view)
}

// Which step it is, what it reads, the symbol written before, and what it writes.
function drawHeading(view, steps, t) {
  const {target, sos} = view.spec
  const begin = `${shownSymbol(target.tokens[sos])} (start)`
  const [at, read, written] = view.find(".heading h3").children
  say(at, `step ${t + 1} of ${steps.length}`)
  say(read, t ? view.wrote(steps[t - 1]) : begin)
  say(written, view.wrote(steps[t]))
  view.find(".previous").disabled = t === 0
  view.find(".next").disabled = t === steps.length - 1
}

// The part that is lit, in the diagram, the bars and the rows.
function showLit(view) {
  const stages = view.find(".stages").children
  view.parts.forEach((part, k) => {
    const isLit = part === state.part
    const elements = [stages[k], view.rows[part], view.label(part)]
    for (const element of elements) element?.classList.toggle("lit", isLit)
    stages[k].ariaCurrent = isLit ? "step" : "false"
  })
}

// Fill the row of a part with a formula, a sentence, and vectors by their names, drawn as bars.
function drawRow(view, part, {sum: made = "", why, vectors = {}}) {
  const [, formulaOf, sentence, box] = view.rows[part].children
  const entries = Object.entries(vectors)
  const room = Math.max(100, view.find(".parts").clientWidth - 20)
  say(formulaOf, made)
  say(sentence, flowing(why))
  if (box.children.length !== entries.length) {
    const vector = () =>
      make("div", {}, make("span"), make("canvas", {role: "img"}))
    box.replaceChildren(...entries.map(vector))
  }
  entries.forEach(([name, numbers], k) => {
    const [label, canvas] = box.children[k].children
    const few = [...numbers.slice(0, 4)].map(exact).join(", ")
    say(label, name)
    canvas.ariaLabel = `${name || part}: ${numbers.length} numbers, ${few} …`
    paintVector(canvas, numbers, room)
  })
}

// The symbols that are likeliest next, with their probabilities. before: the step without a
// person's changes; what it would write is always among them.
function drawLikeliest(view, step, before, t) {
  const chances = chancesOf(step)
  const others = before && view.now !== view.before && chancesOf(before)
  const order = ranked(step).slice(0, SHOWN_NEXT)
  if (others && !order.includes(before.likeliest))
    order[SHOWN_NEXT - 1] = before.likeliest
  const rows = order.flatMap(id =>
    candidate(view, id, t, chances[id], others?.[id])
  )
  say(
    view.find(".beside h4"),
    `Likeliest next${others ? "; the tick ❙: without your changes" : ""}`
  )
  refill(view.find(".likeliest"), rows)
}

const chancesOf = ({logits}) => probabilities(logits.data)

// The symbols that a step may write, the likeliest first.
function ranked(step) {
  const chances = chancesOf(step)
  const open = [...chances.keys()].filter(
    id => step.choices.data[id] > -Infinity
  )
  return open.sort((a, b) => chances[b] - chances[a])
}

// A symbol that could be written: a button, its probability as a bar, and as a number. other: the
// probability without a person's changes, which is a mark on the bar.
function candidate(view, id, t, share, other) {
  const symbol = view.symbol(id)
  const bar = make("i")
  bar.style.setProperty("--size", `${100 * share}%`)
  const track = make("div", {className: "track"}, bar)
  if (other !== undefined) {
    const mark = make("u", {
      title: `without your changes: ${other.toFixed(3)}`
    })
    mark.style.setProperty("--at", `min(calc(100% - 3px), ${100 * other}%)`)
    track.append(mark)
  }
  const write = button(symbol, () => hold("write", t, id), {
    title: "write this symbol",
    ariaLabel: `write ${symbol}, probability ${share.toFixed(3)}`,
    className: state.write.get(t) === id ? "changed" : ""
  })
  return [write, track, make("span", {textContent: share.toFixed(3)})]
}
