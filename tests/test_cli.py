"""Walks through the commands in this process: what they print, on a terminal and in a pipe, and
what they write.
"""

import contextlib
import functools
import io
import itertools
import json
import shutil
from pathlib import Path

import pytest
import tables
import torch
from inline import Terminal, change_json, plain, read, read_json, write
from inline import call_main as seq2attn
from measured import value_of
from tables import table

import seq2attn as package
from seq2attn import __version__
from seq2attn.config import check_config, load_config
from seq2attn.data.tasks.strings import Reverse
from seq2attn.parts import LONGEST
from seq2attn.runs.checkpoint import load_checkpoint, save_checkpoint
from seq2attn.runs.create import run_name
from seq2attn.runs.run import Run, check_name, training_lock
from seq2attn.training import session

# Only six strings: learnt within a second for any seed.
TINY = """\
task: {alphabet: ab, max_length: 2}
model: {hidden: 16, embedding: 4}
training: {steps: 80, batch_size: 16, learning_rate: 0.03, evaluate_every: 80,
  validation_samples: 10, snapshots: 1, watched: a}
evaluation: {samples: 10}
"""


def succeed(*arguments, **keywords):
    """The standard output of a command that must succeed."""
    return seq2attn(*arguments, **keywords).check().out


def rows(*arguments):
    """The rows that a command prints, one dict a line."""
    return seq2attn(*arguments).rows()


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A directory with tiny.yaml and two runs: tiny-001, which has learnt its task, and the newer
    `second`.
    """
    threads = torch.get_num_threads()
    folder = tmp_path_factory.mktemp("trained")
    write(folder / "tiny.yaml", TINY)
    with contextlib.chdir(folder):
        first = succeed("train --config tiny.yaml")
        second = succeed("train -c tiny.yaml --name second --set training.steps=1 -s seed=2")
    assert first == "runs/tiny-001\n"
    assert second == "runs/second\n"
    yield folder
    torch.set_num_threads(threads)


@pytest.fixture(autouse=True)
def work(trained, tmp_path, monkeypatch, plain_output):
    """A copy of that directory to work in."""
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "120")
    folder = tmp_path / "work"
    shutil.copytree(trained, folder)
    monkeypatch.chdir(folder)
    return folder


# ---- train ----


FILES = """
attention.jsonl checkpoints config.yaml environment.json events metrics.jsonl status.json
training.lock
"""


def test_a_training_from_its_config_to_its_records(work, monkeypatch):
    monkeypatch.setattr(session, "why_slow", lambda device: "there is no C compiler (cc)")
    line = "train -c tiny.yaml -s training.steps=1 --set model.attention.score=concat"
    done = seq2attn(line).check()
    run = work / "runs/tiny-score_concat-steps_1-001"
    assert done.out == f"runs/{run.name}\n"
    said = done.err.splitlines()
    assert "there is no C compiler (cc)" in said
    assert f"training runs/{run.name} on cpu from step 0" in said
    assert any(line.startswith("step 1: exact match ") for line in said)
    assert said[-1] == f"Next: seq2attn eval {run.name}"
    names = {path.name.partition(".out.")[0] for path in run.iterdir()}
    assert sorted(names) == FILES.split()
    config = load_config(run / "config.yaml")
    assert config.score_name == "additive"
    assert config.model.hidden == 16
    assert config.training.steps == 1
    environment = read_json(run / "environment.json")
    assert environment["command"][1:3] == ["train", "-c"]
    assert {"device": "cpu", "threads": 1}.items() <= environment.items()
    assert environment["versions"]["torch"] == torch.__version__
    assert environment["versions"]["seq2attn"] == __version__


def test_train_keeps_runs_in_the_runs_dir(monkeypatch):
    done = seq2attn("train -c tiny.yaml -s training.steps=1 --runs-dir elsewhere")
    assert done.out == "elsewhere/tiny-steps_1-001\n"
    assert done.err.splitlines()[-1] == "Next: seq2attn eval tiny-steps_1-001 --runs-dir elsewhere"
    monkeypatch.setenv("SEQ2ATTN_RUNS", "elsewhere")
    assert seq2attn("train -c tiny.yaml --runs-dir runs -s training.steps=1").err.endswith(
        " --runs-dir runs\n"
    )
    assert succeed("train -c tiny.yaml -s training.steps=1") == "elsewhere/tiny-steps_1-002\n"
    assert succeed("predict ab --run tiny-steps_1-001").count("\n") == 1


def test_states_without_a_readable_status(work):
    def state():
        return rows("runs")[0]["state"]

    run = work / "runs/second"
    write(run / "status.json", "{")
    assert state() == "stopped"  # it has a checkpoint
    (run / "status.json").unlink()
    assert state() == "stopped"
    with training_lock(Run(run)):
        assert state() == "training"
    shutil.rmtree(run / "checkpoints")
    assert state() == "no checkpoint"
    write(run / "status.json", '{"state": "interrupted", "step": 3}')
    assert "training runs/second on cpu from step 0" in seq2attn("train --resume second").err
    assert (run / "checkpoints/last.safetensors").is_file()


def test_a_run_of_a_cpu_is_resumed_there_and_other_kernels_are_noted(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    config = "runs/second/config.yaml"
    write(config, read(config).replace("steps: 1\n", "steps: 2\n"))
    change_json("runs/second/environment.json", kernels="compiled elsewhere")
    said = " ".join(seq2attn("train --resume second").err.split())
    assert "was started on cpu, compiled elsewhere and continues on cpu, " in said
    assert "resuming runs/second on cpu from step 1" in said


def test_a_small_model_trains_on_the_cpu_although_there_is_a_gpu(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    said = " ".join(seq2attn("train -c tiny.yaml --name small -s training.steps=1").err.split())
    assert "which is probably faster for a model this small; --device cuda takes the GPU" in said
    assert read_json("runs/small/environment.json")["device"] == "cpu"


# ---- eval ----


def test_eval_prints_tab_separated_lines_in_a_pipe():
    printed = rows("eval tiny-001 --lengths 1-3 --samples 20")
    found = {(row["length"], row["metric"]): row for row in printed}
    assert len(found) == 3 * 6
    assert {row["family"] for row in printed} == {"random"}
    assert {row["run"] for row in printed} == {"tiny-001"}
    entropy = [found[length, "entropy"] for length in "123"]
    assert [row["trained"] for row in entropy] == ["yes", "yes", "no"]
    assert {row["samples"] for row in entropy} == {"20"}
    assert entropy[0]["low"] == ""


def test_eval_prints_and_saves_json(work):
    words = "eval tiny-001 --lengths 1 2 --samples 5 --json"
    record = seq2attn(f"{words} --seed 3").json
    assert {"run": "tiny-001", "checkpoint": "best", "seed": 3}.items() <= record.items()
    assert value_of(record, "exact_match", 2) == 1.0
    other, last = (seq2attn(f"{words} {more}").json for more in ("--seed 4", "--checkpoint last"))
    assert value_of(other, "entropy", 2) != value_of(record, "entropy", 2)
    kept = sorted((work / "runs/tiny-001/evaluations").iterdir())
    assert list(map(read_json, kept)) == [record, other, last]
    assert seq2attn(f"{words} --seed 4").json["rows"] == other["rows"]


@table(
    "found",
    """
best
last
""",
)
def test_eval_records_the_checkpoint_that_it_measured_with_its_step(work, found):
    run = Run(work / "runs/tiny-001")
    best = load_checkpoint(run.checkpoint("best"))
    save_checkpoint(run.checkpoint("best"), best.tensors, {**best.state, "step": 1})
    if found == "last":
        run.checkpoint("best").unlink()
    done = seq2attn("eval tiny-001 --samples 1 --lengths 2 --json")
    (saved,) = run.evaluations.iterdir()
    assert saved.name == f"{found}-001.json"
    record = done.json
    assert read_json(saved) == record
    assert (record["checkpoint"], record["step"]) == (found, 1 if found == "best" else 80)
    note = "/checkpoints/best.safetensors is missing: using checkpoint last of step 80\n"
    assert (f"runs/tiny-001{note}" in done.err) == (found == "last")


# ---- predict ----


@table(
    "words, stdin, out, message",
    r"""
ab b ba | "" | "ba\nb\nab\n" | ""
aba | "" | null | "of a length never seen in training (trained: 1 to 2 symbols): 1 of 1 strings\n"
aba ab | ""
  | null | "of a length never seen in training (trained: 1 to 2 symbols): 1 of 2 strings\n"
- | "aba\nb\nabab\n"
  | null | "of a length never seen in training (trained: 1 to 2 symbols): 2 of 3 strings\n"
- | "ab\nba\r\nb" | "ba\nab\nb\n" | ""
- | "" | "" | ""
- | "ab\nAB\nba\n" | "ba\n\nab\n"
  | "error: line 2 of standard input: 'AB' has symbols the model never saw: "
- | "\nab\n\n" | "\nba\n\n" | "error: line 1 of standard input: '' has no symbol, or an empty one"
- | null | "" | "error: standard input is closed\nGive the strings as arguments.\n"
""",
    "stdin out message",
)
def test_predict_prints_only_the_outputs_and_notes_on_stderr(words, stdin, out, message):
    done = seq2attn(f"predict --run tiny-001 {words}", stdin=stdin)
    assert done.code == (2 if message.startswith("error: ") else 0)
    assert done.out == out or out is None
    assert done.err.startswith(message)
    assert bool(done.err) == bool(message)


def test_predict_names_a_line_that_is_too_long_and_one_that_is_no_text():
    raw = io.TextIOWrapper(io.BytesIO(b"\xff\nab\n"), "utf-8")
    long = "the string is longer than 100,000 characters"
    for stdin, out, says in (
        ("ab\n" + "a" * (LONGEST + 1), "ba\n\n", f"2 of standard input: {long}"),
        (raw, "\nba\n", "1 of standard input: '\\udcff' has symbols"),
    ):
        done = seq2attn("predict - --run tiny-001", stdin=stdin)
        assert (done.code, done.out) == (2, out)
        assert done.err.startswith(f"error: line {says}")


def test_predict_prints_json():
    printed = succeed("predict - -r tiny-001 --json", stdin="ab\na\n")
    first, second = map(json.loads, printed.splitlines())
    assert {"source": "ab", "output": "ba", "finished": True}.items() <= first.items()
    assert first["source_symbols"] == ["a", "b", "<eos>"]
    assert first["output_symbols"] == ["b", "a", "<eos>"]
    assert [sum(row) for row in first["weights"]] == pytest.approx([1, 1, 1], abs=1e-4)
    assert len(first["weights"][0]) == 3
    assert second["output"] == second["source"] == "a"
    assert seq2attn("predict ab -r tiny-001 --json").json == first
    assert seq2attn("predict ab a -r tiny-001 --json").out == printed
    mixed = seq2attn("predict - -r tiny-001 --json", stdin="X\nab\n" + 20 * "X\n" + "a\n")
    assert mixed.code == 2
    assert [json.loads(line) for line in mixed.out.splitlines()] == [first, second]
    assert mixed.err.count("error: ") == 10
    assert mixed.err.endswith("no answer to 21 of 23 lines of standard input\n")


def test_a_line_typed_on_a_terminal_is_answered_before_the_next_and_a_mistake_can_be_typed_again():
    typed = Terminal("ab\nax\nba\n")
    _, *printed = seq2attn("predict - --run tiny-001", stdin=typed, terminal=True).check()
    out, err = map(plain, printed)
    assert "ab -> ba" in out
    assert "ba -> ab" in out
    begins = "Type one string per line. Ctrl-D ends.\nerror: line 2 of standard input: 'ax' has"
    assert err.startswith(begins)


def test_a_map_is_printed_where_it_is_asked_for():
    call = functools.partial(seq2attn, "predict", "ab", "--run", "tiny-001")
    assert call("--map", "none", terminal=True).out == call().out == "ba\n"
    piped = call("--map", "colour").out  # where there are no colours
    assert piped == call("--map", "digits").out
    assert piped.startswith("ab -> ba\n    a b ⏎\n b  ")
    coloured = plain(call("--map", "digits", terminal=True).out)
    assert coloured.replace("bright: attended to, ", "").split() == piped.split()


def test_predict_notes_a_terminal_too_narrow_for_the_map(monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    short, long = (
        seq2attn(f"predict {text} -r tiny-001", terminal=True) for text in ("ab", "abababab")
    )
    assert ["a b ⏎" in done.out for done in (short, long)] == [True, False]
    assert "the map is too wide for this terminal; --plot FILE draws it" in long.err
    assert not short.err


@pytest.mark.parametrize("answer", [None, package.Solution("bb")])
def test_predict_works_for_a_task_without_answer_or_alignment(
    work, monkeypatch, blank_figures, answer
):
    assert "(expected: ba)" in succeed("predict ab --run second", terminal=True)
    monkeypatch.setattr(Reverse, "answer", lambda self, text: answer)
    shown = succeed("predict ab --run tiny-001", terminal=True)
    assert "ab -> ba" in shown
    assert ("(expected: bb)" in shown) == (answer is not None)
    done = seq2attn("predict ab ba --run tiny-001 --plot a.svg")
    assert done.out == "ba\nab\n"
    assert done.err == "figure: a.svg\n"
    assert "<svg" in read(work / "a.svg")
    done = seq2attn("predict ab --run tiny-001 --plot b.svg --ideal")
    assert done.code == 2
    assert done.out == "ba\n"
    assert done.err.startswith("error: no ideal alignment is known for these strings")
    assert not (work / "b.svg").exists()


# ---- runs, inspect, list ----


def test_runs_lists_the_newest_first():
    printed = rows("runs")
    columns = "run state step steps score seed task exact_match_worst wer made note"
    assert " ".join(printed[0]) == columns
    keys = "run state step seed task score".split()
    assert [" ".join(row[key] for key in keys) for row in printed] == [
        "second finished 1 2 reverse scaled",
        "tiny-001 finished 80 1 reverse scaled",
    ]
    second, tiny = seq2attn("runs --json").json
    assert {"step": 80, "steps": 80, "exact_match_worst": 1.0}.items() <= tiny.items()
    assert seq2attn("runs --json -n 1").json == [second]
    assert seq2attn("runs --json --runs-dir elsewhere").json == []
    shown = seq2attn("runs -n 1", terminal=True)
    assert "second" in shown.out
    assert "WER" not in shown.out
    assert "1 more; raise --limit to see them" in shown.err


SORTED = """
--limit 9 | c a tiny-001 b  # nothing is known of the age of b
--sort -exact_match_worst | tiny-001 c a b
--sort -exact_match_worst -n 3 | tiny-001 c a
--sort exact_match_worst | a c tiny-001 b  # without a value: last
--sort seed | tiny-001 b c a  # 3 before 11
--sort -made | c a tiny-001 b
--sort made | tiny-001 a c b
"""


def test_runs_are_sorted_by_columns_and_metrics():
    def change(name, **status):
        change_json(shutil.copytree("runs/second", f"runs/{name}") + "/status.json", **status)

    change("a", seed=11, exact_match_worst=0.25, attention_entropy=0.5)
    change("b", seed=2, exact_match_worst=None, attention_entropy=0.25)
    change("c", seed=3, exact_match_worst=0.75, attention_entropy=0.75)
    shutil.rmtree("runs/second")
    Path("runs/b/environment.json").unlink()
    for line, names in tables.rows(SORTED):
        assert " ".join(row["run"] for row in rows("runs", *line.split())) == names
    by_entropy = rows("runs --sort attention_entropy")
    assert [row["attention_entropy"] for row in by_entropy[:2]] == ["0.25", "0.5"]


def test_a_note_is_kept_with_the_run_and_shown(blank_figures):
    text = "the first try\x1b[31m <b>"
    succeed("train -c tiny.yaml -s training.steps=1 -s seed=2 --name noted --note", text)
    assert read("runs/noted/config.yaml") == read("runs/second/config.yaml")
    assert seq2attn("runs --json --limit 1").json[0]["note"] == text
    listed = seq2attn("runs", terminal=True).out
    assert "the first try\\u001b[31m" in " ".join(listed.split())
    assert text not in listed
    assert "\x1b" not in succeed("runs")
    succeed("report noted second")
    assert "the first try\\u001b[31m &lt;b&gt;</td>" in read("report.html")
    again = package.train("tiny.yaml", "training.steps=1", note="2nd\ud800", device="cpu")
    assert again.environment.note == "2nd\\ud800"


def test_the_newest_run_is_chosen_and_noted_though_copied_and_unless_a_trial():
    def copy(name, **environment):
        copied = shutil.copytree("runs/tiny-001", f"runs/{name}")
        change_json(f"{copied}/environment.json", **environment)

    newest = "run: runs/{} (the newest; to use another, name it)"
    assert "run:" not in seq2attn("eval tiny-001 --samples 1").err
    copy("older", created="2001-01-01T00:00:00+00:00")
    copy("newer", created="2999-01-01T00:00:00+00:00")
    assert [row["run"] for row in rows("runs")] == "newer second tiny-001 older".split()
    copy("trial", experiment="widths", created="2999-01-02T00:00:00+00:00")
    assert newest.format("newer") in seq2attn("predict a").err
    done = seq2attn("eval --samples 1 --json")
    assert done.json["run"] == "newer"
    assert newest.format("newer") in done.err
    for name in "newer second tiny-001 older".split():
        shutil.rmtree(f"runs/{name}")
    assert newest.format("trial") in seq2attn("eval --samples 1").err


@table(
    "config, changes, name",
    f"""
configs/chapter/dot.yaml | | chapter-dot
dot.yaml | seed=2 task=sort | dot-seed_2-task_sort
dot.yaml | task.alphabet=äb~c training.learning_rate=0.003 | dot-alphabet_b-c-learning_rate_0.003
dot.yaml | task.alphabet=ä | dot-alphabet
dot.yaml | evaluation.lengths=[1,~2] | dot-lengths_1-2
dot.yaml | training.learning_rate=1e+30 | dot-learning_rate_1e30
dot.yaml | model.hidden=~+8 seed=-8 | dot-hidden_8-seed_-8
configs/chapter/dot.yaml | a=1 b={70 * "x"} c=3 | chapter-dot-a_1-b_{62 * "x"}
my config.yaml | | my-config
../.hidden.yaml | | hidden
é.yaml | seed=2 | seed_2
é.yaml | | run
{200 * "x"} | | {80 * "x"}
""",
)  # a config, its changes (~ is a blank), and the name of the run
def test_a_name_shows_config_and_changes_in_plain_characters_as_far_as_they_fit(
    config, changes, name
):
    given = [change.replace("~", " ") for change in changes.split()]
    assert run_name(Path(config), given) == name
    check_name(f"{name}-001")


def test_inspect_prints_the_whole_config_as_loadable_yaml():
    given = f"""
model.hidden=24
evaluation.lengths=1-3
model.attention.score={{name: additive, width: 7}}
training.clip_norm=null
training.learning_rate=1e-9
seed={2**63 - 1}
""".split("\n")[1:-1]
    words = [f"--set={change}" for change in given]
    printed = succeed("inspect tiny.yaml", *words)
    write("printed.yaml", printed)
    assert load_config("printed.yaml") == load_config("tiny.yaml", given)
    lines = [line.strip() for line in printed.splitlines()]
    above = dict(itertools.pairwise(reversed(lines)))  # line -> the one above it
    assert above["hidden: 24"].startswith("# D, width of ")
    assert above["width: 7"].startswith("# D_a, the width of the hidden layer")
    assert plain(succeed("inspect tiny.yaml", *words, terminal=True)) == printed
    comments = [line for line in printed.splitlines() if line.lstrip().startswith("# ")]
    assert 60 < max(map(len, comments)) < 80
    write("printed.yaml", succeed("inspect runs/second"))
    expected = load_config("tiny.yaml", ["training.steps=1", "seed=2"])
    assert load_config("printed.yaml") == expected


@table(
    "alphabet",
    r"""
'#: "-'
"\\'"
"\u00e9\u6587\t"
'0123456789'
'1e5'
'~'
' '
'[{&*!|>%@`'
""",
)
def test_inspect_quotes_any_alphabet(alphabet):
    change = f"task.alphabet={alphabet}"
    write("printed.yaml", succeed("inspect tiny.yaml --set", change))
    assert load_config("printed.yaml") == load_config("tiny.yaml", [change])


def test_inspect_s_ledger_counts_every_parameter():
    change = "model.attention.score=general"
    shown = seq2attn(f"inspect tiny.yaml --json --set {change}").json
    assert check_config(shown["config"]) == load_config("tiny.yaml", [change])
    assert shown["parameters"]["attention"] == 16 * 16
    assert shown["parameters"]["encoder embedding"] == 5 * 4  # <pad>, <sos>, <eos>, a, b
    total = shown["parameters"].pop("total")
    assert total == sum(shown["parameters"].values())
    assert f"# parameters, total: {total - 16 * 16:,}" in succeed("inspect tiny.yaml").splitlines()


def test_list_names_everything_a_config_can_use():
    kinds = """
scores tasks normalisers windows histories cells encoders decoders initial-states losses
architectures schedules families
""".split()
    everything = {row["kind"]: row["names"] for row in rows("list")}
    assert list(everything) == kinds
    for kind in kinds:
        assert ", ".join(row["name"] for row in rows("list", kind)) == everything[kind]
    scores = {record["name"]: record for record in seq2attn("list scores --json").json}
    assert scores["scaled"]["formula"] == "s.h / sqrt(D)"
    assert "concat" in scores["additive"]["synonyms"]
    assert "width" in scores["additive"]["options"]
    assert scores["general"]["parameters"] == "D_s*D_h"
