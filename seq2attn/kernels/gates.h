/* One row of a step's gates, formulas and names as in `seq2attn/model/gates.py`. Include after matrix.h. */

#include <math.h>

/* e^x to a unit or two in the last place, with the polynomial of Cephes, in a form that compilers make vector instructions
 * of: 0 below e^-87, e^87 beyond. A NaN stays one: comparisons with it are false. */
static inline float exp_float(float given)
{
    float x = given > 87.0f ? 87.0f : given;
    x = x < -87.0f ? -87.0f : x;
    float k = rintf((x == x ? x : 0.0f) * 1.44269504f);
    float r = (x - k * 0.693359375f) + k * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    union {
        uint32_t bits;
        float number;
    } power = {(uint32_t)((int32_t)k + 127) << 23}; /* 2^k */
    return given < -87.0f ? 0.0f : p * power.number;
}

static inline real exponential(real x)
{
    return sizeof(real) == sizeof(float) ? (real)exp_float((float)x) : (real)exp((double)x);
}

static inline real sigma(real x) { return 1 / (1 + exponential(-x)); }

static inline real hyperbolic_tangent(real x) { return 2 * sigma(2 * x) - 1; }

/* A row of sums n~, r~, z~, h -> gates n, r, z, h, in place; after = (1 - z) n + z before. */
static void activate(size width, real *gates, const real *before, real *after)
{
    real *n = gates, *r = n + width, *z = r + width, *h = z + width;
    SIMD
    for (size j = 0; j < width; j++) {
        real reset = sigma(r[j]), update = sigma(z[j]), candidate = hyperbolic_tangent(n[j] + reset * h[j]);
        n[j] = candidate;
        r[j] = reset;
        z[j] = update;
        after[j] = candidate + update * (before[j] - candidate);
    }
}

/* The gradient of `after` -> grad_gates, those of n~, r~, z~, h; that of `before` as far as it goes through z is added to
 * passed, unless that is NULL. */
static void activate_backward(size width, const real *gates, const real *before, const real *grad, real *grad_gates,
                              real *passed)
{
    const real *n = gates, *r = n + width, *z = r + width, *h = z + width;
    real *grad_n = grad_gates, *grad_r = grad_n + width, *grad_z = grad_r + width, *grad_h = grad_z + width;
    SIMD
    for (size j = 0; j < width; j++) {
        real slope = grad[j] * (1 - z[j]) * (1 - n[j] * n[j]);
        grad_n[j] = slope;
        grad_h[j] = slope * r[j];
        grad_r[j] = slope * h[j] * r[j] * (1 - r[j]);
        grad_z[j] = grad[j] * (before[j] - n[j]) * z[j] * (1 - z[j]);
    }
    if (passed) {
        SIMD
        for (size j = 0; j < width; j++)
            passed[j] += grad[j] * z[j];
    }
}
