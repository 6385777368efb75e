import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

import seq2attn
from seq2attn.inference.maps import AttentionMap
from seq2attn.runs.evaluations import newest_evaluation
from seq2attn.runs.reading import parse
from seq2attn.runs.records import read_attention, read_metrics
from seq2attn.runs.run import Run

PACKAGE = Path(seq2attn.__file__).parent.parent


@pytest.fixture
def tiny(runs_copy):
    return Run(runs_copy / "tiny")


def read_as(kind, value):
    return parse(kind, json.dumps(value).encode(), Path("record.json"))


def test_attention_maps_survive_a_round_trip():
    one = AttentionMap(
        "a b", "b", ("a", " ", "b", "<eos>"), ("b", "<eos>"), ((0.25, 0.0, 0.5, 0.25), (1.0, 0.0, 0.0, 0.0)), (2, 1)
    )
    assert read_as(AttentionMap, one.to_json()) == one


def test_records_of_training_are_read(tiny):
    metrics = read_metrics(tiny)
    assert [line.step for line in metrics.steps] == [2]
    ((step, results),) = metrics.evaluations
    assert step == 2
    found = results.by_length("entropy")
    assert [(row.length, row.samples, row.trained) for row in found] == [(n, 2, True) for n in (1, 2, 3)]
    *_, (step, maps) = read_attention(tiny)
    assert step == 2
    assert [len(one.source) for one in maps] == [2, 3]
    assert newest_evaluation(tiny) is None


def test_the_newest_evaluation_is_the_last_eval(cli, tiny):
    assert cli("eval", "--lengths", "3").code == 0
    assert cli("eval", "--lengths", "2").code == 0
    name, results = newest_evaluation(tiny)
    assert name == "best-002.json"
    assert results.lengths == [2]


@pytest.mark.parametrize(
    "command",
    [
        "plot loss --plot {}.png",
        "plot loss tiny --plot {}.svg",
        "plot accuracy --plot {}.pdf",
        "plot accuracy tiny --by-length --plot {}.png",
        "plot attention --plot {}.svg",
        "plot attention tiny --ideal --columns 1 --plot {}.png",
        "plot attention tiny --plot {}.gif",
    ],
)
def test_figures_are_written(cli, tiny, tmp_path, command):
    done = cli(*command.format("figure").split())
    assert (done.code, done.out) == (0, "")
    file = tmp_path / command.split()[-1].format("figure")
    assert f"figure: {file.name}" in done.err
    assert file.stat().st_size > 1000


def test_one_string_can_be_chosen(cli, tiny, tmp_path):
    *_, (_, maps) = read_attention(tiny)
    assert cli("plot", "attention", "--string", maps[0].source, "--plot", "one.gif").code == 0
    assert cli("plot", "attention", "--plot", "both.gif").code == 0
    sizes = [Image.open(io.BytesIO((tmp_path / f"{name}.gif").read_bytes())).size for name in ("one", "both")]
    assert sizes[0][0] < sizes[1][0]


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("plot attention --string abc --plot x.gif", "has no recorded attention for 'abc'; "),
        ("plot loss --plot x.gif", "a figure's file name ends with one of .png, .svg, .pdf"),
        ("plot attention --plot nowhere/x.gif", "there is no directory nowhere"),
        ("plot accuracy tiny tiny2 --by-length --plot x.png", "no run 'tiny2'"),
        ("plot loss", "--plot FILE is missing"),
    ],
)
def test_mistakes_are_errors(cli, tiny, command, message):
    done = cli(*command.split())
    assert done.code == 2
    assert message in done.err


def test_a_run_without_attention_is_an_error_with_its_reason(cli, tiny):
    tiny.attention_file.unlink()
    done = cli("plot", "attention", "--plot", "x.png")
    assert done.code == 2
    assert "has no recorded attention: it has no evaluation yet, or an older version trained it" in done.err
    tiny.status_file.write_text('{"score": "none"}')
    assert "it has no attention (score 'none')" in cli("plot", "attention", "--plot", "x.png").err


WHOLE = {
    "source": "a",
    "output": "a",
    "source_symbols": ["a"],
    "output_symbols": ["a"],
    "weights": [[1.0]],
    "ideal": [0],
}


def line_with(**changes):
    return json.dumps({"step": 3, "maps": [{**WHOLE, **changes}]})


@pytest.mark.parametrize(
    "line",
    [
        '{"step": 3, "maps": [{"source": "a"}]}',
        '{"step": 3, "maps": []}',
        "[]",
        "{",
        line_with(),  # other strings than those recorded
        line_with(weights=[[1.0, 0.0]]),
        line_with(weights=[]),
        line_with(weights=[[2.0]]),
        line_with(weights=[[float("nan")]]),
        line_with(ideal=[1]),
        line_with(output_symbols=[], weights=[]),
    ],
)
def test_a_damaged_line_is_an_error(cli, tiny, line):
    with tiny.attention_file.open("a") as file:
        file.write(f"{line}\n")
    done = cli("plot", "attention", "--plot", "x.png")
    assert done.code == 2
    assert "attention.jsonl" in done.err
    assert "not a valid record" in done.err


def test_the_whole_map_is_read():
    assert read_as(AttentionMap, WHOLE).weights == ((1.0,),)


def test_a_partial_last_line_is_ignored(tiny):
    with tiny.attention_file.open("a") as file:
        file.write('{"step": 3, "ma')
    assert [step for step, _ in read_attention(tiny)] == [0, 1, 2]


def test_predict_refuses_a_figure_without_attention(cli, tiny):
    config = tiny.config_file.read_text().replace("score: scaled", "score: none")
    tiny.config_file.write_text(config)
    done = cli("predict", "a", "--plot", "x.png")
    assert done.code == 2
    assert "there is no attention to draw: run 'tiny' was trained with score 'none'" in done.err


def test_ideal_needs_a_figure(cli, tiny):
    done = cli("predict", "a", "--ideal")
    assert done.code == 2
    assert "--ideal outlines cells of a figure" in done.err


def test_plot_imports_no_torch(tiny, tmp_path):
    code = (
        "import sys; sys.argv = ['seq2attn', 'plot', 'attention', '--plot', 'x.svg']\n"
        "from seq2attn.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print('torch' in sys.modules)"
    )
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE), "SEQ2ATTN_RUNS": "runs"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"
    assert (tmp_path / "x.svg").exists()
