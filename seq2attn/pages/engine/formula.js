// Numbers and formulas as text.

const SUBSCRIPT = "₀₁₂₃₄₅₆₇₈₉"
const LOWERED = {
  t: "ₜ",
  j: "ⱼ",
  i: "ᵢ",
  k: "ₖ",
  "-": "₋",
  "+": "₊",
  ...Array.from(SUBSCRIPT)
}

const sub = number =>
  Array.from(String(number), digit => SUBSCRIPT[digit]).join("")

// A text of several lines as one.
const flowing = text => text.replace(/\s+/g, " ").trim()

const total = numbers => numbers.reduce((sum, number) => sum + number, 0)

// What the catalogue says, without its code marks and its second thoughts.
const plainly = text => text.split(";")[0].replaceAll("`", "")

// A number in little room: two digits after the point, no 0 before it.
function short(value) {
  const size = Math.abs(value)
  if (size >= 1e5) return value.toExponential(1)
  if (size >= 100) return value.toFixed(0)
  return size >= 10
    ? value.toFixed(1)
    : value.toFixed(2).replace(/^(-?)0\./, "$1.")
}

// A number with four digits.
function exact(value) {
  const size = Math.abs(value)
  if (size < 1e-15) return "0" // what rounding leaves
  if (size >= 1e5 || size < 1e-3) return value.toExponential(1)
  return Number.isInteger(value)
    ? `${value}`
    : `${Number(value.toPrecision(4))}`
}

// The subscript of a match in `written`, in small letters: of _{t-1} the part `many`, of _t the
// part `one`; the whole match, if Unicode lacks one of these letters.
function lowered(whole, many, one) {
  const signs = Array.from(many ?? one)
  return signs.every(sign => sign in LOWERED)
    ? signs.map(sign => LOWERED[sign]).join("")
    : whole
}

// A formula of the catalogue, such as "s_t . h_j / sqrt(D)", as it is printed: sₜ · hⱼ / √D.
function written(text) {
  return text
    .replace(/_(?:\{([^}]+)\}|(\w)(?!\w))/g, lowered)
    .replace(/sqrt\((\w+)\)/g, "√$1")
    .replace(/alpha/g, "α")
    .replaceAll("<=", "≤")
    .replace(/([a-z)])\.(?=[a-z(])(?!\w+\(\))/gi, "$1 · ")
}

// The text of a formula, and how tightly it binds: 1 sum, 2 product, 2.5 power, 3 one thing.
const formula = (text, binding = 3) => ({text, binding})
const within = (part, least) =>
  part.binding < least ? `(${part.text})` : part.text
const ofNumber = value => formula(exact(value), value < 0 ? 1 : 3)
