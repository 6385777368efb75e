// Products of large matrices, in WebAssembly: multiply.c, compiled by the command that stands
// there, as base64.

const COMPILED = `
AGFzbQEAAAABDAFgCH9/f39/f39/AAMCAQAFAwEAEAYRAn8BQYCAwAALfwBBgIDAAAsHIwMGbWVtb3J5AgAIbXVsdGlwbHkA
AAtfX2hlYXBfYmFzZQMBCskEAcYEBA9/CHsBfwV7AkAgBUEBSA0AIAFBA3QhCCACQQN0IQkgB0EDdCEKIAdBfGohCyAFQXxq
IQxBACENIAdBAUghDgNAAkAgDg0AIAggDSAMIA0gDEgbIgJsIQ8gASACQQN0IhBBCGpsIREgASAQQRBqbCESIAEgEEEYamwh
EyAEIAIgB2xBA3RqIRRBACEVA0AgFSALIBUgC0gbQQN0IRYCQAJAIAZBAU4NAP0MAAAAAAAAAAAAAAAAAAAAACIXIRggFyEZ
IBchGiAXIRsgFyEcIBchHSAXIR4MAQsgAyAWaiEQIAAhAiAGIR/9DAAAAAAAAAAAAAAAAAAAAAAiHiEdIB4hHCAeIRsgHiEa
IB4hGSAeIRggHiEXA0AgHSAQQRBq/QAAACIgIAIgE2r9CgAAIiH98gH98AEhHSAbICAgAiASav0KAAAiIv3yAf3wASEbIBkg
ICACIBFq/QoAACIj/fIB/fABIRkgFyAgIAIgD2r9CgAAIiT98gH98AEhFyACIAlqIQIgHCAQ/QAAACIgICH98gH98AEhHCAa
ICAgIv3yAf3wASEaIBggICAj/fIB/fABIRggHiAgICT98gH98AEhHiAQIApqIRAgH0F/aiIfDQALCyAUIBZqIgIgF/0LABAg
AiAe/QsAACACIApqIgIgGf0LABAgAiAY/QsAACACIApqIgIgG/0LABAgAiAa/QsAACACIApqIgIgHf0LABAgAiAc/QsAACAV
QQRqIhUgB0gNAAsLIA1BBGoiDSAFSA0ACwsL
`

function bytesOf(text) {
  const letters = atob(text)
  const bytes = new Uint8Array(letters.length)
  for (let k = 0; k < bytes.length; k++) bytes[k] = letters.charCodeAt(k)
  return bytes
}

// The functions and the memory of the compiled loop.
const compiled = (() => {
  try {
    const module = new WebAssembly.Module(bytesOf(COMPILED))
    return new WebAssembly.Instance(module).exports
  } catch {
    return null // a browser without it, or one that does not allow it: slower
  }
})()

// Like `multiply` in products.js, for at least four rows and columns. The compiled loop can read
// its own memory only: both matrices are copied there one after the other, from __heap_base on,
// where free memory begins; behind them it writes the product, which is copied back. `left`,
// `right` and `made` are where they begin, counted in doubles here and in bytes (8 for each) there.
// If a is the transpose of a contiguous matrix, that matrix is copied at once, and read with other
// strides.
function multiplyCompiled(a, b, out, place) {
  const [rows, inner] = a.shape
  const columns = b.shape[1]
  const left = compiled.__heap_base.value / 8
  const right = left + rows * inner
  const made = right + inner * columns
  const all = reserve(made + rows * columns)
  const isTurned = a.strides[0] === 1 && a.strides[1] === rows
  load(all, left, isTurned ? transpose(a, 0, 1) : a)
  load(all, right, b)
  const strides = isTurned ? [1, rows] : [inner, 1]
  compiled.multiply(
    8 * left,
    ...strides,
    8 * right,
    8 * made,
    rows,
    inner,
    columns
  )
  out.set(all.subarray(made, made + rows * columns), place)
}

// The memory of the compiled loop as an array, with room for so many numbers. It grows by pages of
// 65,536 bytes.
function reserve(length) {
  const {memory: own} = compiled
  const missing = 8 * length - own.buffer.byteLength
  if (missing > 0) own.grow(Math.ceil(missing / 65536))
  return new Float64Array(own.buffer)
}

// Copies a matrix by rows into the memory `all` from `place` on: at once, if it is contiguous.
function load(
  all,
  place,
  {data, shape: [rows, columns], strides: [row, column], offset}
) {
  if (column === 1 && row === columns) {
    all.set(data.subarray(offset, offset + rows * columns), place)
    return
  }
  for (let j = 0; j < columns; j++) {
    for (let k = 0; k < rows; k++) {
      all[place + k * columns + j] = data[offset + k * row + j * column]
    }
  }
}
