// Short names for what every other file does with elements of the page.

const by = id => document.getElementById(id)

// Create an element, as make("div", {className: "bar"}, child). What the element has no property
// for, such as data-tip, becomes an attribute.
function make(name, attributes = {}, ...children) {
  const element = document.createElement(name)
  for (const [key, value] of Object.entries(attributes)) {
    if (key in element) element[key] = value
    else element.setAttribute(key, value)
  }
  element.append(...children)
  return element
}

// A new copy of what the <template> with this id holds.
const copyOf = id => by(id).content.firstElementChild.cloneNode(true)

const button = (textContent, onclick, more = {}) =>
  make("button", {type: "button", textContent, onclick, ...more})

// The label around a control.
const labelOf = id => by(id).closest("label")

// Whether a key is pressed with Ctrl, Alt or Meta: it is a command to the browser, not typed.
const isCommand = event => event.ctrlKey || event.metaKey || event.altKey

// Replace the children of an element. If one of the old ones had the focus, the new one in its
// place gets it: otherwise whoever uses the keyboard would lose their place at each redrawing.
function refill(element, children) {
  const focused = [...element.children].indexOf(document.activeElement)
  element.replaceChildren(...children)
  element.children[focused]?.focus()
}

// A class attribute from flags: {chosen: true, banned: false} becomes "chosen".
function classesOf(flags) {
  const names = Object.keys(flags)
  return names.filter(name => flags[name]).join(" ")
}

// Set a property of an element, unless it has that value already: an assignment of the same value
// would still make the browser lay out the page again.
function setIfChanged(element, name, value) {
  if (element[name] !== value) element[name] = value
}

const setText = (element, text) => setIfChanged(element, "textContent", text)

// Fill a bar from the share `from` of its height, counted from the bottom, by the share `size`. It
// is drawn as a background, which the browser repaints without laying out the page. CSS places a
// background by the space that is left over: 0% is at the top, 100% at the bottom.
function fillBar(bar, from, size) {
  const left = 1 - size
  const fromTop = left > 0 ? Math.min(1, (left - from) / left) : 0
  const [y, height] = [fromTop, size].map(
    share => `${(100 * share).toFixed(1)}%`
  )
  bar.style.background = `50% ${y} / 76% ${height} no-repeat linear-gradient(currentColor 0 0)`
}
