/* A GRU, with or without attention: all steps in one call, and all gradients in another. The formulas are those of
 * `seq2attn/model/`; this file computes the same, faster.
 *
 * Compiled once for each kind of number and processor, with -DREAL=float or double and -DVARIANT=..., see setup.py.
 * Gates and their gradients are packed: step after step, in each step the rows that take part, N positions in all. A row of
 * gates is n, r, z, h, see gates.h.
 */

#include "matrix.h"
#include "gates.h"
#include "attention.h"

#define JOIN(name, real, variant) name##_##real##_##variant
#define EXPAND(name, real, variant) JOIN(name, real, variant)
#define EXPORTED(name) EXPAND(name, REAL, VARIANT) /* forward_float_avx2 */

/* The fields of `binding.py`, in its order. What is not needed is NULL or 0. */
typedef struct {
    size steps, rows, width, vocabulary, embedding_width; /* L, B, D, V, E */
    size key_count, key_width, context_width;             /* S, D or Da, Dv, where it attends */

    const size *tokens;       /* (B, L) */
    const size *lengths;      /* (B) how many tokens of each row are read, the longest row first; NULL: all */
    const real *embedding;    /* (V, E) */
    const real *weight_ih;    /* (3D, E + Dv) r, z, n, as the next three */
    const real *weight_hh;    /* (3D, D) */
    const real *bias_ih;      /* (3D) */
    const real *bias_hh;      /* (3D) */
    const real *initial;      /* (B, D) the state before the first step */
    const real *keys;         /* (B, S, key_width), projected */
    const real *values;       /* (B, S, Dv) */
    const unsigned char *valid; /* (B, S) 1 = may be attended to; NULL: all */
    const real *scale;        /* (B) multiplies the scores; NULL: 1 */
    const real *query_weight; /* (Da, D) for the additive score, as the next */
    const real *v;            /* (Da) */

    real *gates;   /* (N, 4D), N the positions that are read */
    real *states;  /* (B, L, D + Dv) the state after each step, and its context; a row that has ended keeps its last */
    real *weights; /* (B, L, S), not written where a row has ended */
    real *queries; /* (N, Da) for the additive score */

    /* Gradients; all but the first two must be 0 before the call. */
    real *grad_states;        /* (B, L, D + Dv); overwritten: gradients from later steps are added */
    const real *grad_weights; /* (B, L, S) or NULL */
    real *grad_embedding, *grad_weight_ih, *grad_weight_hh, *grad_bias_ih, *grad_bias_hh;
    real *grad_initial; /* (B, D) or NULL */
    real *grad_keys, *grad_values, *grad_query_weight, *grad_v;

    real *workspace; /* `workspace_size` numbers, of which `index_positions` takes the next four */
    size *sizes;     /* (L) how many rows take part in each step: the first ones */
    size *offsets;   /* (L + 1) the first position of each step, and N */
    size *symbols;   /* (N) the token at each position */
    size *places;    /* (N) where its state is: rows x L + step */
} Recurrence;

static size larger(size a, size b) { return a > b ? a : b; }

static size positions(const Recurrence *r) { return r->offsets[r->steps]; }

/* Numbers between the states of two steps, and between those of two rows. */
static size step_stride(const Recurrence *r) { return r->width + r->context_width; }
static size row_stride(const Recurrence *r) { return r->steps * step_stride(r); }

/* The states before a step, and their stride from row to row. */
static const real *previous_states(const Recurrence *r, size step, size *stride)
{
    *stride = step > 0 ? row_stride(r) : r->width;
    return step > 0 ? r->states + (step - 1) * step_stride(r) : r->initial;
}

/* A zero state adds nothing to the gates, and nothing to the gradient of W_hh. */
static int starts_at_zero(const Recurrence *r)
{
    for (size j = 0; j < r->rows * r->width; j++)
        if (r->initial[j] != 0)
            return 0;
    return 1;
}

/* Takes aligned memory from the workspace. */
static real *take(real **workspace, size numbers)
{
    real *taken = *workspace;
    *workspace += (numbers + 63) / 64 * 64;
    return taken;
}

static void fill_with_zeros(size numbers, real *to)
{
    SIMD
    for (size j = 0; j < numbers; j++)
        to[j] = 0;
}

static real *take_zeros(real **workspace, size numbers)
{
    real *taken = take(workspace, numbers);
    fill_with_zeros(numbers, taken);
    return taken;
}

/* Which positions are read, step after step: sizes, offsets, symbols and places. Returns whether all tokens are symbols. */
static int index_positions(Recurrence *r)
{
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

/* ---- What a token adds to the gates: a table with one row a symbol, or one row a position if those are fewer --------------- */

static int has_symbols(const Recurrence *r) { return r->vocabulary < positions(r); }

static size table_rows(const Recurrence *r) { return has_symbols(r) ? r->vocabulary : positions(r); }

static size table_row(const Recurrence *r, size position) { return has_symbols(r) ? r->symbols[position] : position; }

static size table_symbol(const Recurrence *r, size row) { return has_symbols(r) ? row : r->symbols[row]; }

/* weight_ih in the order n, r, z */
static const real *input_weight(const Recurrence *r, real **workspace)
{
    size width = r->width, stride = r->embedding_width + r->context_width;
    real *weight = take(workspace, 3 * width * stride);
    copy(width * stride, r->weight_ih + 2 * width * stride, weight);
    copy(2 * width * stride, r->weight_ih, weight + width * stride);
    return weight;
}

/* Rows of n~, r~, z~, h, both biases included. */
static const real *token_table(const Recurrence *r, const real *weight, real *workspace)
{
    size width = r->width, embedded = r->embedding_width, rows = table_rows(r);
    real *table = take(&workspace, rows * 4 * width), *embeddings = take(&workspace, rows * embedded);
    real *panels = take(&workspace, packed_size(embedded, 3 * width));
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

static void token_table_backward(const Recurrence *r, const real *weight, const real *grad_gates, real *workspace)
{
    size width = r->width, embedded = r->embedding_width, stride = embedded + r->context_width, rows = table_rows(r);
    real *grad_table = take_zeros(&workspace, rows * 4 * width), *grad_bias = take_zeros(&workspace, 4 * width);
    real *embeddings = take(&workspace, rows * embedded), *grad_embeddings = take_zeros(&workspace, rows * embedded);
    real *panels = take(&workspace, packed_size(3 * width, embedded));
    for (size position = 0; position < positions(r); position++)
        add_product(4 * width, 1, grad_gates + position * 4 * width, grad_table + table_row(r, position) * 4 * width);
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
                        r->grad_weight_ih + 2 * width * stride, stride, workspace);
    multiply_transposed(2 * width, rows, embedded, grad_table + width, 4 * width, embeddings, embedded, NULL, r->grad_weight_ih,
                        stride, workspace);
}

/* ---- One step's attention --------------------------------------------------------------------------------------------------- */

static const real *key_of(const Recurrence *r, size row, size k) { return r->keys + (row * r->key_count + k) * r->key_width; }

static void attend_rows(const Recurrence *r, size step, const real *query_panels)
{
    size rows = r->sizes[step], previous_stride;
    const real *previous = previous_states(r, step, &previous_stride), *queries = previous;
    real *states = r->states + step * step_stride(r);
    size query_stride = previous_stride;
    if (r->query_weight) {
        real *projected = r->queries + r->offsets[step] * r->key_width;
        fill_with_zeros(rows * r->key_width, projected);
        multiply(rows, r->width, r->key_width, previous, previous_stride, query_panels, projected, r->key_width);
        queries = projected, query_stride = r->key_width;
    }
    for (size i = 0; i < rows; i++) {
        real *weights = r->weights + (i * r->steps + step) * r->key_count;
        const real *query = queries + i * query_stride;
        for (size k = 0; k < r->key_count; k++)
            weights[k] = r->query_weight ? additive_score(r->key_width, query, key_of(r, i, k), r->v)
                                         : product(r->key_width, query, key_of(r, i, k));
        attend(r->key_count, r->context_width, weights, r->scale ? r->scale[i] : 1,
               r->valid ? r->valid + i * r->key_count : NULL, r->values + i * r->key_count * r->context_width,
               states + i * row_stride(r) + r->width);
    }
}

/* The gradients of the scores (B, L, S) and of the additive score's queries (N, Da) are written; those of the previous states
 * are added to grad_previous, unless that is NULL. */
static void attend_rows_backward(const Recurrence *r, size step, const real *query_panels, real *grad_scores,
                                 real *grad_queries, real *grad_previous, size previous_stride)
{
    size rows = r->sizes[step], first = r->offsets[step] * r->key_width;
    const real *grads = r->grad_states + step * step_stride(r);
    for (size i = 0; i < rows; i++) {
        size place = (i * r->steps + step) * r->key_count;
        real *scores = grad_scores + place, *query = grad_queries + first + i * r->key_width;
        attend_backward(r->key_count, r->context_width, r->weights + place, r->scale ? r->scale[i] : 1,
                        r->values + i * r->key_count * r->context_width, grads + i * row_stride(r) + r->width,
                        r->grad_weights ? r->grad_weights + place : NULL, scores);
        if (r->query_weight)
            fill_with_zeros(r->key_width, query);
        for (size k = 0; k < r->key_count; k++) {
            if (scores[k] == 0)
                continue;
            if (r->query_weight)
                additive_backward(r->key_width, scores[k], r->queries + first + i * r->key_width, key_of(r, i, k), r->v, query,
                                  r->grad_keys + (i * r->key_count + k) * r->key_width, r->grad_v);
            else if (grad_previous)
                add_product(r->key_width, scores[k], key_of(r, i, k), grad_previous + i * previous_stride);
        }
    }
    if (r->query_weight && grad_previous)
        multiply(rows, r->key_width, r->width, grad_queries + first, r->key_width, query_panels, grad_previous,
                 previous_stride);
}

/* The gradients of values and, for scores that are products, of keys: one matrix product a row. */
static void memory_backward(const Recurrence *r, int zeros, const real *grad_scores, real *workspace)
{
    size keys = r->key_count, stride = step_stride(r);
    for (size i = 0, steps = r->steps; i < r->rows; i++) {
        while (steps > 0 && r->sizes[steps - 1] <= i)
            steps--; /* the steps that this row takes part in: no more than the row before */
        const real *weights = r->weights + i * keys * r->steps, *scores = grad_scores + i * keys * r->steps;
        real *grad_keys = r->grad_keys + i * keys * r->key_width;
        multiply_transposed(keys, steps, r->context_width, weights, keys, r->grad_states + i * row_stride(r) + r->width, stride,
                            NULL, r->grad_values + i * keys * r->context_width, r->context_width, workspace);
        if (r->query_weight || steps == 0)
            continue;
        for (size k = 0; k < keys && !zeros; k++)
            add_product(r->width, scores[k], r->initial + i * r->width, grad_keys + k * r->key_width);
        multiply_transposed(keys, steps - 1, r->key_width, scores + keys, keys, r->states + i * row_stride(r), stride, NULL,
                            grad_keys, r->key_width, workspace);
    }
}

/* ---- All steps -------------------------------------------------------------------------------------------------------------- */

/* Gates, states, and with attention contexts, weights and queries. Returns whether all tokens are in the vocabulary. */
int EXPORTED(forward)(Recurrence *r)
{
    if (!index_positions(r))
        return 0;
    size width = r->width, contexts = r->context_width, four = 4 * width, previous_stride;
    int zeros = starts_at_zero(r);
    real *workspace = r->workspace;
    const real *weight_ih = input_weight(r, &workspace);
    real *state_panels = take(&workspace, packed_size(width, 3 * width));
    real *context_panels = take(&workspace, packed_size(contexts, 3 * width));
    real *query_panels = take(&workspace, packed_size(width, r->key_width));
    pack_transposed(width, 3 * width, r->weight_hh, width, state_panels);
    pack_transposed(contexts, 3 * width, weight_ih + r->embedding_width, r->embedding_width + contexts, context_panels);
    if (r->query_weight)
        pack_transposed(width, r->key_width, r->query_weight, width, query_panels);
    const real *table = token_table(r, weight_ih, workspace);
    for (size step = 0; step < r->steps; step++) {
        size rows = r->sizes[step], first = r->offsets[step];
        real *gates = r->gates + first * four, *states = r->states + step * step_stride(r);
        const real *previous = previous_states(r, step, &previous_stride);
        int reads_state = step > 0 || !zeros;
        /* The token's rows: those gates that the first product below does not add to are copied. */
        Rows tokens = {table + (has_symbols(r) ? 0 : first * four), four, has_symbols(r) ? r->symbols + first : NULL};
        size copied = r->key_count ? 3 * width : 0, count = r->key_count || reads_state ? width : four;
        for (size i = 0; i < rows; i++)
            copy(count, table + table_row(r, first + i) * four + copied, gates + i * four + copied);
        if (r->key_count) {
            attend_rows(r, step, query_panels);
            multiply_onto(rows, contexts, 3 * width, states + width, row_stride(r), context_panels, tokens, gates, four);
        }
        if (reads_state) {
            tokens.first += width;
            Rows base = r->key_count ? (Rows){gates + width, four, NULL} : tokens;
            multiply_onto(rows, width, 3 * width, previous, previous_stride, state_panels, base, gates + width, four);
        }
        for (size i = 0; i < rows; i++)
            activate(width, gates + i * four, previous + i * previous_stride, states + i * row_stride(r));
        for (size i = rows; i < r->rows; i++) /* has ended: keeps its last */
            copy(step_stride(r), states + i * row_stride(r) - step_stride(r), states + i * row_stride(r));
    }
    return 1;
}

/* grad (columns, D) += the transpose of a (N, columns), times the state before each position. */
static void previous_states_backward(const Recurrence *r, int zeros, size columns, const real *a, size a_stride, real *grad,
                                     real *workspace)
{
    size start = r->sizes[0], unit = step_stride(r);
    if (!zeros)
        multiply_transposed(columns, start, r->width, a, a_stride, r->initial, r->width, NULL, grad, r->width, workspace);
    multiply_transposed(columns, positions(r) - start, r->width, a + start * a_stride, a_stride, r->states - unit, unit,
                        r->places + start, grad, r->width, workspace);
}

/* All gradients. */
void EXPORTED(backward)(Recurrence *r)
{
    index_positions(r);
    size width = r->width, embedded = r->embedding_width, contexts = r->context_width, stride = embedded + contexts;
    size four = 4 * width, count = positions(r), previous_stride;
    int zeros = starts_at_zero(r);
    real *workspace = r->workspace;
    const real *weight_ih = input_weight(r, &workspace);
    real *grad_gates = take(&workspace, count * four);
    real *grad_queries = take(&workspace, r->query_weight ? count * r->key_width : 0);
    real *grad_scores = take(&workspace, r->rows * r->steps * r->key_count);
    real *state_panels = take(&workspace, packed_size(3 * width, width));
    real *context_panels = take(&workspace, packed_size(3 * width, contexts));
    real *query_panels = take(&workspace, packed_size(r->key_width, width));
    pack(3 * width, width, r->weight_hh, width, NULL, state_panels);
    pack(3 * width, contexts, weight_ih + embedded, stride, NULL, context_panels);
    if (r->query_weight)
        pack(r->key_width, width, r->query_weight, width, NULL, query_panels);
    for (size step = r->steps; step-- > 0;) {
        size rows = r->sizes[step], first = r->offsets[step];
        const real *gates = r->gates + first * four, *previous = previous_states(r, step, &previous_stride);
        real *grads = r->grad_states + step * step_stride(r), *into = grad_gates + first * four;
        real *grad_previous = step > 0 ? grads - step_stride(r) : r->grad_initial;
        for (size i = rows; i < r->rows; i++) /* has ended: keeps its last */
            add_product(step_stride(r), 1, grads + i * row_stride(r), grad_previous + i * previous_stride);
        for (size i = 0; i < rows; i++)
            activate_backward(width, gates + i * four, previous + i * previous_stride, grads + i * row_stride(r),
                              into + i * four, grad_previous ? grad_previous + i * previous_stride : NULL);
        if (grad_previous)
            multiply(rows, 3 * width, width, into + width, four, state_panels, grad_previous, previous_stride);
        if (r->key_count) {
            multiply(rows, 3 * width, contexts, into, four, context_panels, grads + width, row_stride(r));
            attend_rows_backward(r, step, query_panels, grad_scores, grad_queries, grad_previous, previous_stride);
        }
    }
    previous_states_backward(r, zeros, 3 * width, grad_gates + width, four, r->grad_weight_hh, workspace);
    if (r->key_count) {
        multiply_transposed(width, count, contexts, grad_gates, four, r->states + width, step_stride(r), r->places,
                            r->grad_weight_ih + 2 * width * stride + embedded, stride, workspace);
        multiply_transposed(2 * width, count, contexts, grad_gates + width, four, r->states + width, step_stride(r), r->places,
                            r->grad_weight_ih + embedded, stride, workspace);
        memory_backward(r, zeros, grad_scores, workspace);
        if (r->query_weight)
            previous_states_backward(r, zeros, r->key_width, grad_queries, r->key_width, r->grad_query_weight, workspace);
    }
    token_table_backward(r, weight_ih, grad_gates, workspace);
}

/* How many numbers the workspace must hold, for either of the two. */
size EXPORTED(workspace_size)(const Recurrence *r)
{
    size width = r->width, keys = r->key_width, contexts = r->context_width, embedded = r->embedding_width;
    size widest = larger(larger(width, contexts), larger(keys, embedded)), count = r->rows * r->steps;
    size table = count < r->vocabulary ? count : r->vocabulary, per_index = sizeof(size) / sizeof(real);
    size forwards = packed_size(width, 3 * width) + packed_size(contexts, 3 * width) + packed_size(width, keys) +
                    packed_size(embedded, 3 * width);
    size backwards = packed_size(3 * width, width) + packed_size(3 * width, contexts) + packed_size(keys, width) +
                     packed_size(3 * width, embedded) + packed_size(DEPTH, widest) + count * (4 * width + keys + r->key_count);
    return per_index * 2 * (count + r->steps + 1) + 3 * width * (embedded + contexts) + larger(forwards, backwards) +
           table * (4 * width + 2 * embedded) + 4 * width + 16 * 64;
}

/* `binding.py` compares this with its own, so that neither reads beyond the other's fields. */
size EXPORTED(recurrence_size)(void) { return sizeof(Recurrence); }
