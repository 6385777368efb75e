/* The GRU recurrence of `seq2attn/model/recurrence.py`, and the one with attention of `attentive_recurrence.py`: all steps and
 * all gradients in one call. Compiled with -DREAL=float or -DREAL=double.
 *
 * Positions are packed as `seq2attn/model/packing.py` does: step after step, in each the rows that take part. A row of gates is
 * n, r, z, h, as in `seq2attn/model/gates.py`.
 */

#include "matrix.h"
#include "gates.h"
#include "attention.h"

/* The fields of `seq2attn/kernels/recurrence.py`, in its order. What is not there is NULL or 0. */
typedef struct {
    size steps, rows, width, vocabulary, embedding_width; /* L, B, D, V, E */
    const size *sizes;      /* (L) how many rows take part in each step, the first so many; N in all */
    const size *offsets;    /* (L) where each step's positions begin */
    const size *tokens;     /* (N) */
    const real *embedding;  /* (V, E) */
    const real *weight_ih;  /* (3D, E + Dv) r, z, n, as the next three */
    const real *weight_hh;  /* (3D, D) */
    const real *bias_ih;    /* (3D) */
    const real *bias_hh;    /* (3D) */
    const real *initial;    /* (B, D) the state before the first step */
    real *room;             /* as many numbers as `room` says */
    real *gates;            /* (N, 4D) */
    real *befores;          /* (N, D) the state before each position */
    real *states;           /* the state after each: state_stride apart in a step, the steps step_stride, or else packed */
    size state_stride;
    size step_stride;

    /* Attention, where keys is not 0. A context stands behind its state. */
    size keys, key_width, context_width; /* S, D or Da, Dv */
    const real *projected;    /* (B, S, key_width) */
    const real *values;       /* (B, S, Dv) */
    const real *mask;         /* (B, S) or NULL: added to the scores */
    const real *scale;        /* (B) or NULL: what they are multiplied with before */
    real *weights;            /* (B, L, S), 0 where no row takes part */
    const real *query_weight; /* (Da, D) where the score is additive, as the next two */
    const real *v;            /* (Da) */
    real *queries;            /* (N, Da) */

    /* Gradients; from grad_queries on they are 0 at first. */
    real *grad_states;        /* laid out as the states are, contexts too; what comes from later steps is added */
    const real *grad_weights; /* (B, L, S) or NULL */
    real *grad_gates;         /* (N, 4D) */
    real *grad_queries;       /* (N, Da) */
    real *grad_scores;        /* (B, L, S) */
    real *grad_initial;       /* (B, D) or NULL */
    real *grad_embedding, *grad_weight_ih, *grad_weight_hh, *grad_bias_ih, *grad_bias_hh;
    real *grad_projected, *grad_values, *grad_query_weight, *grad_v;
} Recurrence;

static size larger(size a, size b) { return a > b ? a : b; }

static size positions(const Recurrence *r) { return r->offsets[r->steps - 1] + r->sizes[r->steps - 1]; }

/* Where the states of a step, or their gradients, begin. */
static real *of_step(const Recurrence *r, real *states, size step)
{
    return states + (r->step_stride ? step * r->step_stride : r->offsets[step] * r->state_stride);
}

/* Whether the first state says nothing. */
static int starts_at_zero(const Recurrence *r)
{
    for (size j = 0; j < r->sizes[0] * r->width; j++)
        if (r->initial[j] != 0)
            return 0;
    return 1;
}

/* From `room`; vectors begin where the processor wants them to. */
static real *take(real **room, size numbers)
{
    real *taken = *room;
    *room += (numbers + 63) / 64 * 64;
    return taken;
}

static real *take_zeros(real **room, size numbers)
{
    real *taken = take(room, numbers);
    for (size j = 0; j < numbers; j++)
        taken[j] = 0;
    return taken;
}

/* ---- What a token adds to the gates: a row of a table for each symbol, or if those are fewer for each position -------------- */

static int has_symbols(const Recurrence *r) { return r->vocabulary < positions(r); }

static size table_rows(const Recurrence *r) { return has_symbols(r) ? r->vocabulary : positions(r); }

static size table_row(const Recurrence *r, size position) { return has_symbols(r) ? r->tokens[position] : position; }

static size table_symbol(const Recurrence *r, size row) { return has_symbols(r) ? row : r->tokens[row]; }

/* weight_ih in the order n, r, z */
static const real *reading_weight(const Recurrence *r, real **room)
{
    size width = r->width, stride = r->embedding_width + r->context_width;
    real *weight = take(room, 3 * width * stride);
    copy(width * stride, r->weight_ih + 2 * width * stride, weight);
    copy(2 * width * stride, r->weight_ih, weight + width * stride);
    return weight;
}

/* Rows of n, r, z, h, both biases included. */
static const real *token_table(const Recurrence *r, const real *weight, real *room)
{
    size width = r->width, embedded = r->embedding_width, rows = table_rows(r);
    real *table = take(&room, rows * 4 * width), *embeddings = take(&room, rows * embedded);
    real *panels = take(&room, packed_size(embedded, 3 * width));
    for (size i = 0; i < rows; i++) {
        real *n = table + i * 4 * width, *rz = n + width, *h = rz + 2 * width;
        copy(embedded, r->embedding + table_symbol(r, i) * embedded, embeddings + i * embedded);
        copy(width, r->bias_ih + 2 * width, n);
        copy(width, r->bias_hh + 2 * width, h);
        for (size j = 0; j < 2 * width; j++)
            rz[j] = r->bias_ih[j] + r->bias_hh[j];
    }
    pack_transposed(embedded, 3 * width, weight, embedded + r->context_width, panels);
    multiply(rows, embedded, 3 * width, embeddings, embedded, panels, table, 4 * width);
    return table;
}

static void token_table_backward(const Recurrence *r, const real *weight, real *room)
{
    size width = r->width, embedded = r->embedding_width, stride = embedded + r->context_width, rows = table_rows(r);
    real *grad_table = take_zeros(&room, rows * 4 * width), *grad_bias = take_zeros(&room, 4 * width);
    real *embeddings = take(&room, rows * embedded), *grad_embeddings = take_zeros(&room, rows * embedded);
    real *panels = take(&room, packed_size(3 * width, embedded));
    for (size position = 0; position < positions(r); position++)
        add_product(4 * width, 1, r->grad_gates + position * 4 * width, grad_table + table_row(r, position) * 4 * width);
    pack(3 * width, embedded, weight, stride, NULL, panels);
    multiply(rows, 3 * width, embedded, grad_table, 4 * width, panels, grad_embeddings, embedded);
    for (size i = 0; i < rows; i++) {
        add_product(4 * width, 1, grad_table + i * 4 * width, grad_bias);
        add_product(embedded, 1, grad_embeddings + i * embedded, r->grad_embedding + table_symbol(r, i) * embedded);
        copy(embedded, r->embedding + table_symbol(r, i) * embedded, embeddings + i * embedded);
    }
    copy(width, grad_bias, r->grad_bias_ih + 2 * width);
    copy(2 * width, grad_bias + width, r->grad_bias_ih);
    copy(3 * width, grad_bias + width, r->grad_bias_hh);
    multiply_transposed(width, rows, embedded, grad_table, 4 * width, embeddings, embedded, NULL,
                        r->grad_weight_ih + 2 * width * stride, stride, room);
    multiply_transposed(2 * width, rows, embedded, grad_table + width, 4 * width, embeddings, embedded, NULL, r->grad_weight_ih,
                        stride, room);
}

/* ---- One step's attention --------------------------------------------------------------------------------------------------- */

static const real *projected(const Recurrence *r, size row, size key)
{
    return r->projected + (row * r->keys + key) * r->key_width;
}

static void attend_rows(const Recurrence *r, size step, const real *query_panels)
{
    size rows = r->sizes[step], first = r->offsets[step];
    const real *befores = r->befores + first * r->width;
    real *queries = NULL, *states = of_step(r, r->states, step);
    if (r->query_weight) {
        queries = r->queries + first * r->key_width;
        for (size j = 0; j < rows * r->key_width; j++)
            queries[j] = 0;
        multiply(rows, r->width, r->key_width, befores, r->width, query_panels, queries, r->key_width);
    }
    for (size i = 0; i < rows; i++) {
        real *weights = r->weights + (i * r->steps + step) * r->keys;
        for (size k = 0; k < r->keys; k++)
            weights[k] = r->query_weight
                             ? additive_score(r->key_width, queries + i * r->key_width, projected(r, i, k), r->v)
                             : product(r->key_width, befores + i * r->width, projected(r, i, k));
        attend(r->keys, r->context_width, weights, r->scale ? r->scale[i] : 1, r->mask ? r->mask + i * r->keys : NULL,
               r->values + i * r->keys * r->context_width, states + i * r->state_stride + r->width);
    }
}

/* The queries' gradients are added to `passed`, unless that is NULL. */
static void attend_rows_backward(const Recurrence *r, size step, const real *query_panels, real *passed, size passed_stride)
{
    size rows = r->sizes[step], first = r->offsets[step];
    const real *grads = of_step(r, r->grad_states, step), *queries = r->query_weight ? r->queries + first * r->key_width : NULL;
    real *grad_queries = r->query_weight ? r->grad_queries + first * r->key_width : NULL;
    for (size i = 0; i < rows; i++) {
        size place = (i * r->steps + step) * r->keys;
        real *grad_scores = r->grad_scores + place;
        attend_backward(r->keys, r->context_width, r->weights + place, r->scale ? r->scale[i] : 1,
                        r->values + i * r->keys * r->context_width, grads + i * r->state_stride + r->width,
                        r->grad_weights ? r->grad_weights + place : NULL, grad_scores);
        for (size k = 0; k < r->keys; k++) {
            if (grad_scores[k] == 0)
                continue;
            if (r->query_weight)
                additive_backward(r->key_width, grad_scores[k], queries + i * r->key_width, projected(r, i, k), r->v,
                                  grad_queries + i * r->key_width, r->grad_projected + (i * r->keys + k) * r->key_width,
                                  r->grad_v);
            else if (passed)
                add_product(r->key_width, grad_scores[k], projected(r, i, k), passed + i * passed_stride);
        }
    }
    if (r->query_weight && passed)
        multiply(rows, r->key_width, r->width, grad_queries, r->key_width, query_panels, passed, passed_stride);
}

/* Those of values and, unless the steps have done that, of projected keys: one product a row. */
static void memory_gradients(const Recurrence *r, real *room)
{
    for (size i = 0, steps = r->steps; i < r->rows; i++) {
        size memory = i * r->keys, place = memory * r->steps;
        while (steps > 0 && r->sizes[steps - 1] <= i)
            steps--; /* those that this row takes part in, fewer than of the row before */
        multiply_transposed(r->keys, steps, r->context_width, r->weights + place, r->keys,
                            r->grad_states + i * r->state_stride + r->width, r->state_stride, r->offsets,
                            r->grad_values + memory * r->context_width, r->context_width, room);
        if (!r->query_weight)
            multiply_transposed(r->keys, steps, r->key_width, r->grad_scores + place, r->keys, r->befores + i * r->width,
                                r->width, r->offsets, r->grad_projected + memory * r->key_width, r->key_width, room);
    }
}

/* ---- All steps -------------------------------------------------------------------------------------------------------------- */

/* Gates, states, and with attention contexts, weights and queries. Returns whether all tokens are in the vocabulary. */
int forward(const Recurrence *r)
{
    for (size position = 0; position < positions(r); position++)
        if (r->tokens[position] < 0 || r->tokens[position] >= r->vocabulary)
            return 0;
    size width = r->width, contexts = r->context_width;
    int zeros = starts_at_zero(r);
    real *room = r->room;
    const real *weight_ih = reading_weight(r, &room);
    real *state_panels = take(&room, packed_size(width, 3 * width));
    real *context_panels = take(&room, packed_size(contexts, 3 * width));
    real *query_panels = take(&room, packed_size(width, r->key_width));
    pack_transposed(width, 3 * width, r->weight_hh, width, state_panels);
    pack_transposed(contexts, 3 * width, weight_ih + r->embedding_width, r->embedding_width + contexts, context_panels);
    if (r->query_weight)
        pack_transposed(width, r->key_width, r->query_weight, width, query_panels);
    const real *table = token_table(r, weight_ih, room);
    for (size step = 0; step < r->steps; step++) {
        size rows = r->sizes[step], first = r->offsets[step];
        real *gates = r->gates + first * 4 * width, *befores = r->befores + first * width, *states = of_step(r, r->states, step);
        for (size i = 0; i < rows; i++) {
            const real *before = step > 0 ? of_step(r, r->states, step - 1) + i * r->state_stride : r->initial + i * width;
            copy(width, before, befores + i * width);
            copy(4 * width, table + table_row(r, first + i) * 4 * width, gates + i * 4 * width);
        }
        if (r->keys) {
            attend_rows(r, step, query_panels);
            multiply(rows, contexts, 3 * width, states + width, r->state_stride, context_panels, gates, 4 * width);
        }
        if (step > 0 || !zeros)
            multiply(rows, width, 3 * width, befores, width, state_panels, gates + width, 4 * width);
        for (size i = 0; i < rows; i++)
            activate(width, gates + i * 4 * width, befores + i * width, states + i * r->state_stride);
        if (r->step_stride && step > 0) /* a row that has ended keeps its last state */
            for (size i = rows; i < r->rows; i++)
                copy(width, states + i * r->state_stride - r->step_stride, states + i * r->state_stride);
    }
    return 1;
}

/* All gradients. */
void backward(const Recurrence *r)
{
    size width = r->width, embedded = r->embedding_width, contexts = r->context_width, stride = embedded + contexts;
    real *room = r->room;
    const real *weight_ih = reading_weight(r, &room);
    real *state_panels = take(&room, packed_size(3 * width, width));
    real *context_panels = take(&room, packed_size(3 * width, contexts));
    real *query_panels = take(&room, packed_size(r->key_width, width));
    pack(3 * width, width, r->weight_hh, width, NULL, state_panels);
    pack(3 * width, contexts, weight_ih + embedded, stride, NULL, context_panels);
    if (r->query_weight)
        pack(r->key_width, width, r->query_weight, width, NULL, query_panels);
    for (size step = r->steps; step-- > 0;) {
        size rows = r->sizes[step], first = r->offsets[step], passed_stride = step > 0 ? r->state_stride : width;
        const real *gates = r->gates + first * 4 * width, *befores = r->befores + first * width;
        real *grads = of_step(r, r->grad_states, step), *grad_gates = r->grad_gates + first * 4 * width;
        real *passed = step > 0 ? of_step(r, r->grad_states, step - 1) : r->grad_initial;
        for (size i = 0; i < rows; i++)
            activate_backward(width, gates + i * 4 * width, befores + i * width, grads + i * r->state_stride,
                              grad_gates + i * 4 * width, passed ? passed + i * passed_stride : NULL);
        if (passed)
            multiply(rows, 3 * width, width, grad_gates + width, 4 * width, state_panels, passed, passed_stride);
        if (r->keys) {
            multiply(rows, 3 * width, contexts, grad_gates, 4 * width, context_panels, grads + width, r->state_stride);
            attend_rows_backward(r, step, query_panels, passed, passed_stride);
        }
    }
    size first = starts_at_zero(r) ? r->sizes[0] : 0, count = positions(r); /* a state of zeros has no part in W_hh's */
    multiply_transposed(3 * width, count - first, width, r->grad_gates + first * 4 * width + width, 4 * width,
                        r->befores + first * width, width, NULL, r->grad_weight_hh, width, room);
    if (r->keys) {
        multiply_transposed(width, count, contexts, r->grad_gates, 4 * width, r->states + width, r->state_stride, NULL,
                            r->grad_weight_ih + 2 * width * stride + embedded, stride, room);
        multiply_transposed(2 * width, count, contexts, r->grad_gates + width, 4 * width, r->states + width, r->state_stride,
                            NULL, r->grad_weight_ih + embedded, stride, room);
        memory_gradients(r, room);
        if (r->query_weight)
            multiply_transposed(r->key_width, count, width, r->grad_queries, r->key_width, r->befores, width, NULL,
                                r->grad_query_weight, width, room);
    }
    token_table_backward(r, weight_ih, room);
}

/* How many numbers `room` must hold, for any of them. */
size room(const Recurrence *r)
{
    size width = r->width, keys = r->key_width, contexts = r->context_width, embedded = r->embedding_width;
    size widest = larger(larger(width, contexts), larger(keys, embedded));
    size forwards = packed_size(width, 3 * width) + packed_size(contexts, 3 * width) + packed_size(width, keys) +
                    packed_size(embedded, 3 * width);
    size backwards = packed_size(3 * width, width) + packed_size(3 * width, contexts) + packed_size(keys, width) +
                     packed_size(3 * width, embedded) + packed_size(DEPTH, widest);
    return 3 * width * (embedded + contexts) + larger(forwards, backwards) + table_rows(r) * (4 * width + 2 * embedded) +
           4 * width + 16 * 64;
}
