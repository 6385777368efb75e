"""Anything at all as config, override, command line or status: an answer or a refusal, never a traceback, never a hang."""

import contextlib
import io
import os
import signal
import sys

import pytest

pytest.importorskip("hypothesis")

from grammar import KEYS, VALUES, WORDS
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from seq2attn.cli import main
from seq2attn.config import check_config, dump_config, load_config
from seq2attn.errors import Seq2AttnError

LONGEST = 20  # seconds that one input may take

keys = st.sampled_from(KEYS) | st.text(max_size=8)
scalars = st.sampled_from(VALUES) | st.text(max_size=12)
plain = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12)
trees = st.recursive(
    plain, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4), max_leaves=12
)
lines = st.builds(lambda depth, key, value: f"{'  ' * depth}{key}: {value}", st.integers(0, 3), keys, scalars)
documents = st.lists(lines, max_size=8).map("\n".join) | st.text(max_size=60)
overrides = st.builds(lambda path, value: f"{'.'.join(path)}={value}", st.lists(keys, min_size=1, max_size=3), scalars)


@contextlib.contextmanager
def no_hang():
    """An input that takes longer than `LONGEST` fails."""

    def ring(number, frame):
        raise AssertionError(f"no answer after {LONGEST} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(LONGEST)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def many(count):
    quick = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large]
    return settings(
        max_examples=count, deadline=None, database=None, suppress_health_check=quick, phases=[Phase.generate]
    )


def fuzz(count, strategies, check):
    many(count)(given(*strategies)(check))()


def read_config(path, text, extra):
    """A config is read whole and comes back from its own dump, or it is refused in words."""
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    with no_hang():
        try:
            config = load_config(path, extra)
        except Seq2AttnError:
            return
    path.write_text(dump_config(config))
    assert load_config(path) == config


def check_values(values, extra):
    with no_hang(), contextlib.suppress(Seq2AttnError):
        check_config(values, extra)


@pytest.mark.parametrize("count", [100, pytest.param(10_000, marks=pytest.mark.slow)])
def test_any_text_as_a_config(tmp_path, record_figure, count):
    path = tmp_path / "any.yaml"
    fuzz(count, (documents, st.lists(overrides, max_size=2)), lambda text, extra: read_config(path, text, extra))
    record_figure(config_texts=count)


@pytest.mark.parametrize("count", [100, pytest.param(10_000, marks=pytest.mark.slow)])
def test_any_values_as_a_config(record_figure, count):
    mappings = st.dictionaries(keys, trees, max_size=5)
    fuzz(count, (mappings, st.lists(overrides, max_size=2)), check_values)
    record_figure(config_values=count)


@pytest.mark.parametrize("count", [100, pytest.param(5_000, marks=pytest.mark.slow)])
def test_any_bytes_as_a_config(tmp_path, record_figure, count):
    def check(data):
        (tmp_path / "any.yaml").write_bytes(data)
        with no_hang(), contextlib.suppress(Seq2AttnError):
            load_config(tmp_path / "any.yaml")

    fuzz(count, (st.binary(max_size=200),), check)
    record_figure(config_files_of_bytes=count)


@pytest.fixture
def playground(run_copy, work, monkeypatch):
    """A directory in which every command finds something to do, and nothing takes long."""
    (work / "tiny.yaml").write_text(run_copy.config_file.read_text().replace("steps: 24", "steps: 1"))
    (work / "bad.yaml").write_text("seed: x\n")
    (work / "bad.py").write_text("1 / 0\n")
    (work / "score.py").write_text("import seq2attn\n")
    monkeypatch.chdir(work)
    for name in ("SEQ2ATTN_RUNS", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    return work


def call(words):
    """The command line in this process -> its exit status and what it said; anything else that comes out is a failure."""
    out, err = io.StringIO(), io.StringIO()
    argv, stdin = sys.argv, sys.stdin
    sys.argv, sys.stdin = ["seq2attn", *words], io.StringIO("ab\ncab\n")
    try:
        with no_hang(), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main()
        status = 0
    except SystemExit as stop:
        status = stop.code or 0
    finally:
        sys.argv, sys.stdin = argv, stdin
    return status, out.getvalue() + err.getvalue()


def check_command(words):
    status, said = call(words)
    assert status in (0, 1, 2), (words, status)
    assert "Traceback" not in said, words


@pytest.mark.parametrize("count", [20, pytest.param(10_000, marks=pytest.mark.slow)])
def test_any_command_line(playground, own_scores, record_figure, count):
    words = st.sampled_from(WORDS) | st.text(
        st.characters(exclude_categories=["Nd"], exclude_characters="\0"), max_size=6
    )
    fuzz(
        count,
        (st.builds(lambda a, b: [a, *b], st.sampled_from(WORDS[:10]), st.lists(words, max_size=5)),),
        check_command,
    )
    outside = {path.name for path in playground.iterdir()} - {"runs", "other"}
    assert {name for name in outside if name.endswith((".py", ".yaml"))} == {
        "tiny.yaml",
        "bad.yaml",
        "bad.py",
        "score.py",
    }
    assert not os.path.exists(playground.parent / "tiny")
    record_figure(command_lines=count)
