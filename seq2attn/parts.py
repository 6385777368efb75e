"""Everything that a config can name: each part with its formula, its source, its class and its
options.

Nothing here imports torch: `seq2attn list` and checking a config are instant. CONTRIBUTING.md says
how to add a part.

Symbols: s is the query (decoder state), h a key (encoder state), D their width, S the source
length, n the length of a string, t an output position counted from 0, x a cell's input.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Literal

from seq2attn.options import option, options
from seq2attn.registry import Entry, Registry
from seq2attn.text import character_name

LONGEST = 100_000  # positions of a string
WIDEST = 65_536  # of any layer
MAX_COLUMNS = 1000  # of a file of pairs
DIGITS = "0123456789"
LETTERS = "abcdefghijklmnopqrstuvwxyz"
_ACCENTED = "".join(filter(str.isalpha, map(chr, range(0xC0, 0x104))))
SYMBOLS = LETTERS + LETTERS.upper() + DIGITS + _ACCENTED
"""128 letters and digits: those of ASCII, then the letters from À (U+00C0) to ă (U+0103)"""


# ---- checks of the values of options ----


def _alphabet(alphabet: str) -> str:
    if not alphabet:
        raise ValueError("must not be empty")
    repeated = sorted(character for character, count in Counter(alphabet).items() if count > 1)
    if repeated:
        raise ValueError(f"repeats {', '.join(map(character_name, repeated))}")
    for character in alphabet:
        if _ends_line(character):
            raise ValueError(f"contains a line end, {character!r}")
    return alphabet


def _ends_line(text: str) -> bool:
    return len(f"a{text}b".splitlines()) > 1


def _odd(size: int) -> int:
    if size % 2 == 0:
        raise ValueError(f"must be odd, so that it is symmetric; found {size}")
    return size


def _separator(separator: str) -> str:
    if "\t" in separator or _ends_line(separator):
        raise ValueError(
            "must not contain a tab or a line end, which separate columns and pairs; found "
            f"{separator!r}"
        )
    return separator


def _delimiter(delimiter: str) -> str:
    if len(delimiter) != 1 or delimiter in '\0"\r\n':
        raise ValueError(f"must be one character, such as ',' or ';'; found {delimiter!r}")
    return delimiter


# The tables are laid out by hand: the name, formula, description, source and class of a part, then
# its options, synonyms and number of parameters. An option has a type, a default, a meaning, and a
# smallest and a largest value.
# fmt: off

# ---- score functions ----

_MAP = options(initial_std=option(
    float, None, "standard deviation of W's normal initialisation; null: the default of Linear",
    above=0))
SCORES = Registry("score", default="scaled", group="seq2attn.scores", entries=[
    Entry("dot", "s.h",
          "dot product", "Luong et al. 2015, eq. 8",
          ".model.scores:Dot", parameters="0", equal_widths=True),
    Entry("scaled", "s.h / sqrt(D)",
          "dot product with variance 1 at any width", "Vaswani et al. 2017, eq. 1",
          ".model.scores:Scaled", synonyms=("scaled_dot",), parameters="0", equal_widths=True),
    Entry("general", "s W h",
          "dot product after a learned linear map", "Luong et al. 2015, eq. 8",
          ".model.scores:General", _MAP, ("bilinear", "multiplicative"), "D_s*D_h"),
    Entry("scaled_general", "s W h / sqrt(D)",
          "general, scaled", "Luong et al. 2015 with the factor of Vaswani et al. 2017",
          ".model.scores:ScaledGeneral", _MAP, ("scaled_bilinear",), "D_s*D_h"),
    Entry("additive", "v.tanh(W [s;h])",
          "a one-layer perceptron",
          "Bahdanau et al. 2015, appendix A.1.2; 'concat' in Luong et al. 2015",
          ".model.scores:Additive",
          options(width=option(
              int, None, "D_a, the width of the hidden layer; null: the query's width", 1, WIDEST)),
          ("concat", "bahdanau"), "D_a*(D_s+D_h) + D_a"),
    Entry("cosine", "s.h / (|s| |h|) * exp(b)",
          "cosine of the angle, with a learned scale", "after Graves et al. 2014, eq. 5 and 6",
          ".model.scores:Cosine",
          options(learned_strength=option(
              bool, True, "multiply by exp(b), b learned; false: the bare cosine")),
          parameters="1", equal_widths=True),
    Entry("key_value", "(W_q s).(W_k h) / sqrt(d_k), values W_v h",
          "separate projections for queries, keys and values",
          "Vaswani et al. 2017, section 3.2.2, one head",
          ".model.scores:KeyValue",
          options(
              key_size=option(
                  int, None,
                  "d_k, the width of projected queries and keys; null: the query's width",
                  1, WIDEST),
              value_size=option(
                  int, None, "d_v, the width of the values; null: the key's width", 1, WIDEST)),
          parameters="d_k*(D_s+D_h) + d_v*D_h"),
    Entry("none", "(no attention)",
          "the fixed-vector bottleneck: the decoder sees the source only through its initial state",
          "Sutskever et al. 2014", parameters="0"),
])

# ---- tasks ----


def _lengths(shortest: int, longest: int, unit: str) -> dict[str, Any]:
    """Return the options of a task whose training strings have a shortest and a longest length."""
    return {
        "min_length": option(int, shortest, f"shortest training string, {unit}", 1, LONGEST),
        "max_length": option(int, longest, f"longest training string, {unit}", 1, LONGEST),
    }


_STRINGS = options(
    alphabet=option(
        str, LETTERS, "distinct characters, in the order of their ids", check=_alphabet),
    symbols=option(
        int, None, "size of the alphabet, instead of it: the first of the letters a-zA-Z0-9À-ă",
        1, 128),
    **_lengths(1, 12, "characters"))
_DATES = options(
    first_year=option(int, 1900, "first year of the dates", 1000, 9999),
    last_year=option(int, 2099, "last year of the dates", 1000, 9999),
    held_out=option(
        float, 0.1, "share of the dates that training never draws and `eval` measures", 0.001, 0.9),
    min_length=option(int, 8, "shortest training string, characters", 8, 36),
    max_length=option(
        int, 36, "longest training string, characters; uniform over dates and 12 styles", 8, 36))
_PAIRS = options(
    train=option(str, None, "the training pairs, a tab-separated UTF-8 file", is_file=True),
    dev=option(str, None, "the pairs that training is measured on", is_file=True),
    source_column=option(int, 1, "the source's column, from 1", 1, MAX_COLUMNS),
    target_column=option(int, 2, "the right answer's column, from 1", 1, MAX_COLUMNS),
    features_column=option(
        int, None, "a column of features with ';' between them; null: there is none",
        1, MAX_COLUMNS),
    columns=option(
        int, None, "columns of each line; null: as many as the last one named", 1, MAX_COLUMNS),
    delimiter=option(
        str, "\t",
        "between columns: a tab, or , ; | with optional \"quotation marks\", or ' ' (one or more)",
        check=_delimiter),
    header=option(bool, False, "the first line of each file names the columns"),
    comment=option(
        str, "", "lines that begin with this are comments; empty: there are none",
        check=_separator),
    strip=option(bool, False, "drop blanks before and after what stands in a column"),
    source_separator=option(
        str, "", "between the source's symbols; empty: each character is a symbol",
        check=_separator),
    target_separator=option(
        str, "", "between the target's symbols, such as ' ' between phonemes", check=_separator),
    normalise=option(
        Literal["nfc", "nfd", "none"], "nfc",
        "Unicode's normal form of files and predictions: nfc (composed), nfd (decomposed), none"))
TASKS = Registry("task", group="seq2attn.tasks", entries=[
    Entry("reverse", "target[t] = source[n-1-t]",
          "hello -> olleh", "", ".data.tasks.strings:Reverse", _STRINGS),
    Entry("copy", "target[t] = source[t]",
          "hello -> hello", "", ".data.tasks.strings:Copy", _STRINGS),
    Entry("sort", "target[t] = source[argsort(source)[t]], stable",
          "hello -> ehllo", "", ".data.tasks.strings:Sort", _STRINGS),
    Entry("duplicate", "target[t] = source[t mod n], t < 2n",
          "hello -> hellohello", "", ".data.tasks.strings:Duplicate", _STRINGS),
    Entry("odds_first", "target = source[1], source[3], ..., then source[0], source[2], ...",
          "hello -> elhlo", "Deletang et al. 2023",
          ".data.tasks.strings:OddsFirst", _STRINGS),
    Entry("flip", "target[t] = source[min(t xor 1, n-1)]",
          "hello -> ehllo: pairs exchanged, an odd last one stays",
          "bigram flipping in Grefenstette et al. 2015",
          ".data.tasks.strings:Flip", _STRINGS),
    Entry("recopy", "target = each digit d, 1 (d < 4), 3 (d < 7) or 5 times",
          "241 -> 24441; reverse: 241 -> 14442", "Ray Chowdhury & Caragea 2023",
          ".data.tasks.strings:ReCopy",
          options(reverse=option(bool, False, "write the target from its end"),
                  **_lengths(5, 10, "digits"))),
    Entry("dedupe", "target = each run of equal digits once",
          "7772 -> 72", "Ray Chowdhury & Caragea 2023",
          ".data.tasks.strings:DeDupe", options(**_lengths(5, 30, "digits"))),
    Entry("addition", "target = the sum, last digit first",
          "21+93 -> 15 (12 + 39 = 51)", "", ".data.tasks.addition:Addition",
          options(
              min_digits=option(
                  int, 5, "fewest digits of each number in training", 1, LONGEST // 2 - 1),
              max_digits=option(
                  int, 10, "most digits of each number in training", 1, LONGEST // 2 - 1))),
    Entry("dates", "target = the date in ISO 8601",
          "May 3, 1998 -> 1998-05-03", "", ".data.tasks.dates:Dates", _DATES),
    Entry("pairs", "target = the second string of each pair",
          "your own pairs of strings, from tab-separated files", "",
          ".data.tasks.pairs:Pairs", _PAIRS),
])

# ---- attention ----

NORMALISERS = Registry("normaliser", group="seq2attn.normalisers", entries=[
    Entry("softmax", "exp(e_j) / sum exp(e_i)",
          "every key gets some weight", "Bahdanau et al. 2015, eq. 6",
          ".model.normalisers:Softmax"),
    Entry("sparsemax", "max(0, e_j - tau), tau such that they sum to 1",
          "keys that score low get the weight 0", "Martins & Astudillo 2016, eq. 2 and 3",
          ".model.normalisers:Sparsemax"),
    Entry("entmax15", "max(0, e_j / 2 - tau)^2, tau such that they sum to 1",
          "between softmax and sparsemax", "Peters et al. 2019, algorithm 2",
          ".model.normalisers:Entmax15"),
    Entry("sigmoid", "sigmoid(e_j - ln n), n keys",
          "each key for itself; weights need not sum to 1", "Ramapuram et al. 2024",
          ".model.normalisers:Sigmoid"),
])

_RADIUS = option(
    int, 2, "R, positions that the window reaches to each side of its centre", 1, LONGEST)
WINDOWS = Registry("window", group="seq2attn.windows", entries=[
    Entry("global", "every key", "no window", "Bahdanau et al. 2015"),
    Entry("local_m", "|j - p_t| <= R, p_t = t or n-1-t",
          "a window that moves one key per step, forwards (centre: monotonic) or backwards "
          "(centre: reversed)",
          "Luong et al. 2015, section 3.2",
          ".model.windows:LocalM",
          options(
              radius=_RADIUS,
              centre=option(
                  Literal["monotonic", "reversed"], "monotonic",
                  "monotonic: p_t = t; reversed: p_t = n-1-t, the correct position for reversal"))),
    Entry("local_p",
          "|j - p_t| <= R, p_t = (S-1) sigmoid(v_p.tanh(W_p s)); "
          "weights * exp(-2 (j - p_t)^2 / R^2)",
          "a window around a learned centre", "Luong et al. 2015, eq. 9 and 10",
          ".model.windows:LocalP", options(radius=_RADIUS)),
])

_CONVOLUTION = options(
    filters=option(int, 8, "convolution filters", 1, 1024),
    kernel=option(int, 5, "kernel size of the convolution, positions; odd", 1, 1001, check=_odd))


def _shifting(reach: int, power: float, **more: Any) -> Any:
    """Return the options of a history that moves the weights: its longest distance, its power in
    evaluation, and `more`.
    """
    return options(
        reach=option(int, reach, "longest distance moved in a step, positions", 1, 500),
        **more,
        rereading=option(
            bool, True, "the context ends with how often what is read now was read before"),
        evaluation_power=option(
            float, power, "in evaluation, moved weights are sharpened by the power g times this",
            1, 100))


HISTORIES = Registry("history", group="seq2attn.histories", entries=[
    Entry("none", "(nothing)", "scores do not depend on past weights"),
    Entry("location", "U (F * alpha_{t-1})",
          "convolutional features of the previous weights", "Chorowski et al. 2015, eq. 8 and 9",
          ".model.histories:Location", _CONVOLUTION),
    Entry("coverage", "w C_t, C_t = alpha_1 + ... + alpha_{t-1}",
          "the sum of all past weights", "See et al. 2017, eq. 10 and 11",
          ".model.histories:Coverage"),
    Entry("location_coverage", "U (F * [alpha_{t-1}; C_t])",
          "convolutional features of both", "after Shen et al. 2018, section 2.2",
          ".model.histories:LocationCoverage", _CONVOLUTION),
    Entry("shift",
          "moved^g / sum moved^g, moved_j = sum_d p_d alpha_{t-1, (j-d) mod n}; contexts end with "
          "alpha_t.C_t",
          "the previous weights, moved around the source by a learned distance; content decides "
          "only where to begin",
          "after Graves et al. 2014, eq. 8 and 9",
          ".model.histories:Shift", _shifting(2, 1.0), makes_weights=True),
    Entry("shift_by_key",
          "shift, p_j = softmax(4 (b + W h_j + (F * [alpha_{t-1}; C_t; alpha_{t-2}])_j))",
          "the previous weights, moved around the source by distances that depend on what is read",
          "ours, after Graves et al. 2014, eq. 8 and 9",
          ".model.histories:ShiftByKey",
          _shifting(3, 4.0, kernel=option(
              int, 7, "kernel size of the convolution F, positions; odd", 1, 1001, check=_odd)),
          makes_weights=True),
    Entry("monotonic",
          "p_j sum_k<=j alpha_{t-1,k} prod_k<=l<j (1 - p_l), p = sigmoid(e + r)",
          "from where attention was, key after key is passed or attended to; it never goes back",
          "Raffel et al. 2017, eq. 9 to 11",
          ".model.monotonic:Monotonic",
          options(
              bias=option(
                  float, -1.0, "r at first; below 0, so that attention gets far enough to learn"),
              noise=option(
                  float, 1.0, "standard deviation of what is added to e + r in training", 0)),
          makes_weights=True),
    Entry("gaussian",
          "e_j = ln sum_k a_k exp(-b_k (kappa_k - j)^2), kappa_t = kappa_{t-1} + c; "
          "a, b, c = exp(W s + d)",
          "a mixture of Gaussians whose means only advance; what keys contain has no influence",
          "Graves 2013, eq. 46 to 51, normalised",
          ".model.monotonic:Gaussian",
          options(components=option(int, 5, "K, Gaussians of the mixture", 1, 1024))),
    Entry("dynamic_convolution",
          "e_j = v.tanh(U (F * alpha_{t-1}) + T (G(s) * alpha_{t-1}) + b) + ln (P * alpha_{t-1})",
          "filters of the previous weights, learned, made from the query, and P, which moves "
          "forwards",
          "Battenberg et al. 2020, section 3.2",
          ".model.monotonic:DynamicConvolution",
          options(
              filters=option(
                  int, 8, "filters that are learned, and as many that are made", 1, 1024),
              kernel=option(
                  int, 21, "kernel size of the filters, positions; odd", 1, 1001, check=_odd))),
])

# ---- encoders and decoders ----

ARCHITECTURES = Registry("architecture", entries=[
    Entry("gru", "recurrent encoder, recurrent decoder with attention",
          "the Reverser; model.cell says which cell, a GRU by default", "Cho et al. 2014"),
    Entry("transformer",
          "softmax(Q K^T / sqrt(d_k)) V, as self-attention and from decoder to encoder",
          "Transformer encoder and decoder", "Vaswani et al. 2017"),
])

CELLS = Registry("cell", group="seq2attn.cells", entries=[
    Entry("gru",
          "r, z = sigmoid(W x + U h + b); n = tanh(W_n x + b_n + r * (U_n h + c_n)); "
          "h' = (1-z) * n + z * h",
          "gated recurrent unit: reset gate r, update gate z",
          "Cho et al. 2014, with r applied after U_n as in PyTorch",
          ".model.cells:GRU"),
    Entry("lstm",
          "i, f, o = sigmoid(W x + U h + b); g = tanh(W_g x + U_g h + b_g); c' = f * c + i * g; "
          "h' = o * tanh(c')",
          "long short-term memory: input, forget and output gates i, f, o",
          "Hochreiter & Schmidhuber 1997; forget gate: Gers et al. 2000",
          ".model.cells:LSTM"),
    Entry("rnn", "h' = tanh(W x + U h + b)",
          "a simple recurrent network, without gates", "Elman 1990",
          ".model.cells:RNN"),
])

_FEEDING = options(input_feeding=option(
    bool, False, "the cell also reads the previous attentional vector, a_{t-1}"))
DECODERS = Registry("decoder", group="seq2attn.decoders", entries=[
    Entry("bahdanau",
          "c_t from s_{t-1}; s_t = cell([emb(y_{t-1}); c_t], s_{t-1}); logits = W_o [s_t; c_t] + b",
          "attend, then step", "Bahdanau et al. 2015",
          ".model.decoder:BahdanauDecoder"),
    Entry("luong",
          "s_t = cell(emb(y_{t-1}), s_{t-1}); c_t from s_t; a_t = tanh(W_c [c_t; s_t]); "
          "logits = W_o a_t + b",
          "step, then attend", "Luong et al. 2015, eq. 5 and 6, section 3.3",
          ".model.decoder:LuongDecoder", _FEEDING),
    Entry("pointer",
          "P(v) = g softmax(logits)_v + (1-g) sum_{j: x_j = v} alpha_tj; "
          "g = sigmoid(w [c_t; s_t; emb(y_{t-1})] + b)",
          "luong that may copy a symbol of the source, also one that it never saw",
          "See et al. 2017, eq. 8 and 9",
          ".model.pointer:PointerDecoder", _FEEDING, needs_attention=True),
    Entry("hard_monotonic",
          "P(v) = sum_j p_t(j) e_t(j, v); p_t(j) = sum_{i<=j} P(a_{t-1} = i | y_<t) alpha_tj / "
          "(alpha_ti + ... + alpha_tS)",
          "each symbol is written at one position, which never moves back; the loss counts all "
          "alignments",
          "Wu & Cotterell 2019; order 0: Wu, Shapiro & Cotterell 2018",
          ".model.hard_monotonic:HardMonotonicDecoder",
          options(order=option(
              int, 1, "1: a position depends on the one before and never moves back; 0: on neither",
              0, 1)),
          needs_attention=True),
])

_STATES = "seq2attn.initial_states"
INITIAL_STATES = Registry("initial state", default="bridge", group=_STATES, entries=[
    Entry("zeros", "s_0 = 0",
          "the decoder starts from a zero state", "", ".model.encoder:Zeros"),
    Entry("last", "s_0 = h_S",
          "the encoder's final state; of a bidirectional encoder, the backward one", "",
          ".model.encoder:Last"),
    Entry("bridge", "s_0 = tanh(W h + b)",
          "h: the encoder's final state, or of a bidirectional encoder the backward state at "
          "position 1",
          "Bahdanau et al. 2015, appendix A.2.2",
          ".model.encoder:Bridge"),
])

# ---- evaluation and training ----

RANDOM = "random"
FAMILIES = Registry("family", entries=[
    Entry(RANDOM, "i.i.d. uniform characters", "vkqbd"),
    Entry("unary", "one character repeated", "aaaaa"),
    Entry("periodic", "a random word of 2 to 8 characters repeated", "abcab"),
    Entry("two_letter", "i.i.d. characters of two", "abbab"),
    Entry("palindrome", "the second half mirrors the first", "abcba"),
    Entry("sorted", "random characters in the alphabet's order", "abbdz"),
    Entry("runs", "runs of 1 to 10 equal characters", "aaabb"),
])
"""kinds of strings that models are measured on, each with an example"""

SCHEDULES = Registry("schedule", entries=[
    Entry("cosine", "lr/2 * (1 + cos(pi * progress))", "from the learning rate down to 0"),
    Entry("linear", "lr * (1 - progress)", "from the learning rate down to 0"),
    Entry("constant", "lr", "the learning rate does not change"),
])
# fmt: on

EXTENSIBLE = (SCORES, TASKS, NORMALISERS, WINDOWS, HISTORIES, DECODERS, CELLS, INITIAL_STATES)
"""the kinds that plug-ins and installed packages can add to"""
