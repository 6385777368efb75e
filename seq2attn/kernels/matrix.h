/* Matrix products of the sizes that a recurrence has, for which the general libraries' preparations cost as much as a fifth of
 * the product. Matrices lie row by row; `stride` is the distance between two rows, in numbers.
 *
 * A product is summed in registers, a tile of TILE rows and VECTORS vectors of columns at a time. Its right side is laid out
 * for that beforehand: in panels of PANEL columns, one after another, the last one filled up with zeros.
 */

#include <stdint.h>
#include <stddef.h>

typedef REAL real;
typedef int64_t size;

/* The turns of the loop that follows do not depend on one another. */
#define SIMD _Pragma("omp simd")
#define INLINE static inline __attribute__((always_inline))

#if defined(__AVX512F__)
enum { BYTES = 64, TILE = 8 }; /* of a vector; rows that the registers have room for */
#elif defined(__AVX__)
enum { BYTES = 32, TILE = 4 };
#elif defined(__aarch64__)
enum { BYTES = 16, TILE = 8 };
#else
enum { BYTES = 16, TILE = 4 };
#endif
typedef real vector __attribute__((vector_size(BYTES), may_alias));
enum { VECTORS = 3, PANEL = VECTORS * BYTES / sizeof(real) };
enum { DEPTH = 256 }; /* of a panel that is gone through for many rows, so that the cache holds it */

static size packed_size(size depth, size columns) { return depth * ((columns + PANEL - 1) / PANEL * PANEL); }

/* b (depth, columns) -> panels. Its numbers lie row_stride and column_stride apart; row k is row index[k] unless that is NULL. */
INLINE void pack_strided(size depth, size columns, const real *b, size row_stride, size column_stride, const size *index,
                         real *panels)
{
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

static void pack(size depth, size columns, const real *b, size stride, const size *index, real *panels)
{
    pack_strided(depth, columns, b, stride, 1, index, panels);
}

/* What stands there as b (columns, depth). */
static void pack_transposed(size depth, size columns, const real *b, size stride, real *panels)
{
    pack_strided(depth, columns, b, 1, stride, NULL, panels);
}

/* c (rows, columns) += a (rows, depth) times one panel, or a (depth, rows) transposed; rows <= tile, columns <= PANEL.
 * `tile` and `transposed` are constants where this is called. */
INLINE void multiply_tile(int tile, int transposed, size rows, size depth, size columns, const real *a, size a_stride,
                          const real *panel, real *c, size c_stride)
{
    vector sums[TILE][VECTORS] = {{{0}}};
    const real *at[TILE];
    for (int i = 0; i < tile; i++)
        at[i] = a + (i < rows ? i : rows - 1) * (transposed ? 1 : a_stride);
    for (size k = 0; k < depth; k++) {
        const vector *b = (const vector *)(panel + k * PANEL);
        for (int i = 0; i < tile; i++)
            for (int j = 0; j < VECTORS; j++)
                sums[i][j] += at[i][transposed ? k * a_stride : k] * b[j];
    }
    for (size i = 0; i < rows; i++) {
        const real *sum = (const real *)sums[i];
        SIMD
        for (size j = 0; j < columns; j++)
            c[i * c_stride + j] += sum[j];
    }
}

INLINE void multiply_panels(int transposed, size rows, size depth, size columns, const real *a, size a_stride,
                            const real *panels, real *c, size c_stride)
{
    for (size first = 0; first < columns; first += PANEL, panels += depth * PANEL) {
        size width = columns - first < PANEL ? columns - first : PANEL;
        for (size i = 0; i < rows; i += TILE) {
            const real *tile = a + i * (transposed ? 1 : a_stride);
            real *into = c + i * c_stride + first;
            if (rows - i > TILE / 2)
                multiply_tile(TILE, transposed, rows - i < TILE ? rows - i : TILE, depth, width, tile, a_stride, panels, into,
                              c_stride);
            else
                multiply_tile(TILE / 2, transposed, rows - i, depth, width, tile, a_stride, panels, into, c_stride);
        }
    }
}

/* c (rows, columns) += a (rows, depth) b, as panels */
static void multiply(size rows, size depth, size columns, const real *a, size a_stride, const real *panels, real *c,
                     size c_stride)
{
    multiply_panels(0, rows, depth, columns, a, a_stride, panels, c, c_stride);
}

/* c (rows, columns) += a (depth, rows) transposed, times b (depth, columns), whose rows `index` names unless it is NULL.
 * room: for packed_size(DEPTH, columns). */
static void multiply_transposed(size rows, size depth, size columns, const real *a, size a_stride, const real *b,
                                size b_stride, const size *index, real *c, size c_stride, real *room)
{
    for (size first = 0; first < depth; first += DEPTH) {
        size part = depth - first < DEPTH ? depth - first : DEPTH;
        pack(part, columns, index ? b : b + first * b_stride, b_stride, index ? index + first : NULL, room);
        multiply_panels(1, rows, part, columns, a + first * a_stride, a_stride, room, c, c_stride);
    }
}

static real product(size width, const real *a, const real *b)
{
    real sum = 0;
    #pragma omp simd reduction(+ : sum)
    for (size j = 0; j < width; j++)
        sum += a[j] * b[j];
    return sum;
}

/* to += factor * a */
static void add_product(size width, real factor, const real *a, real *to)
{
    SIMD
    for (size j = 0; j < width; j++)
        to[j] += factor * a[j];
}

static void copy(size width, const real *from, real *to)
{
    SIMD
    for (size j = 0; j < width; j++)
        to[j] = from[j];
}
