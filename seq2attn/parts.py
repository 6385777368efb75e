"""Everything a config can name: name, formula, summary and source of each part, then its class and options.

Nothing here imports torch: `seq2attn list` and checking a config are instant. CONTRIBUTING.md says how to add a part.

Symbols: s is the query (decoder state), h a key (encoder state), D their width, S the source length, n the length of a
string, t an output position counted from 0, x a cell's input.
"""

from __future__ import annotations

from collections import Counter

from seq2attn.errors import character_name
from seq2attn.registry import Entry, Option, Registry

DIGITS = "0123456789"
LONGEST = 100_000  # positions of a string
WIDEST = 65_536  # of any layer
MOST_COLUMNS = 1000  # of a file of pairs


# ---- what is wrong with the value of an option ----


def _check_alphabet(alphabet: str) -> str | None:
    if not alphabet:
        return "must not be empty"
    if len(alphabet) > 10_000:
        return f"must have at most 10,000 characters, found {len(alphabet):,}"
    repeated = sorted(character for character, count in Counter(alphabet).items() if count > 1)
    if repeated:
        return f"repeats {', '.join(map(character_name, repeated))}"
    line_ends = [character for character in alphabet if len(f"a{character}b".splitlines()) > 1]
    return f"contains a line end, {line_ends[0]!r}" if line_ends else None


def _check_above_0(value: float) -> str | None:
    return None if value > 0 else f"must be above 0, found {value}"


def _check_odd(size: int) -> str | None:
    return None if size % 2 else f"must be odd, so that it is symmetric; found {size}"


def _check_centre(centre: str) -> str | None:
    return None if centre in ("monotonic", "reversed") else f"must be monotonic or reversed, found {centre!r}"


def _check_column(column: int) -> str | None:
    return None if 1 <= column <= MOST_COLUMNS else f"columns are counted from 1 to {MOST_COLUMNS:,}; found {column}"


def _check_separator(separator: str) -> str | None:
    if "\t" in separator or len(f"a{separator}b".splitlines()) > 1:
        return f"must not contain a tab or a line end, which separate columns and pairs; found {separator!r}"
    return None if len(separator) <= 10 else f"must have at most 10 characters, found {len(separator):,}"


def _check_normalise(form: str) -> str | None:
    return None if form in ("nfc", "nfd", "none") else f"must be nfc, nfd or none, found {form!r}"


def _check_file(path: str) -> str | None:
    return None if path and "\0" not in path else "expected the path of a file"


# ---- the parts ----

# A table, laid out by hand: what a part is, then where it is.
# fmt: off
_INITIAL_STD = {
    "initial_std": Option(float, None, "standard deviation of W's normal initialisation; null: the default of Linear",
                          check=_check_above_0),
}
_WIDTH = {"width": Option(int, None, "D_a, the width of the hidden layer; null: the query's width", 1, WIDEST)}
_LEARNED_STRENGTH = {"learned_strength": Option(bool, True, "multiply by exp(b), b learned; false: the bare cosine")}
_KEY_VALUE = {
    "key_size": Option(int, None, "d_k, the width of projected queries and keys; null: the query's width", 1, WIDEST),
    "value_size": Option(int, None, "d_v, the width of the values; null: the key's width", 1, WIDEST),
}
_STRINGS = {
    "alphabet": Option(str, "abcdefghijklmnopqrstuvwxyz", "distinct characters, in the order of their ids",
                       check=_check_alphabet),
    "min_length": Option(int, 1, "shortest training string, characters", 1, LONGEST),
    "max_length": Option(int, 12, "longest training string, characters; lengths are uniform in between", 1, LONGEST),
}
_RECOPY = {
    "reverse": Option(bool, False, "write the target from its end"),
    "min_length": Option(int, 5, "shortest training string, digits", 1, LONGEST),
    "max_length": Option(int, 10, "longest training string, digits", 1, LONGEST),
}
_DEDUPE = {
    "min_length": Option(int, 5, "shortest training string, digits", 1, LONGEST),
    "max_length": Option(int, 30, "longest training string, digits; runs of 1, 3 or 5 equal ones", 1, LONGEST),
}
_ADDITION = {
    "min_digits": Option(int, 5, "fewest digits of each number in training", 1, LONGEST // 2 - 1),
    "max_digits": Option(int, 10, "most digits of each number in training", 1, LONGEST // 2 - 1),
}
_DATES = {
    "first_year": Option(int, 1900, "first year of the dates", 1000, 9999),
    "last_year": Option(int, 2099, "last year of the dates", 1000, 9999),
    "held_out": Option(float, 0.1, "share of the dates that training never draws and `eval` measures", 0.001, 0.9),
    "min_length": Option(int, 8, "shortest training string, characters", 8, 36),
    "max_length": Option(int, 36, "longest training string, characters; uniform over dates and 12 styles", 8, 36),
}
_FILES = {
    "train": Option(str, None, "the training pairs, a tab-separated UTF-8 file", check=_check_file, is_file=True),
    "dev": Option(str, None, "the pairs that training is measured on", check=_check_file, is_file=True),
    "test": Option(str, None, "pairs kept for `eval --split test`; training never opens them",
                   check=_check_file, is_file=True),
    "source_column": Option(int, 1, "the source's column, from 1", check=_check_column),
    "target_column": Option(int, 2, "the right answer's column, from 1", check=_check_column),
    "features_column": Option(int, None, "a column of features with ';' between them; null: there is none",
                              check=_check_column),
    "columns": Option(int, None, "columns of each line; null: as many as the last one named", check=_check_column),
    "source_separator": Option(str, "", "between the source's symbols; empty: each character is a symbol",
                               check=_check_separator),
    "target_separator": Option(str, "", "between the target's symbols, such as ' ' between phonemes",
                               check=_check_separator),
    "split_targets": Option(bool, False, "write each target symbol character by character, kʰ as k and ʰ"),
    "normalise": Option(str, "nfc", "Unicode's normal form of files and predictions: nfc (composed), nfd (decomposed), none",
                        check=_check_normalise),
}
_RADIUS = {"radius": Option(int, 2, "R, positions that the window reaches to each side of its centre", 1, LONGEST)}
_CENTRE = {
    "centre": Option(str, "monotonic", "monotonic: p_t = t; reversed: p_t = n-1-t, the correct position for reversal",
                     check=_check_centre),
}
_CONVOLUTION = {
    "filters": Option(int, 8, "convolution filters", 1, 1024),
    "kernel": Option(int, 5, "kernel size of the convolution, positions; odd", 1, 1001, _check_odd),
}
_SHIFT = {
    "reach": Option(int, 2, "longest distance moved in a step, positions", 1, 500),
    "rereading": Option(bool, True, "the context ends with how often what is read now was read before"),
}
_INPUT_FEEDING = {"input_feeding": Option(bool, False, "the cell also reads the previous attentional vector, a_{t-1}")}

SCORES = Registry("score", takes="query_width, key_width", group="seq2attn.scores", entries=[
    Entry("dot", "s.h", "dot product", "Luong et al. 2015, eq. 8",
          implementation="seq2attn.model.scores.dot:Dot", parameters="0", equal_widths=True),
    Entry("scaled", "s.h / sqrt(D)", "dot product with variance 1 at any width", "Vaswani et al. 2017, eq. 1",
          synonyms=("scaled_dot",), implementation="seq2attn.model.scores.scaled:Scaled", parameters="0",
          equal_widths=True),
    Entry("general", "s W h", "dot product after a learned linear map", "Luong et al. 2015, eq. 8",
          synonyms=("bilinear", "multiplicative"), implementation="seq2attn.model.scores.general:General",
          parameters="D_s*D_h", options=_INITIAL_STD),
    Entry("scaled_general", "s W h / sqrt(D)", "general, scaled",
          "Luong et al. 2015 with the factor of Vaswani et al. 2017",
          synonyms=("scaled_bilinear",), implementation="seq2attn.model.scores.scaled_general:ScaledGeneral",
          parameters="D_s*D_h", options=_INITIAL_STD),
    Entry("additive", "v.tanh(W [s;h])", "a one-layer perceptron",
          "Bahdanau et al. 2015, appendix A.1.2; 'concat' in Luong et al. 2015",
          synonyms=("concat", "bahdanau"), implementation="seq2attn.model.scores.additive:Additive",
          parameters="D_a*(D_s+D_h) + D_a", options=_WIDTH),
    Entry("cosine", "s.h / (|s| |h|) * exp(b)", "cosine of the angle, with a learned scale",
          "after Graves et al. 2014, eq. 5 and 6",
          implementation="seq2attn.model.scores.cosine:Cosine", parameters="1", equal_widths=True,
          options=_LEARNED_STRENGTH),
    Entry("key_value", "(W_q s).(W_k h) / sqrt(d_k), values W_v h", "separate projections for queries, keys and values",
          "Vaswani et al. 2017, section 3.2.2, one head",
          implementation="seq2attn.model.scores.key_value:KeyValue", parameters="d_k*(D_s+D_h) + d_v*D_h",
          options=_KEY_VALUE),
    Entry("none", "(no attention)",
          "the fixed-vector bottleneck: the decoder sees the source only through its initial state",
          "Sutskever et al. 2014",
          parameters="0"),
])

TASKS = Registry("task", group="seq2attn.tasks", entries=[
    Entry("reverse", "target[t] = source[n-1-t]", "hello -> olleh",
          implementation="seq2attn.data.tasks.reverse:Reverse", options=_STRINGS),
    Entry("copy", "target[t] = source[t]", "hello -> hello",
          implementation="seq2attn.data.tasks.copy:Copy", options=_STRINGS),
    Entry("sort", "target[t] = source[argsort(source)[t]], stable", "hello -> ehllo",
          implementation="seq2attn.data.tasks.sort:Sort", options=_STRINGS),
    Entry("duplicate", "target[t] = source[t mod n], t < 2n", "hello -> hellohello",
          implementation="seq2attn.data.tasks.duplicate:Duplicate", options=_STRINGS),
    Entry("recopy", "target = each digit d, 1 (d < 4), 3 (d < 7) or 5 times", "241 -> 24441; reverse: 241 -> 14442",
          "Ray Chowdhury & Caragea 2023",
          implementation="seq2attn.data.tasks.recopy:ReCopy", options=_RECOPY),
    Entry("dedupe", "target = each run of equal digits once", "7772 -> 72", "Ray Chowdhury & Caragea 2023",
          implementation="seq2attn.data.tasks.dedupe:DeDupe", options=_DEDUPE),
    Entry("addition", "target = the sum, last digit first", "21+93 -> 15 (12 + 39 = 51)",
          implementation="seq2attn.data.tasks.addition:Addition", options=_ADDITION),
    Entry("dates", "target = the date in ISO 8601", "May 3, 1998 -> 1998-05-03",
          implementation="seq2attn.data.tasks.dates:Dates", options=_DATES),
    Entry("pairs", "target = the second string of each pair", "your own pairs of strings, from tab-separated files",
          implementation="seq2attn.data.tasks.pairs:Pairs", options=_FILES),
])

WINDOWS = Registry("window", takes="query_width, source_eos", group="seq2attn.windows", entries=[
    Entry("global", "every key", "no window", "Bahdanau et al. 2015"),
    Entry("local_m", "|j - p_t| <= R, p_t = t or n-1-t",
          "a window that moves one key per step, forwards (centre: monotonic) or backwards (centre: reversed)",
          "Luong et al. 2015, section 3.2",
          implementation="seq2attn.model.windows:LocalM", options=_RADIUS | _CENTRE),
    Entry("local_p", "|j - p_t| <= R, p_t = (S-1) sigmoid(v_p.tanh(W_p s)); weights * exp(-2 (j - p_t)^2 / R^2)",
          "a window around a learned centre", "Luong et al. 2015, eq. 9 and 10",
          implementation="seq2attn.model.windows:LocalP", options=_RADIUS),
])

HISTORIES = Registry("history", takes="feature_width", group="seq2attn.histories", entries=[
    Entry("none", "(nothing)", "scores do not depend on past weights"),
    Entry("location", "U (F * alpha_{t-1})", "convolutional features of the previous weights",
          "Chorowski et al. 2015, eq. 8 and 9",
          implementation="seq2attn.model.histories:Location", options=_CONVOLUTION),
    Entry("coverage", "w C_t, C_t = alpha_1 + ... + alpha_{t-1}", "the sum of all past weights",
          "See et al. 2017, eq. 10 and 11",
          implementation="seq2attn.model.histories:Coverage"),
    Entry("location_coverage", "U (F * [alpha_{t-1}; C_t])", "convolutional features of both",
          "after Shen et al. 2018, section 2.2",
          implementation="seq2attn.model.histories:LocationCoverage", options=_CONVOLUTION),
    Entry("shift", "moved^g / sum moved^g, moved_j = sum_d p_d alpha_{t-1, (j-d) mod n}; contexts end with alpha_t.C_t",
          "the previous weights, moved around the source by a learned distance; content decides only where to begin",
          "after Graves et al. 2014, eq. 8 and 9",
          implementation="seq2attn.model.histories:Shift",
          options=_SHIFT),
])

ARCHITECTURES = Registry("architecture", entries=[
    Entry("gru", "recurrent encoder, recurrent decoder with attention",
          "the Reverser; model.cell says which cell, a GRU by default", "Cho et al. 2014"),
    Entry("transformer", "softmax(Q K^T / sqrt(d_k)) V, as self-attention and from decoder to encoder",
          "Transformer encoder and decoder", "Vaswani et al. 2017"),
])

CELLS = Registry("cell", takes="input_width, width", group="seq2attn.cells", entries=[
    Entry("gru", "r, z = sigmoid(W x + U h + b); n = tanh(W_n x + b_n + r * (U_n h + c_n)); h' = (1-z) * n + z * h",
          "gated recurrent unit: reset gate r, update gate z",
          "Cho et al. 2014, with r applied after U_n as in PyTorch",
          implementation="seq2attn.model.cells:GRU"),
    Entry("lstm",
          "i, f, o = sigmoid(W x + U h + b); g = tanh(W_g x + U_g h + b_g); c' = f * c + i * g; h' = o * tanh(c')",
          "long short-term memory: input, forget and output gates i, f, o",
          "Hochreiter & Schmidhuber 1997; forget gate: Gers et al. 2000",
          implementation="seq2attn.model.cells:LSTM"),
    Entry("rnn", "h' = tanh(W x + U h + b)", "a simple recurrent network, without gates", "Elman 1990",
          implementation="seq2attn.model.cells:RNN"),
])

DECODERS = Registry("decoder", takes="vocabulary_size, embedding, attention, cells",
                    group="seq2attn.decoders", entries=[
    Entry("bahdanau", "c_t from s_{t-1}; s_t = cell([emb(y_{t-1}); c_t], s_{t-1}); logits = W_o [s_t; c_t] + b",
          "attend, then step", "Bahdanau et al. 2015",
          implementation="seq2attn.model.bahdanau:BahdanauDecoder"),
    Entry("luong", "s_t = cell(emb(y_{t-1}), s_{t-1}); c_t from s_t; a_t = tanh(W_c [c_t; s_t]); logits = W_o a_t + b",
          "step, then attend", "Luong et al. 2015, eq. 5 and 6, section 3.3",
          implementation="seq2attn.model.luong:LuongDecoder", options=_INPUT_FEEDING),
])

INITIAL_STATES = Registry("initial state", takes="encoder, cell", group="seq2attn.initial_states", entries=[
    Entry("zeros", "s_0 = 0", "the decoder starts from a zero state",
          implementation="seq2attn.model.initial_state:Zeros"),
    Entry("last", "s_0 = h_S", "the encoder's final state; widths must be equal",
          implementation="seq2attn.model.initial_state:Last"),
    Entry("bridge", "s_0 = tanh(W h + b)",
          "h: the encoder's final state, or of a bidirectional encoder the backward state at position 1",
          "Bahdanau et al. 2015, appendix A.2.2",
          implementation="seq2attn.model.initial_state:Bridge"),
])

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

EXTENSIBLE = (SCORES, TASKS, WINDOWS, HISTORIES, DECODERS, CELLS, INITIAL_STATES)
"""the kinds that plug-ins and installed packages can add to"""
