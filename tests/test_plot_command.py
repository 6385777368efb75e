"""`seq2attn plot`, and the records that it reads."""

import json
import shutil
import tracemalloc
from pathlib import Path

import pytest
import yaml
from PIL import Image

from seq2attn.results.answers import AttentionMap
from seq2attn.runs.records import Metrics
from seq2attn.runs.run import Run, evaluations, read_attention, read_metrics

WHOLE = AttentionMap("a", "a", ("a",), ("a",), ((1.0,),), (0,)).to_json()
DAMAGE = yaml.safe_load("""
- {}  # other strings than those recorded
- {weights: [[1.0, 0.0]]}
- {weights: []}
- {weights: [[2.0]]}
- {weights: [[.nan]]}
- {ideal: [1]}
- {output_symbols: [], weights: []}
""")


@pytest.fixture
def tiny(runs_copy):
    return Run(runs_copy / "tiny")


def test_records_of_training_are_read(tiny):
    metrics = read_metrics(tiny)
    assert [step for step, _ in metrics.losses] == [2]
    ((step, results),) = metrics.evaluations
    assert step == 2
    exact = results.by_length("exact_match")
    assert [(row.length, row.samples, row.trained) for row in exact] == [
        (n, 2, True) for n in (1, 2, 3)
    ]
    with tiny.attention_file.open("a") as file:
        file.write('{"step": 3, "ma')  # an incomplete last line is ignored
    assert [step for step, _ in read_attention(tiny)] == [0, 1, 2]
    assert [len(one.source) for one in read_attention(tiny)[-1][1]] == [2, 3]
    assert evaluations(tiny) == []


def test_a_long_training_takes_little_memory_to_read(tiny):
    line = '{"step": %d, "loss": 0.5, "accuracy": 0.9, "learning_rate": 0.1}\n'
    evaluations = read_metrics(tiny).evaluations
    with tiny.metrics_file.open("a") as file:
        file.writelines(line % step for step in range(1_000, 6_000))
    tracemalloc.start()
    try:
        metrics = read_metrics(tiny)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert metrics.losses[-1] == (5_999, 0.5)
    assert metrics.evaluations == evaluations
    assert peak < 5_000 * 200  # bytes
    assert read_metrics(tiny, losses=False) == Metrics([], evaluations)


def test_figures_are_written(cli, tiny, blank_figures):
    shutil.copytree(tiny.path, tiny.path.with_name("other"))
    for number, (words, ending) in enumerate([
        ("accuracy", "pdf"),
        ("accuracy tiny other --by-length", "png"),
        ("attention tiny --ideal", "svg"),
    ]):  # fmt: skip
        file = f"{number}.{ending}"
        done = cli(f"plot {words} --plot {file}").check()
        assert done.out == ""
        assert f"figure: {file}" in done.err
        assert Path(file).stat().st_size > 1000


def test_one_string_can_be_chosen(cli, tiny, blank_figures):
    cli("plot attention --plot one.png --string", read_attention(tiny)[-1][1][0].source).check()
    cli("plot attention --plot both.png").check()
    with Image.open("one.png") as one, Image.open("both.png") as both:
        assert one.size[0] < both.size[0]


def test_a_run_without_attention_is_an_error_with_its_reason(cli, tiny):
    tiny.attention_file.unlink()
    said = cli("plot attention --plot x.png").refusal
    assert "has no recorded attention" in said
    assert "training.snapshots" in said
    tiny.status_file.write_text('{"score": "none"}')
    done = cli("plot attention --plot x.png")
    assert "run 'tiny' (score none) has no recorded attention" in done.err
    config = Path("plain.yaml")
    config.write_text(
        "model: {hidden: 4, attention: {score: none}}\ntraining: {steps: 1, warmup: 0, "
        "batch_size: 2}"
    )
    cli(f"train -c {config} --name plain").check()
    why = "no map: the model has no attention, or the string is too long"
    assert why in cli("predict a --run plain --map digits").check().err
    done = cli("predict a --run plain --plot x.png")
    assert done.code == 2
    assert "there is no attention to draw\nA model without attention has no maps." in done.err


DAMAGED = ['{"step": 3, "maps": [{"source": "a"}]}', '{"step": 3, "maps": []}', "[]", "{"]


@pytest.mark.parametrize(
    "line",
    [*DAMAGED, *(json.dumps({"step": 3, "maps": [{**WHOLE, **changes}]}) for changes in DAMAGE)],
)
def test_a_damaged_line_is_an_error(cli, tiny, line):
    with tiny.attention_file.open("a") as file:
        file.write(f"{line}\n")
    said = cli("plot attention --plot x.png").refusal
    assert "attention.jsonl" in said
    assert "not a valid record" in said


def test_a_damaged_record_is_an_error_with_its_line(cli, tiny):
    tiny.evaluations.mkdir()
    for file, text, message in (
        (
            tiny.metrics_file,
            "{}\nno json\n",
            ":1: not a valid record: step: is missing\nRemove that line",
        ),
        (
            tiny.metrics_file,
            '{"step": 1}\nno json\n',
            ":2: not a valid record: it is not valid JSON\n",
        ),
        (
            tiny.evaluations / "best-001.json",
            '{"rows": \n',
            ": not a valid record: it is not valid JSON\n",
        ),
    ):
        file.write_text(text)
        assert f"{file.name}{message}" in cli("report tiny").refusal
        file.unlink()
