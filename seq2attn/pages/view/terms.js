// Tips: what a term means, shown beside any element with a `data-tip` while the pointer is on it or
// it has the keyboard's focus.

// The line of facts about a model, "task reverse · score scaled · …", as children for an element.
// The name of a fact that has a tip is a button, because the keyboard reaches only those.
function describe({about, parts: {score}}) {
  const unscored = "No attention: no query is compared with anything."
  const tips = {
    task: "What it was trained to do with strings.",
    width: "D: the numbers in a state, and in a query.",
    parameters: "The numbers that training moves.",
    trained:
      "In each step the weights move a little, after one batch of strings.",
    score: score ? `${written(score.formula)}: ${score.summary}` : unscored
  }
  return Object.entries(about).flatMap(([name, value], k) => {
    const tip = tips[name]
    const term = {className: "term", "data-tip": tip}
    return [
      k ? " · " : "",
      tip ? button(name, undefined, term) : name,
      ` ${value}`
    ]
  })
}

// Show the tip of an element above it, or below where there is no room above. On narrow screens the
// style sheet overrides the place: the tip is at the edge of the screen.
function showTip(element) {
  const tip = by("tip")
  tip.textContent = element.dataset.tip
  tip.hidden = false // before it is measured: what is hidden has no size
  const box = element.getBoundingClientRect()
  const {width, height} = tip.getBoundingClientRect()
  const rightmost = innerWidth - width - 8
  const above = box.top - height - 6
  tip.style.left = `${Math.max(8, Math.min(box.left, rightmost))}px`
  tip.style.top = `${above > 0 ? above : box.bottom + 6}px`
}

// Show tips under the pointer and with the focus, and give them to screen readers as descriptions.
// A tip goes when the pointer moves elsewhere, but not when it moves onto the tip itself, whose
// text may be selected. `true`: listen before everyone else does. Scrolling of an inner element is
// not heard otherwise; and Escape must close a tip without also undoing the user's changes.
function prepareTips() {
  const hide = () => {
    by("tip").hidden = true
  }
  const showOrHide = ({target}) => {
    const element = target.closest("[data-tip]")
    if (element) showTip(element)
    else if (target !== by("tip")) hide()
  }
  const closeWithEscape = event => {
    if (event.key !== "Escape" || by("tip").hidden) return
    hide()
    event.preventDefault() // `onKey` ignores what was handled here
  }
  for (const element of document.querySelectorAll("[data-tip]")) {
    const described = element.control || element // of a label, its control
    described.setAttribute("aria-description", element.dataset.tip)
  }
  document.addEventListener("pointerover", showOrHide)
  document.addEventListener("focusin", showOrHide)
  document.addEventListener("focusout", hide)
  document.addEventListener("scroll", hide, true)
  document.addEventListener("keydown", closeWithEscape, true)
}
