// Products of matrices of doubles for multiply.js, four by four results at once.
//
// python -m ziglang cc --target=wasm32-freestanding -mcpu=generic+simd128 -O3 -nostdlib
// -Wl,--no-entry -Wl,--export=multiply
//     -Wl,--export=__heap_base -o multiply.wasm multiply.c

#include <wasm_simd128.h>

#define SIZE 4 // rows and columns at once
#define ADD(sum, x, y) sum = wasm_f64x2_add(sum, wasm_f64x2_mul(x, y))

// x (rows, inner) with steps by row and by column; y (inner, columns) and out (rows, columns) by
// rows; rows, columns >= SIZE.
void multiply(
    const double *x,
    int x_row,
    int x_column,
    const double *y,
    double *out,
    int rows,
    int inner,
    int columns
) {
    for (int row = 0; row < rows; row += SIZE) {
        for (int column = 0; column < columns; column += SIZE) {
            int i = row < rows - SIZE ? row : rows - SIZE,
                j = column < columns - SIZE ? column : columns - SIZE; // the last again
            v128_t a = wasm_f64x2_splat(0), b = a, c = a, d = a, e = a, f = a, g = a, h = a;
            const double *left = x + i * x_row, *right = y + j;
            for (int k = 0; k < inner; k++, left += x_column, right += columns) {
                v128_t first = wasm_v128_load(right), second = wasm_v128_load(right + 2),
                       value = wasm_v128_load64_splat(left);
                ADD(a, value, first);
                ADD(b, value, second);
                value = wasm_v128_load64_splat(left + x_row);
                ADD(c, value, first);
                ADD(d, value, second);
                value = wasm_v128_load64_splat(left + 2 * x_row);
                ADD(e, value, first);
                ADD(f, value, second);
                value = wasm_v128_load64_splat(left + 3 * x_row);
                ADD(g, value, first);
                ADD(h, value, second);
            }
            double *to = out + i * columns + j;
            wasm_v128_store(to, a);
            wasm_v128_store(to + 2, b);
            to += columns;
            wasm_v128_store(to, c);
            wasm_v128_store(to + 2, d);
            to += columns;
            wasm_v128_store(to, e);
            wasm_v128_store(to + 2, f);
            to += columns;
            wasm_v128_store(to, g);
            wasm_v128_store(to + 2, h);
        }
    }
}
