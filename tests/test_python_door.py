"""The Python interface: its functions do what the commands do, and the names for plug-ins can be
imported.
"""

import inspect
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import yaml
from inline import TINY, read_json, write
from matplotlib.figure import Figure
from models import VALUES
from outcomes import same_tensors
from refusal import refused
from tables import rows
from test_attention_changes import changed

import seq2attn
from seq2attn.config import check_config

pytestmark = pytest.mark.usefixtures("here")


def test_python_and_the_command_line_train_the_same_run(runs_copy):
    config = runs_copy / "tiny/config.yaml"
    ours = seq2attn.train(config, runs_dir=runs_copy, name="ours", device="cpu")
    assert ours == seq2attn.Run(runs_copy / "ours")
    same_tensors(ours, seq2attn.Run(runs_copy / "tiny"))
    assert ours.status().state == "finished"


def test_train_accepts_values_and_overrides():
    cases = ((VALUES, ["seed=5"]), (check_config(VALUES), "seed=5"), (VALUES, {"seed": 5}))
    for number, (config, overrides) in enumerate(cases, start=1):
        run = seq2attn.train(config, overrides, device="cpu")
        assert run.name == f"run-seed_5-00{number}"
        assert run.config.seed == 5
        assert run.status().step == 2


def test_defaults_are_those_of_the_commands(monkeypatch):
    for name in "train load evaluate compare new_model".split():
        parameters = inspect.signature(getattr(seq2attn, name)).parameters
        assert parameters["device"].default == "auto"
    monkeypatch.setenv("SEQ2ATTN_RUNS", "elsewhere")
    run = seq2attn.train(VALUES, name="mine", device="cpu")
    assert run.path == Path("elsewhere/mine")
    assert seq2attn.load("mine").run == seq2attn.load().run == run
    seq2attn.evaluate("mine", [1])
    assert len(list(run.evaluations.iterdir())) == 1
    assert seq2attn.train(resume="mine", device="cpu") == run
    monkeypatch.delenv("SEQ2ATTN_RUNS")
    assert seq2attn.train(VALUES, name="here", device="cpu").path == Path("runs/here")
    assert seq2attn.load("mine", runs_dir="elsewhere").run == run


def test_a_single_file_needs_no_list(trials_here, own_scores):
    config = Path("tiny.yaml")
    write(config, TINY)
    head = "from seq2attn import register\nfrom seq2attn.model.scores import Dot"
    write(
        "own.py",
        f'{head}\n@register("mine", equal_widths=True)\nclass Mine(Dot):\n    """s . h"""\n',
    )
    vary, baseline = "model.attention.score=mine,none", "model.attention.score=none"
    compare = partial(seq2attn.compare, configs=config, vary=vary, device="cpu")
    found = compare(plugins="own.py", baseline=baseline)
    assert {group.label: group.baseline for group in found.groups} == {"mine": "none", "none": None}
    with refused("or in Python a function that makes an Executor, found <concurrent"):
        compare(plugins=Path("own.py"), executor=ThreadPoolExecutor())


def test_configs_to_compare_may_be_keys_and_values(trials_here, monkeypatch):
    monkeypatch.setenv("SEQ2ATTN_RUNS", "elsewhere")
    options = {"configs": [VALUES, {**VALUES, "seed": 2}], "name": "c", "metric": "teacher_forced"}
    found = seq2attn.compare(**options, device="cpu", workers=1)
    assert [group.label for group in found.groups] == ["config_1", "config_2"]
    runs = [group.trials[0].run for group in found.groups]
    assert runs == ["c-config_1-seed_1", "c-config_2-seed_2"]
    assert (found.metric, found.failed) == ("teacher_forced", {})
    assert found._repr_html_().count("<table>") == 3  # of each, and of both
    assert {path.name for path in Path("elsewhere").iterdir() if path.is_dir()} == {*runs}
    assert not Path("runs").exists()
    assert seq2attn.compare(**options) == found  # uses the finished runs
    for wrong in (5, [5]):
        with pytest.raises(TypeError, match="int"):
            seq2attn.compare(configs=wrong, vary="seed=1", device="cpu")
    with pytest.raises(TypeError, match="dict"):
        seq2attn.compare(VALUES)


def test_train_continues_a_run():
    run = seq2attn.train(VALUES, device="cpu")
    whole = run.checkpoint("last").read_bytes()
    run.checkpoint("last").unlink()
    assert seq2attn.train(run, device="cpu") == run
    assert len(run.checkpoint("last").read_bytes()) == len(whole)
    assert seq2attn.train(run, device="cpu") == run  # it is finished
    with refused("continues a run unchanged"):
        seq2attn.train(run, ["training.steps=9"])


@pytest.fixture
def model(runs_copy):
    return seq2attn.load(runs_dir=runs_copy)


def test_one_string_has_one_answer_and_a_list_has_a_list(model):
    answer = model.predict("ab")
    assert answer.source == "ab"
    assert answer.expected == "ba"
    assert answer.ideal == (1, 0)
    assert answer.source_symbols == ("a", "b", "<eos>")
    assert answer.weights.shape == (len(answer.output_symbols), 3)
    assert [one.source for one in model.predict(["ab", "c"])] == ["ab", "c"]
    assert model.predict(iter(["ab"]))[0].output == answer.output == str(answer)
    assert model.predict([]) == []
    bare = model.predict("ab", weights=False)
    assert bare.weights is None
    assert bare.output == answer.output
    assert "<table" not in bare._repr_html_()
    with refused("there is no attention to draw for 'ab'"):
        bare.plot()


def test_an_answer_knows_whether_it_is_right(model):
    right = replace(model.predict("ab"), output="ba", finished=True)
    for changes, correct, says in (
        ({}, True, "'ba'"),
        ({"output": "b"}, False, "'b', expected 'ba'"),
        ({"finished": False}, False, "'ba', cut off"),
    ):
        answer = replace(right, **changes)
        assert answer.correct is correct
        assert repr(answer) == f"Answer('ab' -> {says})"
    assert replace(right, task=None).correct is None


def test_an_answer_is_drawn_into_axes_of_one_s_own(model):
    figure = Figure(figsize=(4, 3))
    answer = model.predict("ab")
    axes = answer.plot(figure.add_subplot(), ideal=True)
    assert axes.figure is figure
    assert np.allclose(np.array(axes.collections[0].get_array()), answer.weights)
    assert len(axes.patches) == min(2, len(answer.output_symbols))
    new = answer.plot()
    assert new.figure is not figure
    from matplotlib import pyplot

    pyplot.close(new.figure)


REFUSED = """
predict | {text: a1} | '1'
predict | {text: 5} | a string, or several; found 5
predict | {text: [a, null]} | found None
predict | {beam: 2, length_penalty: .nan} | length_penalty must be a number from 0 to 10; found nan
predict | {beam: 0} | beam must be a whole number from 1; found 0
evaluate | {samples: 2.5} | samples must be a whole number from 1; found 2.5
evaluate | {seed: -1} | seed must be a whole number from 0; found -1
train | {threads: 0} | threads must be a whole number from 1; found 0
"""


def test_interventions_are_those_of_the_predictor(model):
    changes = {
        "force": {(np.int64(0), 1): np.float32(0.5)},
        "temperature": 2.0,
        "write": {0: "b"},
        "ban": np.array([2, 3]),
        "padding": 2,
        "mask_padding": False,
    }
    expected = changed(model.predictor, "ab", **changes)
    answer = model.predict("ab", **changes)
    assert answer.output == expected.output
    assert answer.output[0] == "b"
    assert answer.weights.shape[1] == 5
    assert np.allclose(answer.weights, expected.weights)
    assert answer.weights[0, 1] == 0.5
    assert len(model.predict("ab", beam=3).hypotheses) == 3
    calls = {
        "predict": partial(model.predict, text="ab"),
        "evaluate": partial(model.evaluate, [3]),
        "train": partial(seq2attn.train, {}),
    }
    for name, wrong, message in rows(REFUSED):
        with refused(message):
            calls[name](**yaml.safe_load(wrong))


def test_load_takes_a_checkpoint(runs_copy):
    model = seq2attn.load("tiny", runs_dir=runs_copy, checkpoint="last")
    assert model.checkpoint == "last"
    assert model.step == 2
    assert model.run.name == "tiny"
    assert repr(model) == "TrainedModel('tiny', checkpoint last of step 2)"


def test_results_are_a_table_and_evaluate_saves_them(model):
    results = model.evaluate(["1-2", 4], samples=3)
    assert (results.lengths, results.families) == ([1, 2, 4], ["random"])
    header, _, *rows, note = repr(results).splitlines()
    assert note == "* never seen in training"
    assert [row.split()[0] for row in (header, *rows)] == ["length", "1", "2", "4*"]
    assert f" {results.get('exact_match', 2).value:.3f} [" in rows[1]
    assert results._repr_html_().count("<tr>") == 4
    assert not model.run.evaluations.exists()
    with refused("data: run 'tiny' is on task 'reverse', which draws its own strings"):
        model.evaluate(data="test.tsv")
    saved = seq2attn.evaluate("tiny", ["1-2", 4], samples=3, runs_dir=model.run.path.parent)
    (file,) = model.run.evaluations.iterdir()
    assert saved.rows == results.rows
    assert read_json(file)["rows"] == results.records()
    assert len(seq2attn.evaluate(model.run).lengths) == 3  # the config's lengths


def test_names_are_those_that_are_public():
    assert dir(seq2attn) == sorted([*seq2attn.__all__, "__version__"])
    assert [getattr(seq2attn, name).__name__ for name in seq2attn.__all__] == seq2attn.__all__
    with pytest.raises(AttributeError, match="module 'seq2attn' has no attribute 'trian'"):
        seq2attn.trian  # noqa: B018
