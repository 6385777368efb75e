// What the words of the field mean: beside whatever has a `data-tip`, under the pointer or with the
// keyboard's focus.

const ABOUT = {
  task: "What it was trained to do with strings.",
  width: "D: the numbers in a state, and in a query.",
  parameters: "The numbers that training moves.",
  trained:
    "In each step the weights move a little, after one batch of strings."
}

// What the page says of a model: names and values from its data; a name with a tip is a button,
// so that the keyboard reaches it.
function describe({about, parts: {score}}) {
  const unscored = "No attention: no query is compared with anything."
  const tips = {
    ...ABOUT,
    score: score ? `${written(score.formula)}: ${score.summary}` : unscored
  }
  const isAlone = data.models.length === 1 // of two, the run's name is the heading
  const told = Object.entries(about).filter(
    ([key]) => isAlone || key !== "run"
  )
  return told.flatMap(([name, value], k) => {
    const tip = {className: "term", "data-tip": tips[name]}
    return [
      k ? " · " : "",
      tips[name] ? button(name, undefined, tip) : name,
      ` ${value}`
    ]
  })
}

// Show the tip of an element above it, or below where there is no room; a narrow screen has a place
// of its own for it, in the styles.
function showTip(element) {
  const tip = by("tip"),
    box = element.getBoundingClientRect()
  tip.textContent = element.dataset.tip
  tip.hidden = false
  const {width, height} = tip.getBoundingClientRect(),
    above = box.top - height - 6
  tip.style.left = `${Math.max(8, Math.min(box.left, innerWidth - width - 8))}px`
  tip.style.top = `${above > 0 ? above : box.bottom + 6}px`
}

// A tip also describes its element to a screen reader; Escape closes it.
function prepareTips() {
  const hide = () => {
    by("tip").hidden = true
  }
  const show = ({target}) => {
    const element = target.closest("[data-tip]")
    if (element) showTip(element)
    else if (target !== by("tip")) hide()
  }
  for (const element of document.querySelectorAll("[data-tip]")) {
    ;(element.control || element).setAttribute(
      "aria-description",
      element.dataset.tip
    )
  }
  document.addEventListener("pointerover", show)
  document.addEventListener("focusin", show)
  document.addEventListener("focusout", hide)
  document.addEventListener("scroll", hide, true)
  document.addEventListener(
    "keydown",
    event => {
      if (event.key !== "Escape" || by("tip").hidden) return
      hide()
      event.preventDefault() // and nothing else is undone
    },
    true
  )
}
