// Elements of the page.

const by = id => document.getElementById(id)

// An element with properties, or attributes where it has no such property, and children.
function make(name, attributes = {}, ...children) {
  const made = document.createElement(name)
  for (const [key, value] of Object.entries(attributes)) {
    if (key in made) made[key] = value
    else made.setAttribute(key, value)
  }
  made.append(...children)
  return made
}

// An element as a template of the page has it.
const copyOf = id => by(id).content.firstElementChild.cloneNode(true)

const button = (textContent, onclick, more = {}) =>
  make("button", {type: "button", textContent, onclick, ...more})

// Replace what an element has; the focus stays where it was among it.
function refill(element, children) {
  const focused = [...element.children].indexOf(document.activeElement)
  element.replaceChildren(...children)
  element.children[focused]?.focus()
}

// The names of what is true.
function classesOf(flags) {
  const names = Object.keys(flags)
  return names.filter(name => flags[name]).join(" ")
}

// Assign a property of an element if it is another: an assignment alone makes the browser lay out
// the page.
function put(element, name, value) {
  if (element[name] !== value) element[name] = value
}

const say = (element, text) => put(element, "textContent", text)

// Fill a part of a bar, as shares of its height: as a background, which needs painting but no
// layout.
function fillBar(bar, from, size) {
  const place = size < 1 ? Math.min(1, (1 - from - size) / (1 - size)) : 0
  const [at, height] = [place, size].map(
    share => `${(100 * share).toFixed(1)}%`
  )
  bar.style.background = `50% ${at} / 76% ${height} no-repeat linear-gradient(currentColor 0 0)`
}
