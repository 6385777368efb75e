/* A GRU, with or without attention: all steps in one call, and all gradients in another. The
 * formulas are those of `seq2attn/model/`; this file computes the same, faster.
 *
 * Compiled once for each kind of number and processor, with -DREAL=float or double and
 * -DVARIANT=..., see setup.py. Gates and their gradients are packed: step after step, in each step
 * the rows that take part, N positions in all. A row of gates is n, r, z, h, see gates.h.
 */

#include "matrix.h"
#include "gates.h"
#include "attention.h"

#define JOIN(name, real, variant) name##_##real##_##variant
#define EXPAND(name, real, variant) JOIN(name, real, variant)
#define EXPORTED(name) EXPAND(name, REAL, VARIANT) /* forward_float_avx2 */

/* The fields of `function.py`, in its order. What is not needed is NULL or 0. */
typedef struct {
    size steps;           /* L */
    size rows;            /* B */
    size width;           /* D */
    size vocabulary;      /* V */
    size embedding_width; /* E */
    size fed_width;       /* F: what the cell reads beside these */
    size key_count;       /* S */
    size key_width;       /* D or Da */
    size value_width;     /* Dv */
    size context_width;   /* Dc = Dv or, with a history's reading, Dv + 1 */
    size channels;        /* C of past_weight: with a history */
    size taps;            /* T */
    size distances;       /* M of moves, or 0 */

    const size *tokens;  /* (B, L) */
    const size *lengths; /* (B) tokens of each row that are read, the longest first; NULL: all */
    const unsigned char
        *kept;         /* (B, L) 0 = noise replaces the state before this step; NULL: never */
    const real *noise; /* (B, L, D) */
    const unsigned char *valid; /* (B, S) 1 = may be attended to; NULL: all */
    const real *scale;          /* (B) multiplies the scores; NULL: 1 */
    const real *returning;      /* (1) of `shift_by_key`: multiplies what it reads */
    const real *embedding;      /* (V, E) */
    const real *weight_ih;      /* (3D, E + F) r, z, n, as the next three */
    const real *weight_hh;      /* (3D, D) */
    const real *bias_ih;        /* (3D) */
    const real *bias_hh;        /* (3D) */
    const real *initial;        /* (B, D) the state before the first step */
    const real *keys;           /* (B, S, key_width), projected */
    const real *values;         /* (B, S, Dv) */
    const real *query_weight;   /* (Da, D) for the additive score, as the next */
    const real *v;              /* (Da) */
    const real *past_weight;    /* (C, T, Da, M or 1): of the convolution over `pasts` */
    const real *power;          /* (1) of the history `shift`: the power of what has moved */
    const real *moves; /* (B, S, M) of `shift_by_key`: with the convolution, logits of the distances
                          from each key */
    const real *combine; /* (D, D + Dc) of the arrangement `luong`: step, then attend */

    real *gates;  /* (N, 4D), N the positions that are read */
    real *before; /* (N, D) the state before each */
    real *states; /* (B, L, D + Dc) the state after each step, and its context; a row that has ended
                     keeps its last */
    real *vectors; /* (B, L, D) tanh of `combine` times these, as the next two not written where a
                      row has ended */
    real *weights; /* (B, L, S) */
    real *queries; /* (N, Da) for the additive score */
    real *pasts; /* (N, 2 or with `moves` 3, T - 1 + S) with a history: weights of the step before,
                    the sum of all, weights of two steps before; 0 before the call */

    /* Gradients; all but the first three must be 0 before the call. */
    real *grad_states;  /* (B, L, D + Dc); overwritten, as the next: gradients from later steps are
                           added */
    real *grad_vectors; /* (B, L, D) */
    const real *grad_weights; /* (B, L, S) or NULL */
    real *grad_embedding, *grad_weight_ih, *grad_weight_hh, *grad_bias_ih, *grad_bias_hh;
    real *grad_initial; /* (B, D) or NULL */
    real *grad_keys, *grad_values, *grad_query_weight, *grad_v, *grad_past_weight, *grad_power,
        *grad_moves, *grad_combine;

    real *workspace; /* `workspace_size` numbers, of which `index_positions` takes the next four */
    size *sizes;     /* (L) how many rows take part in each step: the first ones */
    size *offsets;   /* (L + 1) the first position of each step, and N */
    size *symbols;   /* (N) the token at each position */
    size *places;    /* (N) where its state is: rows x L + step */
} Recurrence;

static size larger(size a, size b) {
    return a > b ? a : b;
}

static size positions(const Recurrence *r) {
    return r->offsets[r->steps];
}

/* Numbers between the states of two steps, and between those of two rows. */
static size step_stride(const Recurrence *r) {
    return r->width + r->context_width;
}
static size row_stride(const Recurrence *r) {
    return r->steps * step_stride(r);
}

static int is_kept(const Recurrence *r, size row, size step) {
    return !r->kept || r->kept[row * r->steps + step];
}

/* A zero state adds nothing to the gates, and nothing to the gradient of W_hh. */
static int starts_at_zero(const Recurrence *r) {
    for (size j = 0; j < r->rows * r->width; j++)
        if (r->initial[j] != 0)
            return 0;
    return !r->kept;
}

/* Takes aligned memory from the workspace. */
static real *take(real **workspace, size numbers) {
    real *taken = *workspace;
    *workspace += (numbers + 63) / 64 * 64;
    return taken;
}

static void fill_with_zeros(size numbers, real *to) {
    SIMD for (size j = 0; j < numbers; j++) to[j] = 0;
}

static real *take_zeros(real **workspace, size numbers) {
    real *taken = take(workspace, numbers);
    fill_with_zeros(numbers, taken);
    return taken;
}

/* Packs weight W (outputs, inputs) for products x W^T, from inputs to outputs, or backward for g W,
 * from gradients of outputs to those of inputs. */
static const real *panels_of(
    int backward,
    size outputs,
    size inputs,
    const real *weight,
    size stride,
    real **workspace
) {
    real *panels =
        take(workspace, backward ? packed_size(outputs, inputs) : packed_size(inputs, outputs));
    if (weight && backward)
        pack(outputs, inputs, weight, stride, NULL, panels);
    else if (weight)
        pack_transposed(inputs, outputs, weight, stride, panels);
    return panels;
}

/* Numbers the positions that are read, step after step, in sizes, offsets, symbols and places, at
 * the start of the workspace. Rows are sorted by length, so that those taking part in a step are
 * the first ones. Returns whether all tokens are symbols. */
static int index_positions(Recurrence *r) {
    size *next = (size *)r->workspace, position = 0, taking_part = r->rows;
    r->sizes = next;
    r->offsets = r->sizes + r->steps;
    r->symbols = r->offsets + r->steps + 1;
    r->places = r->symbols + r->rows * r->steps;
    next = r->places + r->rows * r->steps;
    r->workspace += (((char *)next - (char *)r->sizes) / (size)sizeof(real) + 63) / 64 * 64;
    for (size step = 0; step < r->steps; step++) {
        while (r->lengths && taking_part > 0 && r->lengths[taking_part - 1] <= step)
            taking_part--;
        r->sizes[step] = taking_part;
        r->offsets[step] = position;
        for (size i = 0; i < taking_part; i++, position++) {
            r->places[position] = i * r->steps + step;
            r->symbols[position] = r->tokens[i * r->steps + step];
            if (r->symbols[position] < 0 || r->symbols[position] >= r->vocabulary)
                return 0;
        }
    }
    r->offsets[r->steps] = position;
    return 1;
}

/* ---- What a token adds to the gates: a table with one row a symbol, or one row a position if
 * those are fewer ---- */

static int has_symbols(const Recurrence *r) {
    return r->vocabulary < positions(r);
}
static size table_rows(const Recurrence *r) {
    return has_symbols(r) ? r->vocabulary : positions(r);
}
static size table_row(const Recurrence *r, size position) {
    return has_symbols(r) ? r->symbols[position] : position;
}
static size table_symbol(const Recurrence *r, size row) {
    return has_symbols(r) ? row : r->symbols[row];
}

/* weight_ih in the order n, r, z */
static const real *input_weight(const Recurrence *r, real **workspace) {
    size width = r->width, stride = r->embedding_width + r->fed_width;
    real *weight = take(workspace, 3 * width * stride);
    copy(width * stride, r->weight_ih + 2 * width * stride, weight);
    copy(2 * width * stride, r->weight_ih, weight + width * stride);
    return weight;
}

/* Rows of what a token with embedding e adds to the gates, biases included:
 * n~ = W_in e + b_in, r~ = W_ir e + b_ir + b_hr, z~ = W_iz e + b_iz + b_hz, h = b_hn. */
static const real *token_table(const Recurrence *r, const real *weight, real *workspace) {
    size width = r->width, embedded = r->embedding_width, rows = table_rows(r);
    real *table = take(&workspace, rows * 4 * width),
         *embeddings = take(&workspace, rows * embedded);
    const real *panels =
        panels_of(0, 3 * width, embedded, weight, embedded + r->fed_width, &workspace);
    for (size i = 0; i < rows; i++) {
        real *n = table + i * 4 * width, *rz = n + width, *h = rz + 2 * width;
        copy(embedded, r->embedding + table_symbol(r, i) * embedded, embeddings + i * embedded);
        copy(width, r->bias_ih + 2 * width, n);
        copy(width, r->bias_hh + 2 * width, h);
        for (size j = 0; j < 2 * width; j++)
            rz[j] = r->bias_ih[j] + r->bias_hh[j];
    }
    multiply(rows, embedded, 3 * width, embeddings, embedded, panels, table, 4 * width);
    return table;
}

/* From the gradients of all gates. A row of the table has the sum of those of the positions that
 * used it: of this sum g, W_i and the row's embedding e get e's gradient W_i^T g and W_i's g e^T,
 * and the biases g itself. */
static void token_table_backward(
    const Recurrence *r,
    const real *weight,
    const real *grad_gates,
    real *workspace
) {
    size width = r->width, embedded = r->embedding_width, stride = embedded + r->fed_width,
         rows = table_rows(r);
    real *grad_table = take_zeros(&workspace, rows * 4 * width),
         *grad_bias = take_zeros(&workspace, 4 * width);
    real *embeddings = take(&workspace, rows * embedded),
         *grad_embeddings = take_zeros(&workspace, rows * embedded);
    const real *panels = panels_of(1, 3 * width, embedded, weight, stride, &workspace);
    for (size position = 0; position < positions(r); position++)
        add_product(
            4 * width,
            1,
            grad_gates + position * 4 * width,
            grad_table + table_row(r, position) * 4 * width
        );
    multiply(rows, 3 * width, embedded, grad_table, 4 * width, panels, grad_embeddings, embedded);
    for (size i = 0; i < rows; i++) {
        add_product(4 * width, 1, grad_table + i * 4 * width, grad_bias);
        add_product(
            embedded,
            1,
            grad_embeddings + i * embedded,
            r->grad_embedding + table_symbol(r, i) * embedded
        );
        copy(embedded, r->embedding + table_symbol(r, i) * embedded, embeddings + i * embedded);
    }
    copy(width, grad_bias, r->grad_bias_ih + 2 * width); /* b_in */
    copy(2 * width, grad_bias + width, r->grad_bias_ih); /* b_ir, b_iz */
    copy(3 * width, grad_bias + width, r->grad_bias_hh); /* b_hr, b_hz, b_hn */
    multiply_transposed(
        width,
        rows,
        embedded,
        grad_table,
        4 * width,
        embeddings,
        embedded,
        NULL,
        r->grad_weight_ih + 2 * width * stride,
        stride,
        workspace
    );
    multiply_transposed(
        2 * width,
        rows,
        embedded,
        grad_table + width,
        4 * width,
        embeddings,
        embedded,
        NULL,
        r->grad_weight_ih,
        stride,
        workspace
    );
}

/* ---- Weights in panels, and memory that all steps share ---- */

typedef struct {
    /* panels of W_hh, W_ih's columns for what is fed, query_weight, combine, and of past_weight for
     * each channel */
    const real *state, *fed, *query, *combine, *past[3], *past_backward[3];
    real *located; /* (S, feature_width) of `locate` */
    real *slopes;  /* (S, the larger of key_width and feature_width) gradients of `located` */
    real *moved;   /* (S) */
    real *grad_past, *grad_before;    /* (B, as `pasts`), (B, D) */
    real *grad_scores, *grad_queries; /* (B, L, S), (N, Da) */
    real *grad_combined;              /* (N, D) before the tanh */
    real *rest;                       /* for `multiply_transposed` */
} Shared;

/* What a history adds to each key: to its hidden layer for the additive score, to logits of
 * distances, else to its score. */
static int is_located(const Recurrence *r) {
    return r->taps && r->query_weight && !r->power;
}
static size feature_width(const Recurrence *r) {
    return is_located(r) ? r->key_width : larger(r->distances, 1);
}
static size past_width(const Recurrence *r) {
    return r->taps ? r->taps - 1 + r->key_count : 0;
}
static size past_size(const Recurrence *r) {
    return (r->moves ? 3 : 2) * past_width(r);
}

/* Packs the weights once for all steps, and takes memory that they share. */
static Shared share(const Recurrence *r, int backward, const real *weight_ih, real *workspace) {
    size width = r->width, fed = r->fed_width, key = r->query_weight ? r->key_width : 0,
         unit = step_stride(r);
    size features = feature_width(r), count = r->rows * r->steps;
    Shared s;
    s.state = panels_of(backward, 3 * width, width, r->weight_hh, width, &workspace);
    s.fed = panels_of(
        backward,
        3 * width,
        fed,
        weight_ih + r->embedding_width,
        r->embedding_width + fed,
        &workspace
    );
    s.query = panels_of(backward, key, width, r->query_weight, width, &workspace);
    s.combine = panels_of(backward, r->combine ? width : 0, unit, r->combine, unit, &workspace);
    for (size c = 0; c < r->channels; c++) {
        const real *weight = r->past_weight + c * r->taps * features;
        s.past[c] = panels_of(1, r->taps, features, weight, features, &workspace);
        s.past_backward[c] = panels_of(0, r->taps, features, weight, features, &workspace);
    }
    s.located = take(&workspace, r->key_count * features);
    if (backward) {
        s.slopes = take(&workspace, r->key_count * larger(r->key_width, features));
        s.moved = take(&workspace, r->key_count);
        s.grad_past = take_zeros(&workspace, r->rows * past_size(r));
        s.grad_before = take(&workspace, r->rows * width);
        s.grad_scores = take(&workspace, count * r->key_count);
        s.grad_queries = take(&workspace, count * key);
        s.grad_combined = take(&workspace, r->combine ? count * width : 0);
    }
    s.rest = workspace;
    return s;
}

/* ---- One row's attention in one step ---- */

static const real *key_of(const Recurrence *r, size row, size k) {
    return r->keys + (row * r->key_count + k) * r->key_width;
}

/* s->located (S, feature_width): at key k the convolution over the past weights around it,
 * sum_c sum_t past[c][k + t] F[c][t], `past` being padded on both sides; added to W_h h_k for the
 * additive score, and for moves to the logits of the distances from k. */
static void locate(const Recurrence *r, const Shared *s, size row, const real *past) {
    size features = feature_width(r);
    if (is_located(r))
        copy(r->key_count * features, key_of(r, row, 0), s->located);
    else if (r->moves)
        copy(r->key_count * features, r->moves + row * r->key_count * features, s->located);
    else
        fill_with_zeros(r->key_count, s->located);
    for (size c = 0; c < r->channels; c++) /* rows of the left-hand side overlap: the convolution */
        multiply(
            r->key_count,
            r->taps,
            features,
            past + c * past_width(r),
            1,
            s->past[c],
            s->located,
            features
        );
}

/* From the gradients of s->located, `slopes` (S, feature_width): adds to those of the filters,
 * grad F[c][t] += sum_k past[c][k + t] slopes[k], and of the past, grad past[c][k + t] += slopes[k]
 * F[c][t]. */
static void locate_backward(
    const Recurrence *r,
    const Shared *s,
    const real *past,
    const real *slopes,
    real *grad_past
) {
    size features = feature_width(r);
    for (size c = 0; c < r->channels; c++) {
        multiply_transposed(
            r->taps,
            r->key_count,
            features,
            past + c * past_width(r),
            1,
            slopes,
            features,
            NULL,
            r->grad_past_weight + c * r->taps * features,
            features,
            s->rest
        );
        multiply(
            r->key_count,
            features,
            r->taps,
            slopes,
            features,
            s->past_backward[c],
            grad_past + c * past_width(r),
            1
        );
    }
}

static int is_valid(const Recurrence *r, size row, size k) {
    return !r->valid || r->valid[row * r->key_count + k];
}

static size count_valid(const Recurrence *r, size row) {
    size count = 0;
    for (size k = 0; k < r->key_count; k++)
        count += is_valid(r, row, k);
    return larger(count, 1);
}

/* Which of `count` keys something that leaves key k by distance d, counted from the smallest,
 * reaches. */
static size reached(const Recurrence *r, size count, size k, size d) {
    size to = (k + d - r->distances / 2) % count;
    return to < 0 ? to + count : to;
}

/* Weights (S) that have moved: the past weight of key k arrives, in shares p_k(d), at the keys at
 * distances d. The logits of p_k in s->located become p_k = softmax. */
static void move(const Recurrence *r, const Shared *s, size row, const real *past, real *weights) {
    size count = count_valid(r, row);
    fill_with_zeros(r->key_count, weights);
    for (size k = 0; k < count; k++) {
        real *p = s->located + k * r->distances;
        softmax(r->distances, p, 1, NULL);
        for (size d = 0; d < r->distances; d++)
            weights[reached(r, count, k, d)] += p[d] * past[r->taps / 2 + k];
    }
}

/* From the gradients of what `move` returned (S): p_k(d) has that of the key which it reaches times
 * the past weight of k, the past weight of k the sum over d of p_k(d) times them. Adds to the
 * gradients of the past. */
static void move_backward(
    const Recurrence *r,
    const Shared *s,
    size row,
    const real *past,
    const real *grads,
    real *grad_past
) {
    size count = count_valid(r, row), width = r->distances;
    fill_with_zeros(r->key_count * width, s->slopes);
    for (size k = 0; k < count; k++) {
        const real *p = s->located + k * width;
        real *slopes = s->slopes + k * width;
        for (size d = 0; d < width; d++)
            slopes[d] = grads[reached(r, count, k, d)];
        grad_past[r->taps / 2 + k] += product(width, p, slopes);
        softmax_backward(width, p, past[r->taps / 2 + k], slopes);
    }
    add_product(r->key_count * width, 1, s->slopes, r->grad_moves + row * r->key_count * width);
    locate_backward(r, s, past, s->slopes, grad_past);
}

/* Weights (S), before the history `shift` sharpens them: the softmax of the scores, v.tanh(q + k)
 * or q.k with what the past adds; but of `shift` the past weights moved, unless less than half of
 * their sum is left, as in the first step. Returns whether they are moved ones, so that there are
 * no scores. */
static int weigh(
    const Recurrence *r,
    const Shared *s,
    size row,
    const real *query,
    const real *past,
    real *weights
) {
    real left = 0;
    if (past)
        locate(r, s, row, past);
    if (r->moves)
        move(r, s, row, past, weights);
    for (size k = 0; k < r->key_count && r->power; k++)
        left += weights[k] = is_valid(r, row, k) ? r->moves ? weights[k] : s->located[k] : 0;
    if (left > (real)0.5)
        return 1;
    for (size k = 0; k < r->key_count; k++) {
        const real *key = is_located(r) ? s->located + k * r->key_width : key_of(r, row, k);
        weights[k] = r->query_weight ? additive_score(r->key_width, query, key, r->v)
                                     : product(r->key_width, query, key)
                                           + (past && !r->power ? s->located[k] : 0);
    }
    softmax(
        r->key_count,
        weights,
        r->scale ? r->scale[row] : 1,
        r->valid ? r->valid + row * r->key_count : NULL
    );
    return 0;
}

static real *past_of(const Recurrence *r, size step, size row) {
    return r->taps ? r->pasts + (r->offsets[step] + row) * past_size(r) : NULL;
}

/* How often what these weights read was read before; for `shift_by_key`, what attention stays on
 * does not count. */
static real read_again(const Recurrence *r, const real *weights, const real *past) {
    const real *last = past + r->taps / 2, *sum = last + past_width(r);
    real again = 0;
    for (size k = 0; k < r->key_count; k++)
        again += weights[k] * sum[k] * (r->moves ? *r->returning * (1 - last[k]) : 1);
    return again;
}

/* From the gradient of what `read_again` returned. Adds to those of the weights and of the past. */
static void read_again_backward(
    const Recurrence *r,
    real grad,
    const real *weights,
    const real *past,
    real *grads,
    real *grad_past
) {
    const real *last = past + r->taps / 2, *sum = last + past_width(r);
    real *grad_last = grad_past + r->taps / 2, *grad_sum = grad_last + past_width(r);
    for (size k = 0; k < r->key_count; k++) {
        real slope = grad * (r->moves ? *r->returning * (1 - last[k]) : 1);
        grads[k] += slope * sum[k];
        grad_sum[k] += slope * weights[k];
        grad_last[k] -= r->moves ? grad * *r->returning * weights[k] * sum[k] : 0;
    }
}

/* Writes weights a, context sum_k a_k v_k, and what the next step knows of the past: a, the sum of
 * all up to it, and for moves the weights before a. */
static void
attend_row(const Recurrence *r, const Shared *s, size step, size row, const real *query) {
    size keys = r->key_count, reach = r->taps / 2;
    real *weights = r->weights + (row * r->steps + step) * keys, *past = past_of(r, step, row);
    real *context = r->states + row * row_stride(r) + step * step_stride(r) + r->width;
    weigh(r, s, row, query, past, weights);
    if (r->power)
        sharpen(keys, *r->power, weights);
    average(keys, r->value_width, weights, r->values + row * keys * r->value_width, context);
    if (r->context_width > r->value_width)
        context[r->value_width] = read_again(r, weights, past);
    if (past && step + 1 < r->steps && row < r->sizes[step + 1]) {
        real *next = past_of(r, step + 1, row);
        copy(keys, weights, next + reach);
        copy(keys, past + past_width(r) + reach, next + past_width(r) + reach);
        add_product(keys, 1, weights, next + past_width(r) + reach);
        if (r->moves)
            copy(keys, past + reach, next + 2 * past_width(r) + reach);
        for (size c = 0; c < r->channels && r->power; c++)
            wrap(count_valid(r, row), reach, next + c * past_width(r));
    }
}

/* Writes the gradients of the scores, and adds that of the query to grad_query, unless that is
 * NULL.
 *
 * A weight a_k has three: of the caller, of the context c (grad c . v_k), and of the past of later
 * steps, in grad_past, which then has that of this step's past. From the weights it goes back
 * through `sharpen` and `move`, or the softmax, to the scores, and from these to query and keys. */
static void attend_row_backward(
    const Recurrence *r,
    const Shared *s,
    size step,
    size row,
    const real *query,
    real *grad_query
) {
    size keys = r->key_count, width = r->key_width, reach = r->taps / 2,
         place = (row * r->steps + step) * keys;
    const real *weights = r->weights + place, *past = past_of(r, step, row),
               *values = r->values + row * keys * r->value_width;
    const real *grad_context =
        r->grad_states + row * row_stride(r) + step * step_stride(r) + r->width;
    real *grads = s->grad_scores + place, *grad_past = s->grad_past + row * past_size(r);
    for (size k = 0; k < keys; k++) {
        /* without `power`, all that follows multiplies the gradient of a weight by the weight */
        grads[k] = r->grad_weights ? r->grad_weights[place + k] : 0;
        if (weights[k] != 0 || r->power)
            grads[k] += product(r->value_width, grad_context, values + k * r->value_width);
    }
    if (past) {
        real *grad_sum = grad_past + past_width(r) + reach;
        add_product(keys, 1, grad_past + reach, grads);
        add_product(keys, 1, grad_sum, grads);
        fill_with_zeros(past_width(r), grad_past);
        if (r->moves) {
            copy(keys, grad_sum + past_width(r), grad_past + reach);
            fill_with_zeros(past_width(r), grad_past + 2 * past_width(r));
        }
        if (r->context_width > r->value_width)
            read_again_backward(r, grad_context[r->value_width], weights, past, grads, grad_past);
    }
    if (r->power) {
        int moved = weigh(r, s, row, query, past, s->moved);
        sharpen_backward(keys, *r->power, s->moved, weights, grads, r->grad_power);
        weights = s->moved;
        if (moved) {
            for (size k = 0; k < keys; k++)
                s->moved[k] = is_valid(r, row, k) ? grads[k] : 0;
            fill_with_zeros(keys, grads);
            if (r->moves)
                move_backward(r, s, row, past, s->moved, grad_past);
            else
                locate_backward(r, s, past, s->moved, grad_past);
            for (size c = 0; c < r->channels; c++)
                wrap_backward(count_valid(r, row), reach, grad_past + c * past_width(r));
            return;
        }
    } else if (past)
        locate(r, s, row, past);
    softmax_backward(keys, weights, r->scale ? r->scale[row] : 1, grads);
    for (size k = 0; k < keys; k++) {
        if (r->query_weight && grads[k] != 0)
            additive_backward(
                width,
                grads[k],
                query,
                is_located(r) ? s->located + k * width : key_of(r, row, k),
                r->v,
                grad_query,
                r->grad_keys + (row * keys + k) * width,
                r->grad_v,
                s->slopes + k * width
            );
        else if (r->query_weight)
            fill_with_zeros(width, s->slopes + k * width);
        else if (grad_query && grads[k] != 0)
            add_product(width, grads[k], key_of(r, row, k), grad_query);
    }
    if (past && !r->power)
        locate_backward(r, s, past, is_located(r) ? s->slopes : grads, grad_past);
}

/* ---- Attention of all rows ---- */

/* Row i is row index[i], or row i where index is NULL. */
typedef struct {
    const real *first;
    size stride;
    const size *index;
} Rows;

/* What attends: the state before each position, or with `combine` the state after it. */
static Rows asking(const Recurrence *r) {
    return r->combine ? (Rows){r->states, step_stride(r), r->places}
                      : (Rows){r->before, r->width, NULL};
}

/* All rows that take part in a step attend, with `asking` (rows, D), for the additive score mapped
 * by query_weight. */
static void
attend_rows(const Recurrence *r, const Shared *s, size step, const real *asking, size stride) {
    size rows = r->sizes[step];
    if (r->query_weight) {
        real *projected = r->queries + r->offsets[step] * r->key_width;
        fill_with_zeros(rows * r->key_width, projected);
        multiply(rows, r->width, r->key_width, asking, stride, s->query, projected, r->key_width);
        asking = projected, stride = r->key_width;
    }
    for (size i = 0; i < rows; i++)
        attend_row(r, s, step, i, asking + i * stride);
}

/* The gradients of what attends are added to grad_asking (rows), unless that is NULL. */
static void attend_rows_backward(
    const Recurrence *r,
    const Shared *s,
    size step,
    const real *asking,
    size stride,
    real *grad_asking,
    size grad_stride
) {
    size rows = r->sizes[step], first = r->offsets[step] * r->key_width;
    if (!r->query_weight)
        for (size i = 0; i < rows; i++)
            attend_row_backward(
                r,
                s,
                step,
                i,
                asking + i * stride,
                grad_asking ? grad_asking + i * grad_stride : NULL
            );
    else {
        fill_with_zeros(rows * r->key_width, s->grad_queries + first);
        for (size i = 0; i < rows; i++)
            attend_row_backward(
                r,
                s,
                step,
                i,
                r->queries + first + i * r->key_width,
                s->grad_queries + first + i * r->key_width
            );
        if (grad_asking)
            multiply(
                rows,
                r->key_width,
                r->width,
                s->grad_queries + first,
                r->key_width,
                s->query,
                grad_asking,
                grad_stride
            );
    }
}

/* The gradients of values, grad v_k = sum_t a_tk grad c_t, and, for scores that are products, of
 * keys, grad k_k = sum_t grad e_tk q_t: one matrix product a row. For the additive score that of
 * query_weight, since `additive_backward` has written the keys'. */
static void memory_backward(const Recurrence *r, const Shared *s) {
    size keys = r->key_count, stride = step_stride(r);
    for (size i = 0, steps = r->steps; i < r->rows; i++) {
        while (steps > 0 && r->sizes[steps - 1] <= i)
            steps--; /* the steps that this row takes part in: no more than the row before */
        const real *weights = r->weights + i * keys * r->steps,
                   *scores = s->grad_scores + i * keys * r->steps;
        multiply_transposed(
            keys,
            steps,
            r->value_width,
            weights,
            keys,
            r->grad_states + i * row_stride(r) + r->width,
            stride,
            NULL,
            r->grad_values + i * keys * r->value_width,
            r->value_width,
            s->rest
        );
        if (r->query_weight)
            continue;
        Rows own = r->combine ? (Rows){r->states + i * row_stride(r), stride, NULL}
                              : (Rows){r->before + i * r->width, r->width, r->offsets};
        multiply_transposed(
            keys,
            steps,
            r->width,
            scores,
            keys,
            own.first,
            own.stride,
            own.index,
            r->grad_keys + i * keys * r->key_width,
            r->key_width,
            s->rest
        );
    }
    if (r->query_weight)
        multiply_transposed(
            r->key_width,
            positions(r),
            r->width,
            s->grad_queries,
            r->key_width,
            asking(r).first,
            asking(r).stride,
            asking(r).index,
            r->grad_query_weight,
            r->width,
            s->rest
        );
}

/* ---- All steps ---- */

/* What the cell reads beside tokens: contexts of the same step, or vectors of the step before,
 * which the first has none of. */
static int reads_vectors(const Recurrence *r) {
    return r->combine && r->fed_width;
}

/* All results. Returns whether all tokens are in the vocabulary. Each step:
 *
 *   before = the state after the last step, or noise where it is not kept
 *   context = attention(before), without `combine`
 *   gates = token's row + W_ih context (or the last vector) + W_hh before
 *   state = the GRU's, see gates.h
 *   context = attention(state), vector = tanh(combine [state; context]), with `combine` */
int EXPORTED(forward)(Recurrence *r) {
    if (!index_positions(r))
        return 0;
    size width = r->width, four = 4 * width, unit = step_stride(r);
    int zeros = starts_at_zero(r);
    real *workspace = r->workspace;
    const real *weight_ih = input_weight(r, &workspace);
    Shared s = share(r, 0, weight_ih, workspace);
    const real *table = token_table(r, weight_ih, s.rest);
    for (size step = 0; step < r->steps; step++) {
        size rows = r->sizes[step], first = r->offsets[step];
        real *gates = r->gates + first * four, *states = r->states + step * unit,
             *before = r->before + first * width;
        for (size i = 0; i < rows; i++) {
            const real *previous =
                step > 0 ? states + i * row_stride(r) - unit : r->initial + i * width;
            copy(
                width,
                is_kept(r, i, step) ? previous : r->noise + (i * r->steps + step) * width,
                before + i * width
            );
        }
        const real *fed = NULL;
        size fed_stride = row_stride(r);
        if (r->keys && !r->combine) {
            attend_rows(r, &s, step, before, width);
            fed = states + width;
        } else if (reads_vectors(r) && step > 0) {
            fed = r->vectors + (step - 1) * width;
            fed_stride = r->steps * width;
        }
        for (size i = 0; i < rows; i++)
            copy(four, table + table_row(r, first + i) * four, gates + i * four);
        if (fed)
            multiply(rows, r->fed_width, 3 * width, fed, fed_stride, s.fed, gates, four);
        if (step > 0 || !zeros)
            multiply(rows, width, 3 * width, before, width, s.state, gates + width, four);
        for (size i = 0; i < rows; i++)
            activate(width, gates + i * four, before + i * width, states + i * row_stride(r));
        for (size i = rows; i < r->rows; i++) /* has ended: keeps its last */
            copy(unit, states + i * row_stride(r) - unit, states + i * row_stride(r));
        if (r->combine) {
            real *vectors = r->vectors + step * width;
            attend_rows(r, &s, step, states, row_stride(r));
            multiply(
                rows,
                unit,
                width,
                states,
                row_stride(r),
                s.combine,
                vectors,
                r->steps * width
            ); /* they were 0 */
            for (size i = 0; i < rows; i++) {
                SIMD for (size j = 0; j < width; j++) vectors[i * r->steps * width + j] =
                    hyperbolic_tangent(vectors[i * r->steps * width + j]);
            }
        }
    }
    return 1;
}

/* All gradients: the same backwards, last step first. The gradient of a state is the sum of those
 * of its output, of what attends with it, and of the next step, which adds its own through
 * grad_previous. Weights get theirs at the end, one product over all positions each. */
void EXPORTED(backward)(Recurrence *r) {
    index_positions(r);
    size width = r->width, embedded = r->embedding_width, fed = r->fed_width,
         stride = embedded + fed;
    size four = 4 * width, count = positions(r), unit = step_stride(r), start = r->sizes[0];
    int zeros = starts_at_zero(r);
    real *workspace = r->workspace;
    const real *weight_ih = input_weight(r, &workspace);
    real *grad_gates = take(&workspace, count * four);
    Shared s = share(r, 1, weight_ih, workspace);
    for (size step = r->steps; step-- > 0;) {
        size rows = r->sizes[step], first = r->offsets[step];
        const real *gates = r->gates + first * four, *before = r->before + first * width;
        real *grads = r->grad_states + step * unit, *into = grad_gates + first * four;
        real *grad_previous = step > 0 ? grads - unit : r->grad_initial;
        real *grad_before = grad_previous && r->kept ? s.grad_before : grad_previous;
        size previous_stride = step > 0 ? row_stride(r) : width,
             before_stride = r->kept ? width : previous_stride;
        if (r->combine) {
            real *combined = s.grad_combined + first * width;
            for (size i = 0; i < rows; i++) {
                size place = (i * r->steps + step) * width;
                SIMD for (size j = 0; j < width; j++) combined[i * width + j] =
                    r->grad_vectors[place + j]
                    * (1 - r->vectors[place + j] * r->vectors[place + j]);
            }
            multiply(rows, width, unit, combined, width, s.combine, grads, row_stride(r));
            attend_rows_backward(
                r,
                &s,
                step,
                r->states + step * unit,
                row_stride(r),
                grads,
                row_stride(r)
            );
        }
        for (size i = rows; i < r->rows; i++) /* has ended: keeps its last */
            add_product(unit, 1, grads + i * row_stride(r), grad_previous + i * previous_stride);
        if (r->kept)
            fill_with_zeros(rows * width, s.grad_before);
        for (size i = 0; i < rows; i++)
            activate_backward(
                width,
                gates + i * four,
                before + i * width,
                grads + i * row_stride(r),
                into + i * four,
                grad_before ? grad_before + i * before_stride : NULL
            );
        if (grad_before)
            multiply(
                rows,
                3 * width,
                width,
                into + width,
                four,
                s.state,
                grad_before,
                before_stride
            );
        if (r->keys && !r->combine) {
            multiply(rows, 3 * width, fed, into, four, s.fed, grads + width, row_stride(r));
            attend_rows_backward(r, &s, step, before, width, grad_before, before_stride);
        } else if (reads_vectors(r) && step > 0)
            multiply(
                rows,
                3 * width,
                fed,
                into,
                four,
                s.fed,
                r->grad_vectors + (step - 1) * width,
                r->steps * width
            );
        for (size i = 0; i < rows && grad_before && r->kept; i++)
            if (is_kept(r, i, step))
                add_product(width, 1, grad_before + i * width, grad_previous + i * previous_stride);
    }
    size skipped = zeros ? start : 0; /* zero states before the first step add nothing */
    multiply_transposed(              /* W_hh: grad gates^T before */
        3 * width,
        count - skipped,
        width,
        grad_gates + skipped * four + width,
        four,
        r->before + skipped * width,
        width,
        NULL,
        r->grad_weight_hh,
        width,
        s.rest
    );
    if (fed) { /* W_ih: grad gates^T of what was fed */
        Rows read = {r->states + width, unit, r->places};
        skipped = 0;
        if (reads_vectors(r))
            read = (Rows){r->vectors - width, width, r->places + start}, skipped = start;
        const real *grads = grad_gates + skipped * four;
        multiply_transposed(
            width,
            count - skipped,
            fed,
            grads,
            four,
            read.first,
            read.stride,
            read.index,
            r->grad_weight_ih + 2 * width * stride + embedded,
            stride,
            s.rest
        );
        multiply_transposed(
            2 * width,
            count - skipped,
            fed,
            grads + width,
            four,
            read.first,
            read.stride,
            read.index,
            r->grad_weight_ih + embedded,
            stride,
            s.rest
        );
    }
    if (r->combine)
        multiply_transposed(
            width,
            count,
            unit,
            s.grad_combined,
            width,
            r->states,
            unit,
            r->places,
            r->grad_combine,
            unit,
            s.rest
        );
    if (r->keys)
        memory_backward(r, &s);
    token_table_backward(r, weight_ih, grad_gates, s.rest);
}

/* How many numbers a product's panels take, at most, whichever of the two is its depth. */
static size either(size a, size b) {
    return larger(packed_size(a, b), packed_size(b, a));
}

/* How many numbers the workspace must hold, for `forward` or `backward`, whichever needs more; each
 * `take` may add 63 for alignment. */
size EXPORTED(workspace_size)(const Recurrence *r) {
    size width = r->width, keys = r->key_width, embedded = r->embedding_width, fed = r->fed_width,
         unit = step_stride(r);
    size count = r->rows * r->steps, features = feature_width(r);
    size widest = larger(larger(larger(unit, fed), larger(keys, embedded)), features);
    size table = count < r->vocabulary ? count : r->vocabulary,
         per_index = sizeof(size) / sizeof(real);
    size panels = either(3 * width, width) + either(3 * width, fed) + either(keys, width)
                  + either(width, unit) + either(3 * width, embedded)
                  + 2 * r->channels * either(features, r->taps) + packed_size(DEPTH, widest);
    size backwards = count * (5 * width + keys + r->key_count) + r->rows * (past_size(r) + width);
    return per_index * 2 * (count + r->steps + 1) + 3 * width * (embedded + fed) + panels
           + backwards + r->key_count * (2 * features + keys + 2)
           + table * (4 * width + 2 * embedded) + 4 * width + 32 * 64;
}

/* `function.py` compares this with its own, so that neither reads beyond the other's fields. */
size EXPORTED(recurrence_size)(void) {
    return sizeof(Recurrence);
}
