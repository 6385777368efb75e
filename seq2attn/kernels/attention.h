/* The attention of one query over the keys of its row. Include after gates.h. */

/* In place: scores (keys) -> weights (keys) = softmax(scale scores) over the keys that are valid, 0 for all others; valid (keys)
 * may be NULL. context (width) = the sum of the values (keys, width), each times its weight. */
static void attend(size keys, size width, real *weights, real scale, const unsigned char *valid, const real *values,
                   real *context)
{
    real highest = -INFINITY, sum = 0;
    size count = 0;
    for (size k = 0; k < keys; k++) {
        int counts = !valid || valid[k];
        weights[k] = counts ? scale * weights[k] : -INFINITY;
        highest = weights[k] > highest ? weights[k] : highest;
        count += counts;
    }
    SIMD
    for (size k = 0; k < keys; k++)
        weights[k] = exponential(weights[k] - highest);
    for (size k = 0; k < keys; k++)
        sum += weights[k];
    for (size j = 0; j < width; j++)
        context[j] = 0;
    for (size k = 0; k < keys; k++) {
        weights[k] = count ? weights[k] / sum : 0;
        if (weights[k] != 0)
            add_product(width, weights[k], values + k * width, context);
    }
}

/* The gradients of context (width) and weights (keys; may be NULL) -> those of the scores (keys) before scaling. */
static void attend_backward(size keys, size width, const real *weights, real scale, const real *values,
                            const real *grad_context, const real *grad_weights, real *grad_scores)
{
    real mean = 0;
    for (size k = 0; k < keys; k++) {
        grad_scores[k] = grad_weights ? grad_weights[k] : 0;
        if (weights[k] != 0)
            grad_scores[k] += product(width, grad_context, values + k * width);
        mean += weights[k] * grad_scores[k];
    }
    for (size k = 0; k < keys; k++)
        grad_scores[k] = scale * weights[k] * (grad_scores[k] - mean);
}

/* v.tanh(query + key) */
static real additive_score(size width, const real *query, const real *key, const real *v)
{
    real score = 0;
    #pragma omp simd reduction(+ : score)
    for (size j = 0; j < width; j++)
        score += v[j] * hyperbolic_tangent(query[j] + key[j]);
    return score;
}

/* Adds to the gradients of query, key and v what the gradient of their score contributes. */
static void additive_backward(size width, real grad, const real *query, const real *key, const real *v, real *grad_query,
                              real *grad_key, real *grad_v)
{
    SIMD
    for (size j = 0; j < width; j++) {
        real hidden = hyperbolic_tangent(query[j] + key[j]), slope = grad * v[j] * (1 - hidden * hidden);
        grad_query[j] += slope;
        grad_key[j] += slope;
        grad_v[j] += grad * hidden;
    }
}
