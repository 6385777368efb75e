// The panel of one step: a diagram of it, bars to take hold of, the likeliest symbols, and a row
// for each part, with its formula.

const PARTS = {
  // of a step, as they follow each other: sign and name
  states: ["h", "states"],
  query: ["s", "query"],
  score: ["e", "scores"],
  softmax: ["p", "softmax"],
  weight: ["α", "weights"],
  context: ["c", "context"],
  output: ["y", "output"]
}
const PARTS_WITHOUT = {
  states: ["h", "states"],
  vector: ["s₀", "one vector"],
  output: ["y", "output"]
}
const SHOWN_NEXT = 5

class Step {
  constructor(view) {
    this.view = view
    this.find = view.find
    this.bars = new Bars(view)
    this.parts = view.attends ? PARTS : PARTS_WITHOUT
    const move = count => () => choose(state.step + count, state.position)
    const acts = {".previous": move(-1), ".next": move(1), ".play": togglePlay}
    for (const [name, act] of Object.entries(acts))
      this.find(name).addEventListener("click", act)
    this.find(".attending").hidden = !view.attends
    this.rows = {}
    for (const part of Object.keys(this.parts)) this.addRow(part)
  }

  addRow(part) {
    const [sign, name] = this.parts[part]
    const parts = [
      make("h4", {textContent: `${name} ${sign}`}),
      make("p", {className: "sum"}),
      make("p", {className: "why"})
    ]
    const box = make("div", {className: "vectors"})
    const row = make(
      "div",
      {className: "part", role: "group", ariaLabel: name, tabIndex: -1},
      ...parts,
      box
    )
    this.rows[part] = row
    this.find(".parts").append(row)
    const show = () => {
      light(part)
      row.scrollIntoView({block: "nearest", behavior: "smooth"})
      row.focus({preventScroll: true})
    }
    const stage = button("", show, {className: part, "data-tip": TIPS[part]})
    stage.append(make("b", {textContent: sign}), ` ${name}`)
    this.find(".stages").append(stage)
  }

  draw(look) {
    const {view} = this
    const {steps} = view.now
    const t = Math.min(state.step, steps.length - 1)
    this.look = look
    this.heading(steps, t)
    if (view.attends) this.bars.draw(steps[t], t)
    this.likeliest(steps[t], view.before.steps[t], t)
    const others = view.attends
      ? new AttentionParts(view, steps[t], t).all()
      : bottleneck(view)
    const explained = {...others, output: output(view, steps[t])}
    for (const [part, row] of Object.entries(explained)) this.row(part, row)
    this.lit()
  }

  heading(steps, t) {
    const {view, find} = this
    const {tokens} = view.spec.target
    const read = t
      ? view.wrote(steps[t - 1])
      : shownSymbol(tokens[view.spec.sos])
    find(".heading h3").replaceChildren(
      `step ${t + 1} of ${steps.length}: reads `,
      make("b", {textContent: read}),
      `${t ? "" : " (start)"}, writes `,
      make("b", {textContent: view.wrote(steps[t])})
    )
    find(".previous").disabled = t === 0
    find(".next").disabled = t === steps.length - 1
  }

  // The part that is lit, in the diagram, the bars and the rows.
  lit() {
    for (const stage of this.find(".stages").children) {
      const isLit = stage.classList[0] === state.part
      stage.classList.toggle("lit", isLit)
      stage.setAttribute("aria-current", isLit ? "step" : "false")
    }
    for (const [part, row] of Object.entries(this.rows))
      row.classList.toggle("lit", part === state.part)
    for (const label of this.bars.grid.querySelectorAll(".label")) {
      label.classList.toggle(
        "lit",
        label.textContent.startsWith(state.part ?? "-")
      )
    }
  }

  row(part, {sum: made = "", why, vectors = {}}) {
    const [, formulaOf, sentence, box] = this.rows[part].children
    const entries = Object.entries(vectors)
    say(formulaOf, made)
    say(sentence, why)
    if (box.children.length !== entries.length) {
      const vector = () =>
        make("div", {}, make("span"), make("canvas", {role: "img"}))
      box.replaceChildren(...entries.map(vector))
    }
    const room = Math.max(100, this.view.room(".parts") - 20)
    entries.forEach(([name, numbers], k) => {
      const [label, canvas] = box.children[k].children
      const few = [...numbers.slice(0, 4)].map(exact).join(", ")
      say(label, name)
      canvas.setAttribute(
        "aria-label",
        `${name || part}: ${numbers.length} numbers, ${few} …`
      )
      paintVector(canvas, numbers, this.look, room, state.numbers)
    })
  }

  likeliest(step, before, t) {
    const {view} = this
    const isBeside = before && view.now !== view.before
    const chances = probabilities(step.logits.data)
    const others = isBeside ? probabilities(before.logits.data) : null
    const open = [...chances.keys()].filter(
      id => step.choices.data[id] > -Infinity
    )
    const order = open
      .sort((a, b) => chances[b] - chances[a])
      .slice(0, SHOWN_NEXT)
    if (others && !order.includes(before.likeliest))
      order[SHOWN_NEXT - 1] = before.likeliest
    say(
      this.find(".beside h4"),
      `Likeliest next${others ? "; ❙ without your changes" : ""}`
    )
    const rows = order.flatMap(id =>
      this.candidate(id, t, chances[id], others?.[id])
    )
    this.find(".likeliest").replaceChildren(...rows)
  }

  // A symbol that could be written: a button, its probability as a bar, and as a number.
  candidate(id, t, chance, other) {
    const symbol = this.view.symbol(id)
    const bar = make("i")
    bar.style.setProperty("--size", `${100 * chance}%`)
    const track = make("div", {className: "track"}, bar)
    if (other !== undefined) {
      const mark = make("u", {
        title: `without your changes: ${other.toFixed(3)}`
      })
      mark.style.setProperty("--at", `min(calc(100% - 3px), ${100 * other}%)`)
      track.append(mark)
    }
    const more = {
      title: "write this symbol",
      ariaLabel: `write ${symbol}, probability ${chance.toFixed(3)}`,
      className: state.write.get(t) === id ? "changed" : ""
    }
    const write = button(symbol, () => hold("write", t, id), more)
    return [write, track, make("span", {textContent: chance.toFixed(3)})]
  }
}
