"""Everything a config can name: the table of contents of the laboratory.

Each entry gives a name, its synonyms, formula, source and options, and says where its class is. Nothing here imports torch,
so `seq2attn list` and the check of a config are instant. CONTRIBUTING.md says how to add a part.

Symbols: s is the query (decoder state), h a key (encoder state), D their width, S the source length, n the length of a
string, t an output position counted from 0, x a cell's input.
"""

from __future__ import annotations

from seq2attn.registry import Entry, Option, Registry

LONGEST = 100_000  # positions of a string
WIDEST = 65_536  # of any layer


# ---- what is wrong with the value of an option ----


def _check_alphabet(alphabet: str) -> str | None:
    if not alphabet:
        return "must not be empty"
    if len(alphabet) > 10_000:
        return f"must have at most 10,000 characters, found {len(alphabet):,}"
    repeated = sorted({character for character in alphabet if alphabet.count(character) > 1})
    if repeated:
        return f"repeats {', '.join(map(repr, repeated))}"
    line_ends = [character for character in alphabet if len(f"a{character}b".splitlines()) > 1]
    return f"contains a line end, {line_ends[0]!r}" if line_ends else None


def _check_above_0(value: float) -> str | None:
    return None if value > 0 else f"must be above 0, found {value}"


def _check_odd(size: int) -> str | None:
    return None if size % 2 else f"must be odd, so that it looks as far to the left as to the right; found {size}"


def _check_centre(centre: str) -> str | None:
    return None if centre in ("monotonic", "reversed") else f"must be monotonic or reversed, found {centre!r}"


# ---- the parts ----

_INITIAL_STD = Option(
    float,
    None,
    "standard deviation of W's normal initialisation; null: PyTorch's Linear default",
    check=_check_above_0,
)

SCORES = Registry(
    "score",
    [
        Entry(
            "dot",
            formula="s.h",
            parameters="0",
            summary="dot product",
            source="Luong et al. 2015, eq. 8",
            equal_widths=True,
            implementation="seq2attn.model.scores.dot:Dot",
        ),
        Entry(
            "scaled",
            synonyms=("scaled_dot",),
            formula="s.h / sqrt(D)",
            parameters="0",
            summary="dot product of unit variance at any width",
            source="Vaswani et al. 2017, eq. 1",
            equal_widths=True,
            implementation="seq2attn.model.scores.scaled:Scaled",
        ),
        Entry(
            "general",
            synonyms=("bilinear", "multiplicative"),
            formula="s W h",
            parameters="D_s*D_h",
            summary="dot product after a learned linear map",
            source="Luong et al. 2015, eq. 8",
            implementation="seq2attn.model.scores.general:General",
            options={"initial_std": _INITIAL_STD},
        ),
        Entry(
            "scaled_general",
            synonyms=("scaled_bilinear",),
            formula="s W h / sqrt(D)",
            parameters="D_s*D_h",
            summary="general, scaled",
            source="Luong et al. 2015 with the factor of Vaswani et al. 2017",
            implementation="seq2attn.model.scores.scaled_general:ScaledGeneral",
            options={"initial_std": _INITIAL_STD},
        ),
        Entry(
            "additive",
            synonyms=("concat", "bahdanau"),
            formula="v.tanh(W [s;h])",
            parameters="D_a*(D_s+D_h) + D_a",
            summary="a one-layer perceptron",
            source="Bahdanau et al. 2015, appendix A.1.2; 'concat' in Luong et al. 2015",
            implementation="seq2attn.model.scores.additive:Additive",
            options={
                "width": Option(int, None, "D_a, the width of the hidden layer; null: the query's width", 1, WIDEST)
            },
        ),
        Entry(
            "cosine",
            formula="s.h / (|s| |h|) * exp(b)",
            parameters="1",
            summary="the angle alone, with a learned strength",
            source="after Graves et al. 2014, eq. 5 and 6",
            equal_widths=True,
            implementation="seq2attn.model.scores.cosine:Cosine",
            options={"learned_strength": Option(bool, True, "multiply by exp(b), b learned; false: the bare cosine")},
        ),
        Entry(
            "key_value",
            formula="(W_q s).(W_k h) / sqrt(d_k), values W_v h",
            parameters="d_k*(D_s+D_h) + d_v*D_h",
            summary="separate projections for queries, keys and values",
            source="Vaswani et al. 2017, section 3.2.2, one head",
            implementation="seq2attn.model.scores.key_value:KeyValue",
            options={
                "key_size": Option(
                    int, None, "d_k, the width in which they are compared; null: the query's width", 1, WIDEST
                ),
                "value_size": Option(int, None, "d_v, the width of the values; null: the key's width", 1, WIDEST),
            },
        ),
        Entry(
            "none",
            formula="(no attention)",
            parameters="0",
            summary="the fixed-vector bottleneck: the decoder sees the source only through its first state",
            source="Sutskever et al. 2014",
        ),
    ],
    takes="query_width, key_width",
    group="seq2attn.scores",
)

_STRINGS = {
    "alphabet": Option(
        str,
        "abcdefghijklmnopqrstuvwxyz",
        "the characters, each once, in the order of their ids",
        check=_check_alphabet,
    ),
    "min_length": Option(int, 1, "shortest training string, characters", 1, LONGEST),
    "max_length": Option(
        int, 12, "longest training string, characters; lengths are uniform between the two", 1, LONGEST
    ),
}

TASKS = Registry(
    "task",
    [
        Entry(
            "reverse",
            formula="target[t] = source[n-1-t]",
            summary="hello -> olleh",
            implementation="seq2attn.data.tasks.reverse:Reverse",
            options=_STRINGS,
        ),
        Entry(
            "copy",
            formula="target[t] = source[t]",
            summary="hello -> hello",
            implementation="seq2attn.data.tasks.copy:Copy",
            options=_STRINGS,
        ),
        Entry(
            "sort",
            formula="target[t] = source[argsort(source)[t]], stable",
            summary="hello -> ehllo",
            implementation="seq2attn.data.tasks.sort:Sort",
            options=_STRINGS,
        ),
        Entry(
            "duplicate",
            formula="target[t] = source[t mod n], t < 2n",
            summary="hello -> hellohello",
            implementation="seq2attn.data.tasks.duplicate:Duplicate",
            options=_STRINGS,
        ),
    ],
    group="seq2attn.tasks",
)

_RADIUS = Option(int, 2, "R, positions that the window reaches to each side of its centre", 1, LONGEST)

WINDOWS = Registry(
    "window",
    [
        Entry("global", formula="every key", summary="no window", source="Bahdanau et al. 2015"),
        Entry(
            "local_m",
            formula="|j - p_t| <= R, p_t = t or n-1-t",
            summary="a window that moves one key a step, forwards (centre: monotonic) or backwards (centre: reversed)",
            source="Luong et al. 2015, section 3.2",
            implementation="seq2attn.model.windows:LocalM",
            options={
                "radius": _RADIUS,
                "centre": Option(
                    str,
                    "monotonic",
                    "monotonic: p_t = t; reversed: p_t = n-1-t, the correct position for reversal",
                    check=_check_centre,
                ),
            },
        ),
        Entry(
            "local_p",
            formula="|j - p_t| <= R, p_t = (S-1) sigmoid(v_p.tanh(W_p s)); weights * exp(-2 (j - p_t)^2 / R^2)",
            summary="a window around a learned centre",
            source="Luong et al. 2015, eq. 9 and 10",
            implementation="seq2attn.model.windows:LocalP",
            options={"radius": _RADIUS},
        ),
    ],
    takes="query_width",
    group="seq2attn.windows",
)

_CONVOLUTION = {
    "filters": Option(int, 8, "convolutional features", 1, 1024),
    "kernel": Option(int, 5, "positions that each feature looks at; odd", 1, 1001, _check_odd),
}

HISTORIES = Registry(
    "history",
    [
        Entry("none", formula="(nothing)", summary="scores do not depend on past weights"),
        Entry(
            "location",
            formula="U (F * alpha_{t-1})",
            summary="convolutional features of the previous weights",
            source="Chorowski et al. 2015, eq. 8 and 9",
            implementation="seq2attn.model.histories:Location",
            options=_CONVOLUTION,
        ),
        Entry(
            "coverage",
            formula="w C_t, C_t = alpha_1 + ... + alpha_{t-1}",
            summary="the sum of all past weights",
            source="See et al. 2017, eq. 10 and 11",
            implementation="seq2attn.model.histories:Coverage",
        ),
        Entry(
            "location_coverage",
            formula="U (F * [alpha_{t-1}; C_t])",
            summary="convolutional features of both",
            source="after Shen et al. 2018, section 2.2",
            implementation="seq2attn.model.histories:LocationCoverage",
            options=_CONVOLUTION,
        ),
    ],
    takes="feature_width",
    group="seq2attn.histories",
)

ARCHITECTURES = Registry(
    "architecture",
    [
        Entry(
            "gru",
            formula="recurrent encoder, recurrent decoder with attention",
            summary="the Reverser; model.cell says which cell, a GRU by default",
            source="Cho et al. 2014",
        ),
        Entry(
            "transformer",
            formula="softmax(Q K^T / sqrt(d_k)) V, three times: encoder, decoder so far, decoder to encoder",
            summary="Transformer encoder and decoder",
            source="Vaswani et al. 2017",
        ),
    ],
)

CELLS = Registry(
    "cell",
    [
        Entry(
            "gru",
            formula="r, z = sigmoid(W x + U h + b); n = tanh(W_n x + b_n + r * (U_n h + c_n)); h' = (1-z) * n + z * h",
            summary="gated recurrent unit: reset gate r, update gate z",
            source="Cho et al. 2014, with r applied after U_n as in PyTorch",
            implementation="seq2attn.model.cells:GRU",
        ),
        Entry(
            "lstm",
            formula="i, f, o = sigmoid(W x + U h + b); g = tanh(W_g x + U_g h + b_g); c' = f * c + i * g; h' = o * tanh(c')",
            summary="long short-term memory: input, forget and output gates i, f, o",
            source="Hochreiter & Schmidhuber 1997; forget gate: Gers et al. 2000",
            implementation="seq2attn.model.cells:LSTM",
        ),
        Entry(
            "rnn",
            formula="h' = tanh(W x + U h + b)",
            summary="a simple recurrent network, without gates",
            source="Elman 1990",
            implementation="seq2attn.model.cells:RNN",
        ),
    ],
    takes="input_width, width",
    group="seq2attn.cells",
)

DECODERS = Registry(
    "decoder",
    [
        Entry(
            "bahdanau",
            formula="c_t from s_{t-1}; s_t = cell([emb(y_{t-1}); c_t], s_{t-1}); logits = W_o [s_t; c_t] + b",
            summary="attend, then step",
            source="Bahdanau et al. 2015",
            implementation="seq2attn.model.bahdanau:BahdanauDecoder",
        ),
        Entry(
            "luong",
            formula="s_t = cell(emb(y_{t-1}), s_{t-1}); c_t from s_t; a_t = tanh(W_c [c_t; s_t]); logits = W_o a_t + b",
            summary="step, then attend",
            source="Luong et al. 2015, eq. 5 and 6, section 3.3",
            implementation="seq2attn.model.luong:LuongDecoder",
            options={
                "input_feeding": Option(bool, False, "the cell also reads the previous attentional vector, a_{t-1}")
            },
        ),
    ],
    takes="vocabulary_size, embedding, hidden, attention, cells",
    group="seq2attn.decoders",
)

INITIAL_STATES = Registry(
    "initial state",
    [
        Entry(
            "zeros",
            formula="s_0 = 0",
            summary="the decoder starts from a zero state",
            implementation="seq2attn.model.initial_state:Zeros",
        ),
        Entry(
            "last",
            formula="s_0 = h_S",
            summary="the encoder's final state; widths must be equal",
            implementation="seq2attn.model.initial_state:Last",
        ),
        Entry(
            "bridge",
            formula="s_0 = tanh(W h + b)",
            summary="h: the encoder's final state, or of a bidirectional encoder the backward state at position 1",
            source="Bahdanau et al. 2015, appendix A.2.2",
            implementation="seq2attn.model.initial_state:Bridge",
        ),
    ],
    takes="encoder, cells",
    group="seq2attn.initial_states",
)

SCHEDULES = Registry(
    "schedule",
    [
        Entry("cosine", formula="lr/2 * (1 + cos(pi * progress))", summary="from the learning rate down to 0"),
        Entry("linear", formula="lr * (1 - progress)", summary="from the learning rate down to 0"),
        Entry("constant", formula="lr", summary="the learning rate throughout"),
    ],
)

EXTENSIBLE = (SCORES, TASKS, WINDOWS, HISTORIES, DECODERS, CELLS, INITIAL_STATES)
"""the kinds that plug-ins and installed packages can add to"""
