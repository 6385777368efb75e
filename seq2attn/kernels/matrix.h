/* Matrix products of the sizes that a recurrence has. For these, a general library spends up to a
 * fifth of the time on preparing each product. Matrices are row-major; `stride` is the distance
 * between two rows, in numbers.
 *
 * A product is summed in registers, one tile of TILE rows and VECTORS vectors of columns at a time.
 * Its right-hand side is packed beforehand into panels of PANEL columns, one after another; the
 * last panel is padded with zeros.
 */

#include <stdint.h>
#include <stddef.h>

typedef REAL real;
typedef int64_t size;

/* The iterations of the loop that follows are independent. */
#define SIMD _Pragma("omp simd")
#define UNROLL _Pragma("GCC unroll 8") /* so that gcc -O2, too, keeps the sums in registers */
#define INLINE static inline __attribute__((always_inline))

#if defined(__AVX512F__)
enum { BYTES = 64, TILE = 8 }; /* bytes in a vector; rows of a tile that fit into the registers */
#elif defined(__AVX__)
enum { BYTES = 32, TILE = 4 };
#elif defined(__aarch64__)
enum { BYTES = 16, TILE = 8 };
#else
enum { BYTES = 16, TILE = 4 };
#endif
typedef real vector __attribute__((vector_size(BYTES), may_alias));
enum { VECTORS = 3, PANEL = VECTORS * BYTES / sizeof(real) };
enum {
    DEPTH = 256
}; /* rows of a panel that is read again for many tiles, so that it stays in the cache */

static size packed_size(size depth, size columns) {
    return depth * ((columns + PANEL - 1) / PANEL * PANEL);
}

/* b (depth, columns) -> panels. Row k of b is row index[k], or row k where index is NULL. */
INLINE void pack_strided(
    size depth,
    size columns,
    const real *b,
    size row_stride,
    size column_stride,
    const size *index,
    real *panels
) {
    for (size first = 0; first < columns; first += PANEL) {
        size width = columns - first < PANEL ? columns - first : PANEL;
        for (size k = 0; k < depth; k++, panels += PANEL) {
            const real *row = b + (index ? index[k] : k) * row_stride + first * column_stride;
            for (size j = 0; j < width; j++)
                panels[j] = row[j * column_stride];
            for (size j = width; j < PANEL; j++)
                panels[j] = 0;
        }
    }
}

static void
pack(size depth, size columns, const real *b, size stride, const size *index, real *panels) {
    pack_strided(depth, columns, b, stride, 1, index, panels);
}

/* As `pack`, of the transpose of b (columns, depth). */
static void pack_transposed(size depth, size columns, const real *b, size stride, real *panels) {
    pack_strided(depth, columns, b, 1, stride, NULL, panels);
}

/* c (rows, columns) += a times one panel; a is (rows, depth), or (depth, rows) where `transposed`;
 * rows <= tile, columns <= PANEL. `tile` and `transposed` are constants where this is called. Rows
 * of a, and of c, may overlap. */
INLINE void multiply_tile(
    int tile,
    int transposed,
    size rows,
    size depth,
    size columns,
    const real *a,
    size a_stride,
    const real *panel,
    real *c,
    size c_stride
) {
    vector sums[TILE][VECTORS] = {{{0}}};
    const real *at[TILE];
    for (int i = 0; i < tile; i++)
        at[i] = a + (i < rows ? i : rows - 1) * (transposed ? 1 : a_stride);
    for (size k = 0; k < depth; k++) {
        const vector *b = (const vector *)(panel + k * PANEL);
        UNROLL
        for (int i = 0; i < tile; i++)
            UNROLL
        for (int j = 0; j < VECTORS; j++)
            sums[i][j] += at[i][transposed ? k * a_stride : k] * b[j];
    }
    for (size i = 0; i < rows; i++) {
        const real *sum = (const real *)sums[i];
        SIMD for (size j = 0; j < columns; j++) c[i * c_stride + j] += sum[j];
    }
}

/* c (rows, columns) += a times all panels, tile after tile; a as in `multiply_tile`. */
INLINE void multiply_panels(
    int transposed,
    size rows,
    size depth,
    size columns,
    const real *a,
    size a_stride,
    const real *panels,
    real *c,
    size c_stride
) {
    for (size first = 0; first < columns; first += PANEL, panels += depth * PANEL) {
        size width = columns - first < PANEL ? columns - first : PANEL;
        for (size i = 0; i < rows; i += TILE) {
            size count = rows - i < TILE ? rows - i : TILE;
            const real *tile = a + i * (transposed ? 1 : a_stride);
            real *to = c + i * c_stride + first;
            if (count > TILE / 2)
                multiply_tile(
                    TILE,
                    transposed,
                    count,
                    depth,
                    width,
                    tile,
                    a_stride,
                    panels,
                    to,
                    c_stride
                );
            else
                multiply_tile(
                    TILE / 2,
                    transposed,
                    count,
                    depth,
                    width,
                    tile,
                    a_stride,
                    panels,
                    to,
                    c_stride
                );
        }
    }
}

/* c (rows, columns) += a (rows, depth) b; b is in panels */
static void multiply(
    size rows,
    size depth,
    size columns,
    const real *a,
    size a_stride,
    const real *panels,
    real *c,
    size c_stride
) {
    multiply_panels(0, rows, depth, columns, a, a_stride, panels, c, c_stride);
}

/* c (rows, columns) += the transpose of a (depth, rows), times b (depth, columns): the gradient of
 * a weight, a product over `depth` positions, of which DEPTH at a time are packed. Row k of b is
 * row index[k], or row k where index is NULL. workspace: packed_size(DEPTH, columns) numbers. */
static void multiply_transposed(
    size rows,
    size depth,
    size columns,
    const real *a,
    size a_stride,
    const real *b,
    size b_stride,
    const size *index,
    real *c,
    size c_stride,
    real *workspace
) {
    for (size first = 0; first < depth; first += DEPTH) {
        size part = depth - first < DEPTH ? depth - first : DEPTH;
        pack(
            part,
            columns,
            index ? b : b + first * b_stride,
            b_stride,
            index ? index + first : NULL,
            workspace
        );
        multiply_panels(
            1,
            rows,
            part,
            columns,
            a + first * a_stride,
            a_stride,
            workspace,
            c,
            c_stride
        );
    }
}

static real product(size width, const real *a, const real *b) {
    real sum = 0;
#pragma omp simd reduction(+ : sum)
    for (size j = 0; j < width; j++)
        sum += a[j] * b[j];
    return sum;
}

/* to += factor * a */
static void add_product(size width, real factor, const real *a, real *to) {
    SIMD for (size j = 0; j < width; j++) to[j] += factor * a[j];
}

static void copy(size width, const real *from, real *to) {
    SIMD for (size j = 0; j < width; j++) to[j] = from[j];
}
