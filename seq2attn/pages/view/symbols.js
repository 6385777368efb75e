// What the page was made with, and how symbols and weights are shown.

// {models, colours, signs}
const data = readData(by("data"))

// Raises an error for data that were changed or cut off; the page then goes on saying that it is
// damaged.
function readData({textContent: text, dataset}) {
  if (dataset.checksum !== checksum(text))
    throw new Error("the data of this page are damaged")
  return JSON.parse(text)
}

// The CRC-32 of a text of ASCII.
function checksum(text) {
  let crc = -1
  for (let k = 0; k < text.length; k++) {
    crc ^= text.charCodeAt(k)
    for (let bit = 0; bit < 8; bit++)
      crc = (crc >>> 1) ^ (crc & 1 && 0xedb88320)
  }
  return (~crc >>> 0).toString(16).padStart(8, "0")
}

const NAMES =
  "card text quiet line soft held good bad positive negative".split(" ")

function colours() {
  const style = getComputedStyle(document.documentElement)
  const colour = name => [name, style.getPropertyValue(`--${name}`).trim()]
  return Object.fromEntries(NAMES.map(colour))
}

// How a symbol is shown: what cannot be seen gets a sign.
function shownSymbol(symbol) {
  if (Object.hasOwn(data.signs, symbol)) return data.signs[symbol]
  return Array.from(symbol.replace(/^(?=\p{M})/u, "◌"), shownLetter).join("")
}

// A letter as it is shown: controls as the pictures that Unicode has of them, others that cannot
// be seen as their number, spaces as ␣.
function shownLetter(letter) {
  const code = letter.codePointAt(0)
  if (code < 32) return String.fromCodePoint(0x2400 + code)
  if (code === 127) return "␡"
  if (/\p{Cf}|\p{Zl}|\p{Zp}|\p{Cc}|\p{Cn}|\p{Co}|\p{Cs}/u.test(letter)) {
    return code.toString(16).toUpperCase().padStart(4, "0")
  }
  return /\p{Zs}/u.test(letter) ? "␣" : letter
}

const shownText = text => Array.from(text, shownSymbol).join("")
