/* One row of one GRU step. Include after matrix.h.
 *
 * From the sums n~, r~, z~ (what the input and the previous state add to each gate; n~: the input
 * only) and h = W_hn s + b_hn: r = sigma(r~), z = sigma(z~), n = tanh(n~ + r h), s' = (1 - z) n + z
 * s
 */

#include <math.h>

/* e^x, off by one or two units in the last place (the polynomial of Cephes), written so that
 * compilers vectorise it: 0 for x < -87, e^87 for x > 87, NaN for NaN, since comparisons with NaN
 * are false. */
static inline float exp_float(float argument) {
    float x = argument > 87.0f ? 87.0f : argument;
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
    return argument < -87.0f ? 0.0f : p * power.number;
}

static inline real exponential(real x) {
    return sizeof(real) == sizeof(float) ? (real)exp_float((float)x) : (real)exp((double)x);
}

static inline real sigma(real x) {
    return 1 / (1 + exponential(-x));
}

static inline real hyperbolic_tangent(real x) {
    return 2 * sigma(2 * x) - 1;
}

/* Sums n~, r~, z~, h -> gates n, r, z, h, in place, and the next state. */
static void activate(size width, real *gates, const real *previous, real *next) {
    real *n = gates, *r = n + width, *z = r + width, *h = z + width;
    SIMD for (size j = 0; j < width; j++) {
        real reset = sigma(r[j]), update = sigma(z[j]),
             candidate = hyperbolic_tangent(n[j] + reset * h[j]);
        n[j] = candidate;
        r[j] = reset;
        z[j] = update;
        next[j] = candidate + update * (previous[j] - candidate);
    }
}

/* The gradient g of the next state -> grad_gates, the gradients of n~, r~, z~, h:
 *   n~: g (1 - z) (1 - n^2)    h: that times r    r~: that times h r (1 - r)
 *   z~: g (s - n) z (1 - z)
 * The previous state's gradient through the term z s, g z, is added to grad_previous unless that is
 * NULL. */
static void activate_backward(
    size width,
    const real *gates,
    const real *previous,
    const real *grad,
    real *grad_gates,
    real *grad_previous
) {
    const real *n = gates, *r = n + width, *z = r + width, *h = z + width;
    real *grad_n = grad_gates, *grad_r = grad_n + width, *grad_z = grad_r + width,
         *grad_h = grad_z + width;
    SIMD for (size j = 0; j < width; j++) {
        real slope = grad[j] * (1 - z[j]) * (1 - n[j] * n[j]);
        grad_n[j] = slope;
        grad_h[j] = slope * r[j];
        grad_r[j] = slope * h[j] * r[j] * (1 - r[j]);
        grad_z[j] = grad[j] * (previous[j] - n[j]) * z[j] * (1 - z[j]);
    }
    if (grad_previous) {
        SIMD for (size j = 0; j < width; j++) grad_previous[j] += grad[j] * z[j];
    }
}
