"use strict";
// Products of large matrices, in WebAssembly: multiply.c, compiled by the command that stands there, as base64.

const COMPILED = `
AGFzbQEAAAABDAFgCH9/f39/f39/AAMCAQAFAwEAEAYRAn8BQYCAwAALfwBBgIDAAAsHIwMGbWVtb3J5AgAIbXVsdGlwbHkAAAtfX2hlYXBfYmFzZQMBCskE
AcYEBA9/CHsBfwV7AkAgBUEBSA0AIAFBA3QhCCACQQN0IQkgB0EDdCEKIAdBfGohCyAFQXxqIQxBACENIAdBAUghDgNAAkAgDg0AIAggDSAMIA0gDEgbIgJs
IQ8gASACQQN0IhBBCGpsIREgASAQQRBqbCESIAEgEEEYamwhEyAEIAIgB2xBA3RqIRRBACEVA0AgFSALIBUgC0gbQQN0IRYCQAJAIAZBAU4NAP0MAAAAAAAA
AAAAAAAAAAAAACIXIRggFyEZIBchGiAXIRsgFyEcIBchHSAXIR4MAQsgAyAWaiEQIAAhAiAGIR/9DAAAAAAAAAAAAAAAAAAAAAAiHiEdIB4hHCAeIRsgHiEa
IB4hGSAeIRggHiEXA0AgHSAQQRBq/QAAACIgIAIgE2r9CgAAIiH98gH98AEhHSAbICAgAiASav0KAAAiIv3yAf3wASEbIBkgICACIBFq/QoAACIj/fIB/fAB
IRkgFyAgIAIgD2r9CgAAIiT98gH98AEhFyACIAlqIQIgHCAQ/QAAACIgICH98gH98AEhHCAaICAgIv3yAf3wASEaIBggICAj/fIB/fABIRggHiAgICT98gH9
8AEhHiAQIApqIRAgH0F/aiIfDQALCyAUIBZqIgIgF/0LABAgAiAe/QsAACACIApqIgIgGf0LABAgAiAY/QsAACACIApqIgIgG/0LABAgAiAa/QsAACACIApq
IgIgHf0LABAgAiAc/QsAACAVQQRqIhUgB0gNAAsLIA1BBGoiDSAFSA0ACwsL
`;

const compiled = (() => {
  try {
    return new WebAssembly.Instance(new WebAssembly.Module(Uint8Array.from(atob(COMPILED), letter => letter.charCodeAt(0)))).exports;
  } catch { return null; }  // a browser without it, or one that does not allow it: slower
})();

// Like `multiply`, of at least four rows and columns: copied to where the compiled loop can read them, and back.
function multiplyCompiled(x, xAt, [xRow, xColumn], y, yAt, [yRow, yColumn], out, outAt, rows, inner, columns) {
  const {memory, __heap_base: base} = compiled, left = base.value / 8, right = left + rows * inner, made = right + inner * columns;
  const missing = 8 * (made + rows * columns) - memory.buffer.byteLength;
  if (missing > 0) memory.grow(Math.ceil(missing / 65536));
  const all = new Float64Array(memory.buffer);
  all.set(x.subarray(xAt, xAt + rows * inner), left);
  if (yColumn === 1) all.set(y.subarray(yAt, yAt + inner * columns), right);
  else for (let j = 0; j < columns; j++) for (let k = 0; k < inner; k++) all[right + k * columns + j] = y[yAt + j * yColumn + k * yRow];
  compiled.multiply(8 * left, xRow, xColumn, 8 * right, 8 * made, rows, inner, columns);
  out.set(all.subarray(made, made + rows * columns), outAt);
}
