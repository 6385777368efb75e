"""The recurrence in C against the formulas of `seq2attn/model/`, and how the library comes to be there."""

import ctypes
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from models import ARRANGEMENTS, HISTORIES
from torch import nn

from seq2attn import kernels
from seq2attn.errors import Seq2AttnError
from seq2attn.kernels import describe_kernels, library, recurrence, why_slow
from seq2attn.kernels.binding import Kernels
from seq2attn.model.attention import Attention, Memory
from seq2attn.model.cells import GRU, Cells
from seq2attn.model.resets import Reset
from seq2attn.model.scores.additive import Additive
from seq2attn.model.scores.cosine import Cosine
from seq2attn.model.scores.dot import Dot
from seq2attn.model.scores.general import General
from seq2attn.model.scores.multiplicative import MultiplicativeScore
from seq2attn.runs.environment import describe_environment

CPU = torch.device("cpu")
ROOT = Path(__file__).parent.parent
needs_the_library = pytest.mark.skipif(not library.LIBRARY.is_file(), reason="the recurrences were not compiled")


def assert_close(compiled, expected, tolerance):
    """Each tensor within `tolerance` of the expected one, relative to its largest number."""
    assert len(compiled) == len(expected)
    for number, (one, other) in enumerate(zip(compiled, expected, strict=True)):
        assert one.shape == other.shape
        assert (one - other).abs().max() <= tolerance * max(1, other.abs().max()), number


SHAPES = st.fixed_dictionaries(
    {
        "width": st.integers(1, 70),
        "embedding": st.integers(1, 20),
        "vocabulary": st.integers(1, 40),
        "lengths": st.lists(st.integers(1, 6), min_size=1, max_size=20).map(lambda found: sorted(found, reverse=True)),
        "dtype": st.sampled_from([torch.float32, torch.float64]),
        "zeros": st.booleans(),
    }
)
LONG = {"width": 3, "embedding": 2, "vocabulary": 4, "lengths": [300, 280, 7], "dtype": torch.float64, "zeros": True}
TOLERANCE = {torch.float32: 2e-5, torch.float64: 1e-12}


class Drawn:
    """Random numbers of one dtype, the same each time."""

    def __init__(self, dtype):
        self.random = torch.Generator().manual_seed(0)
        self.dtype = dtype

    def __call__(self, *shape, scale=1.0):
        drawn = scale * torch.randn(shape, generator=self.random, dtype=torch.float64)
        return drawn.to(self.dtype).requires_grad_()

    def tokens(self, vocabulary, *shape):
        return torch.randint(vocabulary, shape, generator=self.random)


def gru(draw, width, embedding, vocabulary, read, rows, zeros):
    """An embedding and a cell with drawn weights, and a first state."""
    table, cell = nn.Embedding(vocabulary, embedding), GRU(embedding + read, width)
    for module, scale in ((table, 1.0), (cell, width**-0.5)):
        module.to(draw.dtype)
        for parameter in module.parameters():
            parameter.data = draw(*parameter.shape, scale=scale).detach()
    state = draw(rows, width) if not zeros else torch.zeros(rows, width, dtype=draw.dtype, requires_grad=True)
    return table, cell, state


class Reader(nn.Module):
    """What an encoder and a decoder have in common."""

    kernel = "reader"

    def __init__(self, embedding):
        super().__init__()
        self.embedding, self.dropout = embedding, nn.Dropout(0.0)


def decoder_of(
    shape, arrangement, kind, history, *, hidden=5, value_width=4, keys=3, masked=False, scaled=False, reset=False
):
    """What computes a decoder with drawn weights, `compiled` or by the formulas: its real logits and weights, and their
    gradients along drawn numbers.
    """
    lengths, dtype, width = torch.tensor(shape["lengths"]), shape["dtype"], shape["width"]
    rows, steps, draw = len(lengths), max(shape["lengths"]), Drawn(dtype)
    score = General(width, value_width) if kind == "product" else Additive(width, value_width, width=hidden)
    make_history = HISTORIES[history]
    attention = Attention(score, history=make_history and make_history(score.feature_width))
    cells = Cells(lambda read: GRU(read, width), width)
    decoder = ARRANGEMENTS[arrangement](shape["vocabulary"], shape["embedding"], attention, cells).to(dtype)
    for parameter in decoder.parameters():
        parameter.data = draw(
            *parameter.shape, scale=parameter.size(-1) ** -0.5 if parameter.dim() > 1 else 0.2
        ).detach()
    projected = draw(rows, keys, width if kind == "product" else hidden, scale=0.5)
    values, first = draw(rows, keys, value_width), draw(rows, width, scale=0.0 if shape["zeros"] else 1.0)
    valid = (torch.arange(keys) < 1 + draw.tokens(keys, rows, 1)).unsqueeze(1)  # (B, 1, S), the first always
    scale = draw(rows, 1, 1).detach() if scaled else None
    memory = Memory(projected, values, source=None, valid=valid if masked else None, scale=scale)
    drawn = Reset(draw(rows, steps) > -0.5, draw(rows, steps, width).detach()) if reset else None
    tokens, state = draw.tokens(shape["vocabulary"], rows, steps), decoder.begin((first,), memory)
    wanted = draw(rows, steps, shape["vocabulary"]), draw(rows, steps, keys)
    real = (torch.arange(steps) < lengths.unsqueeze(1)).unsqueeze(2)  # (B, L, 1)
    inputs = [*decoder.parameters(), first, projected, values]

    def numbers(compiled):
        if compiled:
            logits, attended = decoder._compiled(tokens, lengths, state, memory, drawn)
        else:
            logits, attended = decoder.forward_by_steps(tokens, state, memory, drawn)
        loss = (logits * real * wanted[0]).sum() + (attended * real * wanted[1]).sum()
        gradients = torch.autograd.grad(loss, inputs, allow_unused=True, materialize_grads=True)
        return [(logits * real).detach(), (attended * real).detach(), *gradients]

    return numbers


@needs_the_library
@settings(max_examples=60, deadline=None)
@given(shape=SHAPES)
@example(shape=LONG)
def test_a_gru_of_any_shape(shape):
    lengths, dtype, steps = torch.tensor(shape["lengths"]), shape["dtype"], max(shape["lengths"]) + 1
    draw = Drawn(dtype)
    embedding, cell, state = gru(
        draw, shape["width"], shape["embedding"], shape["vocabulary"], 0, len(lengths), shape["zeros"]
    )
    tokens = draw.tokens(shape["vocabulary"], len(lengths), steps)
    wanted = draw(len(lengths), steps, shape["width"]), draw(len(lengths), shape["width"])
    real = (torch.arange(steps) < lengths.unsqueeze(1)).unsqueeze(2)
    inputs = [*embedding.parameters(), *cell.parameters(), state]

    def numbers(states, last):
        loss = (states * real * wanted[0]).sum() + (last * wanted[1]).sum()
        return [(states * real).detach(), last.detach(), *torch.autograd.grad(loss, inputs)]

    expected, final = cell(embedding(tokens), (state,), lengths)
    compiled = recurrence(Reader(embedding), tokens, lengths, cell, (state,))
    assert_close(numbers(*compiled), numbers(expected, *final), TOLERANCE[dtype])


@needs_the_library
@settings(max_examples=200, deadline=None)
@given(
    shape=SHAPES,
    arrangement=st.sampled_from(sorted(ARRANGEMENTS)),
    kind=st.sampled_from(["product", "additive"]),
    history=st.sampled_from(sorted(HISTORIES)),
    hidden=st.integers(1, 50),
    value_width=st.integers(1, 60),
    keys=st.integers(1, 12),
    masked=st.booleans(),
    scaled=st.booleans(),
    reset=st.booleans(),
)
def test_a_decoder_of_any_shape(shape, arrangement, kind, history, **sizes):
    numbers = decoder_of(shape, arrangement, kind, history, **sizes)
    assert_close(numbers(compiled=True), numbers(compiled=False), TOLERANCE[shape["dtype"]])


@needs_the_library
@pytest.mark.parametrize("kind", ["product", "additive"])
@pytest.mark.parametrize("history", HISTORIES)
def test_a_decoder_of_hundreds_of_positions(history, kind):
    numbers = decoder_of(LONG, "bahdanau", kind, history, hidden=6, keys=5, masked=True)
    assert_close(numbers(compiled=True), numbers(compiled=False), TOLERANCE[torch.float64])


def one_state(weight_hh, first=0.0):
    """s_1 of a GRU of width 1 whose gates are set by `weight_hh` (r, z, n) and one bias of 1."""
    embedding, cell = nn.Embedding(1, 1), GRU(1, 1)
    for name, value in {
        "weight_ih": [0, 0, 0],
        "weight_hh": weight_hh,
        "bias_ih": [1, 1, 1],
        "bias_hh": [0, 0, 0],
    }.items():
        parameter = getattr(cell, name)
        parameter.data = torch.tensor(value, dtype=torch.float32).view(parameter.shape)
    tokens = torch.zeros(1, 1, dtype=torch.long)
    return recurrence(Reader(embedding), tokens, None, cell, (torch.tensor([[first]]),))[1].item()


@needs_the_library
@pytest.mark.parametrize("weight", [-1e30, -1e4, -100.0, -20.0, -1e-3, 0.0, 0.7, 12.0, 100.0, 1e4, 1e30])
def test_gates_between_closed_and_open(weight):
    def sigma(x):
        return 0.0 if x < -700 else 1 / (1 + math.exp(-x))

    reset = update = sigma(weight + 1)
    expected = (1 - update) * math.tanh(1 + reset * weight) + update
    assert one_state([weight, weight, weight], 1.0) == pytest.approx(expected, abs=3e-7)


@needs_the_library
@pytest.mark.parametrize("gate", [0, 1, 2])
def test_nan_stays_nan(gate):
    weights = [0.1, 0.1, 0.1]
    weights[gate] = math.nan
    assert math.isnan(one_state(weights, 1.0))


def tiny(keys, values, score, valid=None):
    """What `recurrence` makes of one token and these keys and values, from a state of ones."""
    rows, width = len(keys), score.query_width
    embedding, cell = nn.Embedding(1, 1), GRU(1 + values.size(-1), width)
    for parameter in cell.parameters():
        nn.init.zeros_(parameter)
    tokens = torch.zeros(rows, 1, dtype=torch.long)
    memory = Memory(keys, values, source=None, valid=valid)
    return recurrence(Reader(embedding), tokens, None, cell, (torch.ones(rows, width),), Attention(score), memory)


@needs_the_library
def test_weights_are_exact_where_scores_differ_by_hundreds():
    keys, values = torch.tensor([[[1e4], [9e3], [1e4]]]), torch.tensor([[[2.0], [7.0], [4.0]]])
    features, attended = tiny(keys, values, Dot(1, 1))
    assert attended.tolist() == [[[0.5, 0.0, 0.5]]]
    assert features[0, 0, 1] == 3.0


@needs_the_library
def test_the_same_call_gives_the_same_bits():
    draw = Drawn(torch.float32)
    embedding, cell, state = gru(draw, 33, 7, 5, 33, 9, zeros=False)
    tokens = draw.tokens(5, 9, 4)
    torch.manual_seed(0)
    score, values = Additive(33, 33), draw(9, 6, 33)
    keys = score.project(values).detach().requires_grad_()

    def compute():
        features, attended = recurrence(
            Reader(embedding),
            tokens,
            None,
            cell,
            (state,),
            Attention(score),
            Memory(keys, values, source=None, valid=None),
        )
        loss = features.sum() + attended.square().sum()
        return torch.autograd.grad(loss, [*cell.parameters(), state, keys, *score.parameters()], allow_unused=True)

    first, held = compute(), torch.empty(1001)
    again = compute()
    assert held.numel() == 1001  # allocated between the two, so that memory lies elsewhere
    for one, other in zip(first, again, strict=True):
        assert (one is None and other is None) or torch.equal(one, other)


# ---- which scores, and when ----


class OwnForward(MultiplicativeScore):
    def forward(self, query, keys):
        return 2 * super().forward(query, keys)


class Derived(Additive):
    def forward(self, query, keys, features=None):
        return -super().forward(query, keys, features)


class OwnProjection(General):
    def project(self, keys):
        return keys


@needs_the_library
@pytest.mark.parametrize(
    ("score", "known"),
    [
        (Dot, True),
        (General, True),
        (Additive, True),
        *((one, False) for one in (OwnProjection, OwnForward, Derived, Cosine)),
    ],
)
def test_scores_that_the_c_knows(score, known):
    assert (tiny(torch.zeros(2, 3, 4), torch.zeros(2, 3, 5), score(4, 4)) is not None) is known


@needs_the_library
@pytest.mark.parametrize(
    ("keys", "values", "valid"),
    [
        (torch.zeros(2, 3, 6), torch.zeros(2, 3, 5), None),
        (torch.zeros(2, 3, 4), torch.zeros(1, 3, 5), None),
        (torch.zeros(2, 3, 4), torch.zeros(2, 2, 5), None),
        (torch.zeros(2, 3, 4, 1), torch.zeros(2, 3, 5), None),
        (torch.zeros(2), torch.zeros(2, 3, 5), None),
        (torch.zeros(2, 3, 4).double(), torch.zeros(2, 3, 5), None),
        (torch.zeros(2, 3, 4), torch.zeros(2, 3, 5).double(), None),
        (torch.zeros(2, 3, 4), torch.zeros(2, 3, 5), torch.ones(2, 1, 2, dtype=torch.bool)),
    ],
)
@pytest.mark.parametrize("score", [Dot, Additive])
def test_keys_and_values_of_other_shapes_are_left_to_the_formulas(score, keys, values, valid):
    assert tiny(keys, values, score(4, 4), valid) is None


@needs_the_library
@pytest.mark.parametrize("token", [-1, 5, 2**40])
def test_tokens_beyond_the_vocabulary_are_refused(token):
    embedding, cell, state = gru(Drawn(torch.float32), 4, 3, 5, 0, 2, zeros=True)
    with pytest.raises(IndexError):
        recurrence(Reader(embedding), torch.tensor([[0, 1], [token, 0]]), torch.tensor([2, 1]), cell, (state,))


@needs_the_library
def test_when_the_c_is_used(monkeypatch):
    def is_used(width=96, dtype=torch.float32):
        embedding, cell = nn.Embedding(4, 3).to(dtype), GRU(3, width).to(dtype)
        tokens = torch.zeros(64, 2, dtype=torch.long)
        return recurrence(Reader(embedding), tokens, None, cell, cell.initial(64)) is not None

    assert is_used()
    assert is_used(dtype=torch.float64)
    assert not is_used(dtype=torch.float16)
    with torch.no_grad():
        assert not is_used()
    for threads, used in [(1, True), (2, False)]:
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        assert is_used(width=1024) is used  # 64 x 1,024 x 1,024 = 64 x 2^20
        assert is_used(width=512)  # 16 x 2^20
    monkeypatch.setenv(kernels.SWITCH, "off")
    assert not is_used()
    assert describe_kernels(CPU) == "SEQ2ATTN_KERNELS is off"
    assert why_slow(CPU) is None
    monkeypatch.setenv(kernels.SWITCH, "OFF")
    with pytest.raises(Seq2AttnError, match="SEQ2ATTN_KERNELS: unknown value 'OFF'; allowed: on, off"):
        is_used()


# ---- the library: how it is built, chosen and checked ----


def test_every_variant_that_this_processor_runs_computes_the_same(monkeypatch):
    best = library.load(torch.float32)
    if isinstance(best, str):
        pytest.skip(best)
    variants = ["baseline", "avx2", "avx512"]
    variants = variants[: variants.index(best.variant) + 1]
    opened = ctypes.CDLL(str(library.LIBRARY))
    shape = {
        "width": 33,
        "embedding": 7,
        "vocabulary": 5,
        "lengths": [4] * 6 + [2] * 3,
        "dtype": torch.float32,
        "zeros": False,
    }
    for arrangement, history in (("bahdanau", "none"), ("feeding", "location_coverage"), ("luong", "shift")):
        numbers = decoder_of(shape, arrangement, "additive", history, hidden=33, value_width=33, keys=6, reset=True)
        expected = numbers(compiled=False)
        for variant in variants:
            chosen = Kernels(opened, torch.float32, variant)
            monkeypatch.setattr(kernels, "load", lambda _, chosen=chosen: chosen)
            assert_close(numbers(compiled=True), expected, TOLERANCE[torch.float32])


@pytest.fixture
def copied_library(tmp_path, monkeypatch):
    """A copy of the C sources and of what was built, for damage."""
    for path in library.FOLDER.iterdir():
        if path.suffix in (".c", ".h", ".so"):
            shutil.copy(path, tmp_path)
    monkeypatch.setattr(library, "FOLDER", tmp_path)
    monkeypatch.setattr(library, "LIBRARY", tmp_path / "recurrence.so")
    monkeypatch.setattr(library, "WHY_NONE", tmp_path / "recurrence.txt")
    library._load.cache_clear()
    yield tmp_path
    library._load.cache_clear()


def assert_there_is_none_because(reason):
    assert isinstance(library.load(torch.float32), str)
    assert reason in describe_kernels(CPU)
    assert describe_environment(seed=1, device=CPU, threads=1, plugins=[])["kernels"] == describe_kernels(CPU)
    assert str(why_slow(CPU)).startswith(f"{describe_kernels(CPU)}; training takes longer than it would compiled. ")
    assert "pip install --force-reinstall --no-deps" in str(why_slow(CPU))
    assert why_slow(torch.device("cuda")) is None


@needs_the_library
def test_a_library_of_these_sources_is_loaded(copied_library):
    assert describe_kernels(CPU).startswith("compiled, ")
    assert why_slow(CPU) is None


@needs_the_library
def test_a_library_of_other_sources_is_refused(copied_library):
    with (copied_library / "gates.h").open("a") as file:
        file.write("/* changed after the installation */")
    assert_there_is_none_because("recurrence.so was compiled from other sources than those beside it")


@needs_the_library
def test_a_library_with_other_fields_is_refused(copied_library, monkeypatch):
    monkeypatch.setattr("seq2attn.kernels.binding._Recurrence", ctypes.c_int64 * 3)
    assert_there_is_none_because("cannot be loaded: its structure has ")


@needs_the_library
@pytest.mark.parametrize("content", [b"", b"not a library"])
def test_what_is_not_a_library_is_refused(copied_library, content):
    (copied_library / "recurrence.so").unlink()
    (copied_library / "recurrence.so").write_bytes(content)
    assert_there_is_none_because("the compiled recurrences cannot be loaded: ")


def test_the_reason_why_nothing_was_compiled_is_told(copied_library):
    (copied_library / "recurrence.so").unlink(missing_ok=True)
    assert_there_is_none_because("not compiled when seq2attn was installed: there is no recurrence.so")
    library._load.cache_clear()
    (copied_library / "recurrence.txt").write_text("there is no C compiler (cc)\n")
    assert_there_is_none_because("not compiled when seq2attn was installed: there is no C compiler (cc)")


def build(folder, compiler):
    """`setup.py build_ext` -> the folder of what it built, and its output."""
    words = [sys.executable, "setup.py", "build_ext", "--build-lib", str(folder / "lib")]
    environment = {**os.environ, "CC": compiler}
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder / "lib" / "seq2attn" / "kernels", done.stdout + done.stderr


@pytest.mark.parametrize(
    ("compiler", "why"),
    [
        ("/no/such/cc", "there is no C compiler (/no/such/cc)"),
        ("false", "the C compiler (false) failed: exit code 1"),
        ("/", "the C compiler (/) could not be run: "),
        ('cc "', 'CC is not a command: cc "'),
        (" ", "CC is not a command: "),
        ("true", "the C compiler (true) made no library"),
    ],
)
def test_an_installation_succeeds_without_a_compiler_and_says_why(compiler, why, tmp_path):
    built, output = build(tmp_path, compiler)
    assert (built / "recurrence.txt").read_text().startswith(why)
    assert not (built / "recurrence.so").exists()
    assert f"training will be slower: {why}" in output


OLD_COMPILER = """#!/bin/sh
case "$*" in *-mavx512f*) echo "error: unrecognized command-line option '-mavx512f'" >&2; exit 1;; esac
exec cc "$@"
"""


@pytest.mark.slow
@needs_the_library
@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_what_a_compiler_does_not_know_is_left_out(tmp_path):
    compiler = tmp_path / "old-cc"
    compiler.write_text(OLD_COMPILER)
    compiler.chmod(0o755)
    built, output = build(tmp_path, str(compiler))
    assert "slower" not in output
    opened = ctypes.CDLL(str(built / "recurrence.so"))
    assert hasattr(opened, "forward_float_baseline") and not hasattr(opened, "forward_float_avx512")
    opened.best_variant.restype = ctypes.c_char_p
    assert opened.best_variant() in (b"baseline", b"avx2")


def test_a_gpu_has_none():
    assert describe_kernels(torch.device("cuda")) == "none for cuda"


# ---- inference ----


def test_a_context_of_few_keys_is_the_product():
    weights, values = torch.zeros(3, 1, 600), torch.randn(3, 600, 5, generator=torch.Generator().manual_seed(0))
    weights[0, 0, 7], weights[2, 0, 598:] = 1.0, torch.tensor([0.25, 0.75])  # row 1 has none
    with torch.no_grad():
        found = kernels.sparse_context(weights, values)
        assert found is not None
        torch.testing.assert_close(found, weights @ values)
        assert kernels.sparse_context(torch.rand(3, 1, 600), values) is None  # too many
        assert kernels.sparse_context(weights[..., :100], values[:, :100]) is None  # too short
        assert kernels.sparse_context(weights.expand(3, 2, 600), values) is None  # several queries
        one_by_one = torch.vmap(lambda row, own: Attention._context(None, row.unsqueeze(0), own.unsqueeze(0)))
        torch.testing.assert_close(one_by_one(weights, values).squeeze(1), weights @ values)  # by the formula
    assert kernels.sparse_context(weights, values) is None  # a gradient may be wanted


@torch.no_grad()
def test_the_span_of_what_is_not_zero_and_a_margin():
    values = torch.zeros(2, 600)
    assert kernels.nonzero_span(values, margin=4) is None  # there is nothing
    values[0, 100], values[1, 110] = 0.5, -0.5
    assert kernels.nonzero_span(values, margin=4) == slice(96, 115)
    assert kernels.nonzero_span(values, margin=14) is None  # 39 columns of 600 are more than a sixteenth
    values[1, 2] = 1.0
    assert kernels.nonzero_span(values, margin=0) is None  # from 2 to 110
    assert kernels.nonzero_span(values[:, :20], margin=0) is None  # too short
    assert kernels.nonzero_span(values * (torch.arange(600) < 50), margin=4) is None  # 2 is nearer to the end than 4
