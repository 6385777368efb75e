// The map of a model, beside it the one without a person's changes, and what can be done with the
// chosen cell.

// Whether a window leaves a position out at a step: of several heads, each of theirs.
function isOutside({allowed, weights: {data: weights}}, j) {
  if (!allowed || weights[j] !== 0) return false
  return allowed.data.every((one, k) => k % weights.length !== j || !one)
}

class Maps {
  constructor(view) {
    this.view = view
    this.find = view.find
    this.canvas = view.find("canvas")
    this.canvas.addEventListener("click", event => this.click(event))
  }

  click(event) {
    const {left, top, cell} = this.view.layout
    const bounds = this.canvas.getBoundingClientRect()
    const at = (place, start) => Math.floor((place - start) / cell)
    active = this.view
    choose(
      at(event.clientY, bounds.top + top),
      at(event.clientX, bounds.left + left)
    )
    this.canvas.focus()
  }

  draw(look, isChanged) {
    const {view, find} = this
    const [figure, beside] = view.root.querySelectorAll("figure")
    const room = view.room(".maps")
    beside.hidden = !isChanged
    const marked = view.spec.parts.window?.radius
      ? "; ▨ outside the window, ┃ its centre"
      : ""
    const title = isChanged ? "with your changes" : "attention: a row per step"
    figure.querySelector("figcaption span").textContent = title + marked
    view.map = this.changedMap()
    view.layout = mapLayout(
      view.map.columns,
      view.map.rows,
      room,
      state.numbers,
      this.largest()
    )
    const {top, cell, width} = view.layout
    const count = view.right ? view.right.length + 1 : 0
    this.canvas.parentNode.style.minHeight = `${top + count * cell + 3}px`
    find(".maps").classList.toggle("pair", isChanged && 2 * width + 28 <= room)
    this.paint(this.canvas, view.map, view.layout, look)
    if (isChanged) this.untouched(beside.querySelector("canvas"), look, room)
    this.label()
    this.tools()
  }

  paint(canvas, map, layout, look) {
    const pen = new CanvasPen(canvas, layout.width, layout.height)
    new MapPainter(pen, map, layout, look, state.numbers).paint()
  }

  // The largest size of the cells of both maps, changed or not.
  largest() {
    const {view} = this
    const rows = view.spec.training
      ? view.sources.length + 2
      : view.now.steps.length
    return Math.max(24, Math.min(48, (inside.height - 430) / rows))
  }

  // What a map shows of the steps of an answer.
  steps({steps}) {
    const {view} = this
    return {
      rows: steps.map(step => view.wrote(step)),
      weights: steps.map(step => step.weights.data),
      centres: steps.map(step => [...(step.centre?.data ?? [])]),
      outside: (t, j) => !view.map.masked(j) && isOutside(steps[t], j)
    }
  }

  changedMap() {
    const {view} = this
    return {
      ...this.steps(view.now),
      columns: view.sources,
      chosen: [state.step, view.position()],
      held: new Set(view.spec.force_reason ? [] : state.force.keys()),
      banned: (t, j) => !view.isForced(t, j) && isBanned(t, j),
      masked: j => j >= view.ids.length && masksPadding(),
      different: view.differences,
      shown: t => isUncovered(t)
    }
  }

  untouched(canvas, look, room) {
    const {view} = this
    const map = {
      ...view.map,
      ...this.steps(view.before),
      columns: view.sources.slice(0, view.before.width),
      chosen: null,
      held: new Set(),
      banned: () => false,
      different: new Map()
    }
    const {cell, size} = view.layout // as large as those of the other map
    const own = mapLayout(
      map.columns,
      map.rows,
      room,
      state.numbers,
      this.largest()
    )
    this.paint(
      canvas,
      map,
      sized({...own, cell, size}, map.columns, map.rows),
      look
    )
  }

  label() {
    const {view} = this
    const uncovered = [...view.now.steps.keys()].filter(t => isUncovered(t))
    const heaviest = uncovered
      .map(t => `${t + 1} ${strongest(view, t).symbol}`)
      .join(", ")
    const keys = "attention map: arrow keys choose step and position"
    this.canvas.setAttribute(
      "aria-label",
      `${keys}. Each step attends most to: ${heaviest}`
    )
  }

  // What can be done with the chosen cell.
  tools() {
    const {view} = this
    const t = state.step
    const j = view.position()
    const place = this.find(".cell")
    const cell = `${t},${j}`
    if (!view.map.weights[t] || j >= view.sources.length) {
      place.replaceChildren()
      return
    }
    const {force_reason: reason} = view.spec
    const isForced = view.isForced(t, j)
    const isWhole = isForced && state.force.get(cell) === 1
    const undo = button("release", () => release(t, j), {disabled: !isForced})
    place.replaceChildren(
      this.sentence(t, j),
      this.tool(
        j,
        "all attention here",
        () => hold("force", cell, 1),
        isWhole,
        reason
      ),
      this.tool(j, "ban here", () => ban(cell), state.ban.has(cell)),
      this.tool(
        j,
        "ban at every step",
        () => ban(`${j}`),
        state.ban.has(`${j}`)
      ),
      undo
    )
  }

  sentence(t, j) {
    const {sources, map} = this.view
    const bold = textContent => make("b", {textContent})
    const parts = [
      bold(sources[j]),
      " with ",
      bold(map.weights[t][j].toFixed(3))
    ]
    const outside = map.outside(t, j) ? ", outside the window" : ""
    return make(
      "span",
      {},
      `step ${t + 1} attends to ${j + 1}: `,
      ...parts,
      outside
    )
  }

  tool(j, text, act, isPressed, why = "") {
    const press = () => {
      state.position = j
      act()
    }
    return button(text, press, {
      className: isPressed ? "changed" : "",
      ariaPressed: String(isPressed),
      disabled: Boolean(why),
      title: why
    })
  }
}
