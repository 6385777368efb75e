/* The attention of one query over the keys of its row. Include after gates.h. */

#include <float.h>

/* In place: scores (keys) -> softmax(scale scores) over the keys that are valid, 0 for all others;
 * valid (keys) may be NULL. */
static void softmax(size keys, real *weights, real scale, const unsigned char *valid) {
    real highest = -INFINITY, sum = 0;
    size count = 0;
    for (size k = 0; k < keys; k++) {
        int counts = !valid || valid[k];
        weights[k] = counts ? scale * weights[k] : -INFINITY;
        highest = weights[k] > highest ? weights[k] : highest;
        count += counts;
    }
    SIMD for (size k = 0; k < keys; k++) weights[k] = exponential(weights[k] - highest);
    for (size k = 0; k < keys; k++)
        sum += weights[k];
    for (size k = 0; k < keys; k++)
        weights[k] = count ? weights[k] / sum : 0;
}

/* In place: the gradients g of the weights a (keys) -> those of the scores before scaling,
 * scale a_k (g_k - sum_i a_i g_i). */
static void softmax_backward(size keys, const real *weights, real scale, real *grads) {
    real mean = product(keys, weights, grads);
    for (size k = 0; k < keys; k++)
        grads[k] = scale * weights[k] * (grads[k] - mean);
}

/* context (width) = the sum of the values (keys, width), each times its weight. */
static void average(size keys, size width, const real *weights, const real *values, real *context) {
    for (size j = 0; j < width; j++)
        context[j] = 0;
    for (size k = 0; k < keys; k++)
        if (weights[k] != 0)
            add_product(width, weights[k], values + k * width, context);
}

/* v.tanh(query + key) */
static real additive_score(size width, const real *query, const real *key, const real *v) {
    real score = 0;
#pragma omp simd reduction(+ : score)
    for (size j = 0; j < width; j++)
        score += v[j] * hyperbolic_tangent(query[j] + key[j]);
    return score;
}

/* Adds to the gradients of query, key and v what the gradient of their score contributes; the key's
 * alone is `slopes`. */
static void additive_backward(
    size width,
    real grad,
    const real *query,
    const real *key,
    const real *v,
    real *grad_query,
    real *grad_key,
    real *grad_v,
    real *slopes
) {
    SIMD for (size j = 0; j < width; j++) {
        real hidden = hyperbolic_tangent(query[j] + key[j]),
             slope = grad * v[j] * (1 - hidden * hidden);
        slopes[j] = slope;
        grad_query[j] += slope;
        grad_key[j] += slope;
        grad_v[j] += grad * hidden;
    }
}

/* ---- The history `shift` ---- */

#define SMALLEST                                                                                   \
    (sizeof(real) == sizeof(float) ? (real)FLT_MIN : (real)DBL_MIN) /* that is not subnormal */

/* In place: weights (keys) -> their powers, divided by the sum. */
static void sharpen(size keys, real power, real *weights) {
    real sum = 0;
    for (size k = 0; k < keys; k++)
        sum += weights[k] = (real)pow(weights[k], power);
    for (size k = 0; k < keys; k++)
        weights[k] /= sum < SMALLEST ? SMALLEST : sum;
}

/* In place: the gradients g of sharpened weights a_k = b_k^p / sum_i b_i^p (keys) -> those of the
 * weights b before, `blunt`: h_k p b_k^(p-1), h_k = (g_k - sum_i a_i g_i) / sum_i b_i^p the
 * gradient of b_k^p. Adds sum_k h_k b_k^p ln b_k to grad_power. */
static void sharpen_backward(
    size keys,
    real power,
    const real *blunt,
    const real *weights,
    real *grads,
    real *grad_power
) {
    real sum = 0, mean = product(keys, weights, grads);
    for (size k = 0; k < keys; k++)
        sum += (real)pow(blunt[k], power);
    for (size k = 0; k < keys; k++) {
        real grad = sum < SMALLEST ? grads[k] / SMALLEST : (grads[k] - mean) / sum;
        real slope = (real)pow(blunt[k], power - 1);
        if (blunt[k] > 0)
            *grad_power += grad * slope * blunt[k] * (real)log(blunt[k]);
        grads[k] = grad * power * slope;
    }
}

/* weights (reach + keys + reach), of which `count` keys are real: the row's end before its start
 * and its start after its end. */
static void wrap(size count, size reach, real *weights) {
    for (size e = 0; e < reach; e++) {
        weights[reach - 1 - e] = weights[reach + count - 1 - e % count];
        weights[reach + count + e] = weights[reach + e % count];
    }
}

/* Adds the gradients of the copies that `wrap` made to those of what was copied. */
static void wrap_backward(size count, size reach, real *grads) {
    for (size e = 0; e < reach; e++) {
        real grad = grads[reach + count + e];
        grads[reach + count + e] = 0; /* no gradient of what was there before */
        grads[reach + e % count] += grad;
        grads[reach + count - 1 - e % count] += grads[reach - 1 - e];
        grads[reach - 1 - e] = 0;
    }
}
