// The data that the page was made with, its colours, and how symbols are shown.

// {models, colours: of weights 0 to 1 in 256 levels, signs: {symbol: what is shown for it}}
const data = readData(by("data"))
const {models} = data
const [firstModel] = models
const hasOneModel = models.length === 1 // otherwise the page compares two

// Parse the models. If the text does not match its checksum, because the file was damaged, this
// throws; the script stops, and the page keeps its sentence that it is damaged.
function readData({textContent: text, dataset}) {
  if (dataset.checksum !== checksum(text))
    throw new Error("the data of this page are damaged")
  return JSON.parse(text)
}

// The Adler-32 of an ASCII text as eight hexadecimal digits, as Python's zlib.adler32 computes it
// when the page is written.
function checksum(text) {
  let [sum, sums] = [1, 0]
  for (let k = 0; k < text.length; k++) {
    sum = (sum + text.charCodeAt(k)) % 65521
    sums = (sums + sum) % 65521
  }
  return (65536 * sums + sum).toString(16).padStart(8, "0")
}

// {name: colour} from the style sheet, light or dark, for what is drawn on a canvas.
function colours() {
  const style = getComputedStyle(document.documentElement)
  const names = "card text quiet line soft held good bad positive negative"
  const colour = name => [name, style.getPropertyValue(`--${name}`).trim()]
  return Object.fromEntries(names.split(" ").map(colour))
}

// A symbol so that it can be seen. An accent that would combine with what precedes it is put on a
// dotted circle, ◌.
function shownSymbol(symbol) {
  if (Object.hasOwn(data.signs, symbol)) return data.signs[symbol]
  return Array.from(symbol.replace(/^(?=\p{M})/u, "◌"), shownLetter).join("")
}

// A letter so that it can be seen: a control character such as tab as its picture in Unicode, ␉;
// any kind of space as ␣; other invisible characters as their number, 200B.
function shownLetter(letter) {
  const code = letter.codePointAt(0)
  if (code < 32) return String.fromCodePoint(0x2400 + code)
  if (code === 127) return "␡"
  if (/\p{Zs}/u.test(letter)) return "␣"
  // format and control characters and unassigned ones; line and paragraph separators
  const isInvisible = /[\p{C}\p{Zl}\p{Zp}]/u.test(letter)
  return isInvisible
    ? code.toString(16).toUpperCase().padStart(4, "0")
    : letter
}

const shownText = text => Array.from(text, shownSymbol).join("")
