"""Everything a config can name: the table of contents of the laboratory.

Each line gives a name, its synonyms, formula and source, and says where its class lives. Nothing here imports torch,
so `seq2attn list` and the check of a config are instant. To add a score or a task, see CONTRIBUTING.md.

Symbols: s is the query (decoder state), h a key (encoder state), D their width, S the source length, n the length of a
string, t an output position counted from 0.
"""

from __future__ import annotations

from seq2attn.errors import Seq2AttnError
from seq2attn.registry import Entry, Option, Registry, ScoreEntry

ENTRY_POINT_GROUP = "seq2attn.model.scores"


def installed_scores() -> dict[str, str]:
    """Scores that installed packages offer: entry point name -> "module:Class", read without importing them."""
    from importlib.metadata import entry_points

    return {point.name: point.value for point in entry_points(group=ENTRY_POINT_GROUP)}


def _discover_score(name: str) -> ScoreEntry | None:
    target = installed_scores().get(name)
    if target is None:
        return None
    try:
        Entry(name, formula="", implementation=target).load()
    except Exception as error:
        raise Seq2AttnError(
            f"score {name!r} is offered by an installed package ({target}) that cannot be imported: "
            f"{type(error).__name__}: {error}",
            hint="Reinstall or remove that package.",
        ) from error
    registered = SCORES.names()
    if name not in registered:
        raise Seq2AttnError(
            f"{target} was imported for score {name!r} but registered no such score",
            hint=f'Decorate the class with @register("{name}", formula=...).',
        )
    return SCORES.get(name)


_INITIAL_STD = Option(float, None, "standard deviation of W's normal initialisation; null: PyTorch's Linear default")

SCORES: Registry[ScoreEntry] = Registry(
    "score",
    [
        ScoreEntry(
            "dot",
            formula="s.h",
            parameters="0",
            summary="dot product",
            source="Luong et al. 2015, eq. 8",
            equal_widths=True,
            implementation="seq2attn.model.scores.dot:Dot",
        ),
        ScoreEntry(
            "scaled",
            synonyms=("scaled_dot",),
            formula="s.h / sqrt(D)",
            parameters="0",
            summary="dot product of unit variance at any width",
            source="Vaswani et al. 2017, eq. 1",
            equal_widths=True,
            implementation="seq2attn.model.scores.scaled:Scaled",
        ),
        ScoreEntry(
            "general",
            synonyms=("bilinear", "multiplicative"),
            formula="s W h",
            parameters="D_s*D_h",
            summary="dot product after a learned linear map",
            source="Luong et al. 2015, eq. 8",
            implementation="seq2attn.model.scores.general:General",
            options={"initial_std": _INITIAL_STD},
        ),
        ScoreEntry(
            "scaled_general",
            synonyms=("scaled_bilinear",),
            formula="s W h / sqrt(D)",
            parameters="D_s*D_h",
            summary="general, scaled",
            source="Luong et al. 2015 with the factor of Vaswani et al. 2017",
            implementation="seq2attn.model.scores.scaled_general:ScaledGeneral",
            options={"initial_std": _INITIAL_STD},
        ),
        ScoreEntry(
            "additive",
            synonyms=("concat", "bahdanau"),
            formula="v.tanh(W [s;h])",
            parameters="D_a*(D_s+D_h) + D_a",
            summary="a one-layer perceptron",
            source="Bahdanau et al. 2015, appendix A.1.2; 'concat' in Luong et al. 2015",
            implementation="seq2attn.model.scores.additive:Additive",
            options={"width": Option(int, None, "D_a, the width of the hidden layer; null: the query's width")},
        ),
        ScoreEntry(
            "cosine",
            formula="s.h / (|s| |h|) * exp(b)",
            parameters="1",
            summary="the angle alone, with a learned strength",
            source="after Graves et al. 2014, eq. 5 and 6",
            equal_widths=True,
            implementation="seq2attn.model.scores.cosine:Cosine",
            options={"learned_strength": Option(bool, True, "multiply with exp(b), b learned; false: the bare cosine")},
        ),
        ScoreEntry(
            "key_value",
            formula="(W_q s).(W_k h) / sqrt(d_k), values W_v h",
            parameters="d_k*(D_s+D_h) + d_v*D_h",
            summary="separate projections for queries, keys and values",
            source="Vaswani et al. 2017, section 3.2.2, one head",
            implementation="seq2attn.model.scores.key_value:KeyValue",
            options={
                "key_size": Option(int, None, "d_k, the width in which they are compared; null: the query's width"),
                "value_size": Option(int, None, "d_v, the width of the values; null: the key's width"),
            },
        ),
        ScoreEntry(
            "none",
            formula="(no attention)",
            parameters="0",
            summary="the fixed-vector bottleneck: the decoder sees the source only through its first state",
            source="Sutskever et al. 2014",
        ),
    ],
    discover=_discover_score,
)

TASKS: Registry[Entry] = Registry(
    "task",
    [
        Entry(
            "reverse",
            formula="target[t] = source[n-1-t]",
            summary="hello -> olleh",
            implementation="seq2attn.data.tasks.reverse:Reverse",
        ),
        Entry(
            "copy",
            formula="target[t] = source[t]",
            summary="hello -> hello",
            implementation="seq2attn.data.tasks.copy:Copy",
        ),
        Entry(
            "sort",
            formula="target[t] = source[argsort(source)[t]], stable",
            summary="hello -> ehllo",
            implementation="seq2attn.data.tasks.sort:Sort",
        ),
        Entry(
            "duplicate",
            formula="target[t] = source[t mod n], t < 2n",
            summary="hello -> hellohello",
            implementation="seq2attn.data.tasks.duplicate:Duplicate",
        ),
    ],
)

WINDOWS: Registry[Entry] = Registry(
    "window",
    [
        Entry("global", formula="every key", summary="no window", source="Bahdanau et al. 2015"),
        Entry(
            "local_m",
            formula="|j - p_t| <= R, p_t = t or n-1-t",
            summary="a window that moves one key a step, forwards (centre: monotonic) or backwards (reversed)",
            source="Luong et al. 2015, section 3.2",
        ),
        Entry(
            "local_p",
            formula="|j - p_t| <= R, p_t = (S-1) sigmoid(v_p.tanh(W_p s)); weights * exp(-2 (j - p_t)^2 / R^2)",
            summary="a window around a learned centre",
            source="Luong et al. 2015, eq. 9 and 10",
        ),
    ],
)

CENTRES: Registry[Entry] = Registry(
    "centre",
    [
        Entry("monotonic", formula="p_t = t", summary="from the first character on", source="Luong et al. 2015"),
        Entry("reversed", formula="p_t = n-1-t", summary="from the last character back: reversal's right answer"),
    ],
)

HISTORIES: Registry[Entry] = Registry(
    "history",
    [
        Entry("none", formula="(nothing)", summary="scores do not know what was attended to before"),
        Entry(
            "location",
            formula="U (F * alpha_{t-1})",
            summary="convolutional features of the previous weights",
            source="Chorowski et al. 2015, eq. 8 and 9",
        ),
        Entry(
            "coverage",
            formula="w C_t, C_t = alpha_1 + ... + alpha_{t-1}",
            summary="the sum of all past weights",
            source="See et al. 2017, eq. 10 and 11",
        ),
        Entry(
            "location_coverage",
            formula="U (F * [alpha_{t-1}; C_t])",
            summary="convolutional features of both",
            source="after Shen et al. 2018, section 2.2",
        ),
    ],
)

ARCHITECTURES: Registry[Entry] = Registry(
    "architecture",
    [
        Entry("gru", formula="GRU encoder, GRU decoder", summary="the Reverser", source="Cho et al. 2014"),
        Entry(
            "transformer",
            formula="softmax(Q K^T / sqrt(d_k)) V, three times: encoder, decoder so far, decoder to encoder",
            summary="Transformer encoder and decoder",
            source="Vaswani et al. 2017",
        ),
    ],
)

DECODERS: Registry[Entry] = Registry(
    "decoder",
    [
        Entry(
            "bahdanau",
            formula="c_t from s_{t-1}; s_t = GRU([emb(y_{t-1}); c_t], s_{t-1}); logits = W_o [s_t; c_t] + b",
            summary="attend, then step",
            source="Bahdanau et al. 2015",
            implementation="seq2attn.model.bahdanau:BahdanauDecoder",
        ),
        Entry(
            "luong",
            formula="s_t = GRU(emb(y_{t-1}), s_{t-1}); c_t from s_t; a_t = tanh(W_c [c_t; s_t]); logits = W_o a_t + b",
            summary="step, then attend; with model.input_feeding the GRU also reads a_{t-1}",
            source="Luong et al. 2015, eq. 5 and 6, section 3.3",
            implementation="seq2attn.model.luong:LuongDecoder",
        ),
    ],
)

CELLS: Registry[Entry] = Registry("cell", [])

INITIAL_STATES: Registry[Entry] = Registry(
    "initial state",
    [
        Entry("zeros", formula="s_0 = 0", summary="the decoder starts knowing nothing"),
        Entry("last", formula="s_0 = h_S", summary="the final encoder state; widths must agree"),
        Entry(
            "bridge",
            formula="s_0 = tanh(W h + b)",
            summary="h: the final encoder state, or of a bidirectional encoder the backward state at position 1",
            source="Bahdanau et al. 2015, appendix A.2.2",
        ),
    ],
)

SCHEDULES: Registry[Entry] = Registry(
    "schedule",
    [
        Entry("cosine", formula="lr/2 * (1 + cos(pi * progress))", summary="from the learning rate down to 0"),
        Entry("linear", formula="lr * (1 - progress)", summary="from the learning rate down to 0"),
        Entry("constant", formula="lr", summary="the learning rate throughout"),
    ],
)
