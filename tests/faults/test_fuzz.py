"""Anything at all as a config, a command line, or a field of a run's records: an answer or one
sentence.
"""

import contextlib
import json
import random
import shutil
import signal
from pathlib import Path
from unittest import mock

import pytest
from forks import TINY
from inline import Inline, call_main, write
from tables import rows, slow

pytest.importorskip("hypothesis")

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.internal.conjecture import providers

from seq2attn.config import check_config, dump_config, load_config
from seq2attn.config.schema import all_keys
from seq2attn.errors import Seq2AttnError
from seq2attn.runs.run import Run, evaluations, read_attention, read_metrics

LONGEST = 20  # seconds that one input may take


KEYS = [
    *sorted({key for path, _ in all_keys() for key in path.split(".")}),
    *"options hiden << a.b __class__ width".split(),
    "",
]
VALUES = ["\t", "9" * 400, "[3, 5]", "&a [1]", "!!str 1", "? a", "- a", "%YAML 1.1"]
VALUES += r"""
0 1 3 -1 1e3 3e-3 .inf .nan 1_000 0x10 true no null ~ '' abc aab reverse copy dot scaled
additive none general zeros last bridge cosine 1-12 [] {} [[]] *a !!python/name:os.system
2024-01-01 999999999999 [3-1] '\0' "\u0000" "\ud800" | > --- ... é
""".split()
COMMANDS = "train eval predict runs inspect list check trian --help --version".split()
WORDS = [*COMMANDS, ""]
WORDS += """
    --config -c --set -s --name --resume --device --threads --plugin --runs-dir --lengths
    --samples --seed --json --plot --checkpoint --run -r --limit -n -- - --help -h tiny
    tiny.yaml bad.yaml none.yaml ../tiny runs/tiny /etc . .. ab cab 3 0 -1 1-3 3,5 5-1 best
    last cpu cuda gpu auto dot scores tasks training.steps=1 seed=2 seed=x model.hidden=4 =
    a=b map.png map.gif no/map.png score.py bad.py --lengths=3 --threads=2 --json=1 -c=
    --no-json --runs-dir=other
""".split()

# ---- the same for all ----


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


def fuzz(count, strategies, check):
    quick = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large]
    few = {"max_examples": count, "suppress_health_check": quick, "phases": [Phase.generate]}
    chosen = settings(deadline=None, database=None, **few)
    # reading all modules, for constants to try, takes longer than a few examples
    unread = mock.patch(f"{providers.__name__}.is_local_module_file", return_value=False)
    with unread if count < 100 else contextlib.nullcontext():
        chosen(given(*strategies)(check))()


def call(words):
    """The command line in this process; no traceback or escape comes out."""
    with no_hang():
        done = call_main("", *words, stdin="ab\ncab\n")
    assert done.code in (0, 1, 2), (words, done.code)
    assert not any(text in done.out + done.err for text in ("Traceback", "\x1b")), words
    return done


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch, plain_output):
    monkeypatch.setattr("seq2attn.comparison.run.process_pool", lambda *_: Inline())


# ---- configs ----

keys = st.sampled_from(KEYS) | st.text(max_size=8)
scalars = st.sampled_from(VALUES) | st.text(max_size=12)
plain = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12)
trees = st.recursive(
    plain,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=12,
)
lines = st.builds(
    lambda depth, key, value: f"{'  ' * depth}{key}: {value}", st.integers(0, 3), keys, scalars
)
documents = (st.lists(lines, max_size=8).map("\n".join) | st.text(max_size=60)).map(
    lambda text: text.encode(errors="surrogatepass")
) | st.binary(max_size=200)
overrides = st.lists(
    st.builds(
        lambda path, value: f"{'.'.join(path)}={value}",
        st.lists(keys, min_size=1, max_size=3),
        scalars,
    ),
    max_size=2,
)


@pytest.mark.parametrize("count", [20, slow(10_000)])
def test_any_file_as_a_config(tmp_path, record_figure, count):
    """It is read whole and comes back from its own dump, or it is refused in words."""
    path = tmp_path / "any.yaml"

    def check(data, extra):
        path.write_bytes(data)
        with no_hang():
            try:
                config = load_config(path, extra)
            except Seq2AttnError:
                return
        path.write_text(dump_config(config))
        assert load_config(path) == config

    fuzz(count, (documents, overrides), check)
    record_figure(config_files=count)


@pytest.mark.parametrize("count", [50, slow(10_000)])
def test_any_values_as_a_config(record_figure, count):
    def check(values, extra):
        with no_hang(), contextlib.suppress(Seq2AttnError):
            check_config(values, extra)

    fuzz(count, (st.dictionaries(keys, trees, max_size=5), overrides), check)
    record_figure(config_values=count)


# ---- command lines ----


@pytest.mark.parametrize("count", [20, slow(10_000)])
def test_any_command_line(run_copy, work, monkeypatch, own_scores, record_figure, count):
    files = {
        "tiny.yaml": run_copy.config_file.read_text().replace("steps: 24", "steps: 1"),
        "bad.yaml": "seed: x\n",
        "bad.py": "1 / 0\n",
        "score.py": "import seq2attn\n",
    }
    for name, text in files.items():
        write(work / name, text)
    monkeypatch.chdir(work)
    monkeypatch.setattr(
        "seq2attn.contract.parts.check_part", lambda *_: {"shape": ""}
    )  # of all parts: seconds
    some = st.text(st.characters(exclude_categories=["Nd"], exclude_characters="\0"), max_size=6)
    words = st.lists(st.sampled_from(WORDS) | some, max_size=5)

    def check(command, rest):
        call([command, *rest])

    fuzz(count, (st.sampled_from(COMMANDS), words), check)
    assert {path.name for path in work.iterdir() if path.suffix in (".py", ".yaml")} == set(files)
    assert not (work.parent / "tiny").exists()
    record_figure(command_lines=count)


# ---- any value in any field of a run's JSON files, for every command that reads runs ----

FIELD = "@@"
KINDS = r"""
null | null
true | true
text | "x"
markup | "<b>$&{{title}}"
escapes | "\u001b[31m\u0000\n"
lone surrogate | "\ud800"
list of lists | [[1]]
mapping of mappings | {"name": {"name": NaN}}
infinity | -Infinity
1e308 | 1e308
below zero | -1
a fraction | 1.5
2^63 | 9223372036854775808
"""  # as JSON, or what Python reads as JSON
KINDS = dict(rows(KINDS)) | {
    "long text": f'"{"x" * 20_000}"',
    "5,000 digits": "9" * 5_000,
    "deep": "[" * 3_000 + "]" * 3_000,
}
RECORDS = """
status.json environment.json metrics.jsonl attention.jsonl evaluations/best-001.json
""".split()
COMPARE = "compare -c tiny.yaml --set training.steps=2 --vary seed=1 --name e --json"
READERS = f"""
runs
runs --json
report RUN --to x.html
report e --to x.html
plot accuracy RUN --plot x.svg
plot accuracy RUN --by-length --plot x.svg
plot attention RUN --plot x.svg
plot attention RUN --ideal --plot x.png
eval RUN --samples 1 --lengths 1 --json
predict ab --json
inspect RUN --json
{COMPARE}
train --resume RUN
""".strip().split("\n")


@pytest.fixture(scope="module")
def trial(tmp_path_factory):
    """A directory with tiny.yaml and one run, a trial of the comparison `e`, which is trained and
    measured.
    """
    folder = tmp_path_factory.mktemp("trial")
    write(folder / "tiny.yaml", TINY)
    with (
        contextlib.chdir(folder),
        mock.patch("seq2attn.comparison.run.process_pool", return_value=Inline()),
    ):
        call(COMPARE.split()).check()
    return folder


@pytest.fixture
def copied(trial, tmp_path, monkeypatch):
    """A copy of that directory to work in."""
    monkeypatch.chdir(shutil.copytree(trial, tmp_path / "copy"))
    return tmp_path / "copy"


def run_of(folder):
    (run,) = (folder / "runs").glob("*/")
    return run


def without_a_field(value):
    """Every copy of a JSON value in which one field is `FIELD`, or missing; of a list, only the
    first item's fields.
    """
    yield FIELD
    if isinstance(value, dict):
        for key, item in value.items():
            yield {name: other for name, other in value.items() if name != key}
            yield from ({**value, key: other} for other in without_a_field(item))
    elif isinstance(value, list) and value:
        yield from ([other, *value[1:]] for other in without_a_field(value[0]))


def every_damage(trial, *names):
    """(file, its lines of JSON, kind of value) for every field of these records."""
    for name in names:
        text = (run_of(trial) / name).read_text()
        lines = [
            json.dumps(json.loads(line))
            for line in (text.splitlines() if name.endswith("l") else [text])
        ]
        for number, line in enumerate(lines):
            for other in map(json.dumps, without_a_field(json.loads(line))):
                for kind in KINDS if FIELD in other else ("missing",):
                    yield name, [*lines[:number], other, *lines[number + 1 :]], kind


def refuse_constant(text):
    raise AssertionError(f"{text} is not JSON")


def check_reader(command, name):
    """The command answers, or it is refused in words that name the file; what it prints as JSON is
    JSON.
    """
    words = command.replace("RUN", run_of(Path()).name).split()
    code, out, err = call(words)
    if code == 0 and "--json" in words:
        json.dumps(
            json.loads(out, parse_constant=refuse_constant), ensure_ascii=False
        ).encode()  # no lone surrogate
    if code:
        (first,) = [line for line in err.splitlines() if line.startswith("error: ")]
        assert any(word in first for word in (name, "trial", "has no ", "comparison")), err


def is_accepted(run):
    """True if all records of the run can be read; only a `Seq2AttnError` may refuse one."""
    try:
        read_metrics(run), read_attention(run), evaluations(run)
    except Seq2AttnError:
        return False
    return run.status().state is not None and run.environment.created is not None


def attack(copied, trial, chosen, commands):
    """Each damage by itself: the reader's answer, and the `commands` for one that was accepted or
    was not.
    """
    for name, lines, kind in chosen:
        shutil.rmtree(copied / "runs")
        shutil.copytree(trial / "runs", copied / "runs")
        text = "".join(f"{line}\n" for line in lines)
        (run_of(copied) / name).write_text(text.replace(f'"{FIELD}"', KINDS.get(kind, "")))
        try:
            for command in commands(is_accepted(Run(run_of(copied)))):
                check_reader(command, name)
        except (Exception, SystemExit) as error:
            raise AssertionError(f"{name} with {kind} at {FIELD}: {text}") from error


def test_some_values_in_some_fields(copied, trial):
    choose = random.Random(18)
    chosen = choose.sample(list(every_damage(trial, *RECORDS)), 36)
    attack(copied, trial, chosen[:6], lambda accepted: choose.sample(READERS, 2 if accepted else 1))
    attack(copied, trial, chosen[6:], lambda accepted: ())


@pytest.mark.slow
@pytest.mark.parametrize("name", RECORDS)
def test_every_value_in_every_field(copied, trial, record_figure, name):
    for command in READERS:  # of the undamaged run
        call(command.replace("RUN", run_of(copied).name).split()).check()
    choose = random.Random(name)
    chosen = list(every_damage(trial, name))
    attack(
        copied, trial, chosen, lambda accepted: READERS if accepted else choose.sample(READERS, 1)
    )
    record_figure(damaged_fields=len(chosen))
