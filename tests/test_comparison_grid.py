"""From --vary and experiment files to trials, all of them checked before anything runs."""

import itertools
import string
from pathlib import Path

import pytest
from inline import ROOT
from refusal import refused
from tables import table

from seq2attn.comparison.experiment import compose_experiment
from seq2attn.comparison.plan import load_plan, make_plan, save_plan
from seq2attn.config import load_config
from seq2attn.runs.run import check_name

EXPERIMENTS = sorted((ROOT / "configs/experiments").glob("*.yaml"))


@pytest.fixture
def base(tmp_path):
    path = tmp_path / "base.yaml"
    path.write_text("model: {hidden: 8, initial_state: last}\ntask: {max_length: 3}\n")
    return path


def experiment(*configs, name="e", **settings):
    return compose_experiment(None, configs, name=name, **settings)


def plan(*configs, root=Path("none"), **settings):
    return make_plan(experiment(*configs, **settings), root)


def groups_of(found):
    """The trials that differ in their seed alone, by label."""
    groups = {}
    for trial in found.trials:
        groups.setdefault(trial.group, []).append(trial)
    return groups


# ---- --vary ----


@table(
    "text, values",
    """
model.attention.score=dot,scaled | [dot, scaled]
training.learning_rate=3e-3,0.01 | [0.003, 0.01]
task={},{max_length: 5} | [{}, {max_length: 5}]
task.alphabet='a,b',no,0-9 | ["a,b", "no", "0-9"]
seed=1-3,7,10-11 | [1, 2, 3, 7, 10, 11]
evaluation.lengths=1-12,3-5 | ["1-12", "3-5"]
training.learning_rate=log:1e-4..1e-2:4 | [0.0001, 0.0004642, 0.002154, 0.01]
training.clip_norm=null,log:1.234..5.678:2 | [null, 1.234, 5.678]
task.alphabet=log:1..2:3 | ["log:1..2:3"]
training.learning_rate=log:.1..0.1003:4 | [0.1, 0.1001, 0.1002, 0.1003]
model.hidden=log:1..4:7 | [1, 2, 3, 4]
""",
    "values",
)  # and its values: ranges are for whole numbers alone, `log:` for numbers
def test_values_are_read_as_yaml(base, text, values):
    key = text.partition("=")[0]
    assert experiment(base, vary=[text]).axes == {key: values}


# ---- trials ----


def seeds_of(found):
    """The group and the seed of each trial."""
    return [(trial.group, trial.config.seed) for trial in found.trials]


def how_measured(trial):
    return trial.lengths, trial.samples, trial.checkpoint


def test_trials_are_grouped_by_everything_but_the_seed_and_measured_as_the_config_says(base):
    vary = ("model.attention.score=dot,none", "seed=1-2")
    found = plan(base, vary=vary)
    assert list(groups_of(found)) == ["dot", "none"]
    expected = [*itertools.product(("dot", "none"), (1, 2))]
    assert seeds_of(found) == expected
    for trial, (score, seed) in zip(found.trials, expected, strict=True):
        assert trial.config == load_config(base, [f"seed={seed}", f"model.attention.score={score}"])
        assert how_measured(trial) == ((1, 2, 3), 1000, "best")
    trial = plan(base, vary=vary, lengths=(4, 9), samples=7, checkpoint="last").trials[0]
    assert how_measured(trial) == ((4, 9), 7, "last")


def test_labels_show_what_varies_and_names_what_is_asked_for(base):
    vary = ("model.hidden=8,16", "model.attention.score=dot,concat")  # the second by a synonym
    vary += ("training.clip_norm=null,0.5", "model.initial_state=last")
    found = plan(base, vary=vary)
    assert next(iter(groups_of(found))) == "hidden=8, dot, clip_norm=null"
    assert found.trials[-1].name == "e-hidden_16-additive-clip_norm_0.5-initial_state_last-seed_1"


def test_a_section_shows_the_keys_that_differ_and_names_do_not_change_with_the_others(base):
    models = (
        "{layers: 1, attention: {score: dot}}",
        "{layers: 1, attention: {score: dot, window: {name: local_m, radius: 3}}}",
    )
    found = plan(base, vary=[f"model={','.join(models)}"])
    assert list(groups_of(found)) == ["base", "window=local_m, radius=3"]
    assert found.fixed == {"model.layers": 1, "model.attention.score": "dot"}
    longer = plan(base, vary=[f"model={','.join(models)},{{cell: lstm}}"])
    assert list(groups_of(longer)) == [
        "layers=1, dot",
        "layers=1, dot, window=local_m, radius=3",
        "cell=lstm",
    ]
    assert [trial.name for trial in longer.trials[:2]] == [trial.name for trial in found.trials]
    assert longer.baselines == dict.fromkeys(groups_of(longer), "layers=1, dot")


@table(
    "vary, labels",
    """
task=copy,sort | [copy, sort]
task={name: copy, max_length: 8},{name: recopy, max_length: 8},{name: recopy, max_length: 8,
  reverse: true} | [copy, recopy, "recopy, reverse=true"]
training.losses=[cross_entropy],[cross_entropy,{name: coverage, weight: 0.1}]
  | ['losses=["cross_entropy"]', 'losses=["cross_entropy", {"name": "coverage", "weight": 0.1}]']
""",
    "labels",
)
def test_a_group_is_called_by_what_differs(base, vary, labels):
    found = plan(base, vary=[vary])
    assert list(groups_of(found)) == labels
    if labels == ["copy", "sort"]:
        assert [trial.name for trial in found.trials] == ["e-copy-seed_1", "e-sort-seed_1"]


def test_names_are_valid_distinct_and_the_same_with_more_seeds(base):
    asked = f"""
model.attention.score.initial_std=null,0.1,0.2
task.alphabet=abc,{string.ascii_letters}{string.digits},äöü,'a-b'
model.attention.score=general
""".split()

    def names(seeds):
        return {trial.name for trial in plan(base, vary=(*asked, seeds)).trials}

    found = names("seed=1-2")
    assert len(found) == 24
    assert max(map(len, found)) == 80  # cut before its seed
    for name in found:
        check_name(name)
    assert found < names("seed=1-3")


def test_several_base_configs_are_an_axis(base, tmp_path):
    other = tmp_path / "other.yaml"
    other.write_text("seed: 5\n")
    assert seeds_of(plan(base, other)) == [("base", 1), ("other", 5)]


# ---- the baseline ----

GRID = ("model.attention.score=additive,dot", "model.hidden=8,16", "seed=1-2")


@table(
    "baseline, expected",
    """
[] | ["additive, hidden=8", "additive, hidden=8"]  # the first group
[model.attention.score=dot] | ["dot, hidden=8", "dot, hidden=16"]
[model.attention.score=bahdanau, model.hidden=16] | ["additive, hidden=16", "additive, hidden=16"]
""",
    "baseline expected",
)
def test_the_baseline_differs_only_in_its_values(base, baseline, expected):
    found = plan(base, vary=GRID, baseline=baseline)
    assert list(found.baselines) == list(groups_of(found))
    assert list(found.baselines.values()) == 2 * expected


# ---- experiment files ----

FILE = """\
description: two scores
configs: base.yaml
set: {training.steps: 5}
vary:
  model.attention.score: [dot, scaled]
  seed: 1-3
baseline: {model.attention.score: scaled}
metric: teacher_forced
lengths: 3-5
samples: 10
checkpoint: last
"""


def written(base):
    path = base.parent / "mine.yaml"
    path.write_text(FILE)
    return path


def test_an_experiment_file_sets_everything(base, monkeypatch):
    monkeypatch.chdir("/")  # paths are from the file's folder
    found = make_plan(compose_experiment(written(base)), Path("none"))
    assert found.name == "mine"
    assert found.metric == "teacher_forced"
    expected = [*itertools.product(("dot", "scaled"), (1, 2, 3))]
    assert seeds_of(found) == expected
    for trial in found.trials:
        assert how_measured(trial) == ((3, 4, 5), 10, "last")
        assert trial.config.training.steps == 5
    assert found.baselines == {"dot": "scaled", "scaled": "scaled"}


def test_a_plan_is_read_back_from_the_runs_directory(base, tmp_path):
    found = make_plan(compose_experiment(written(base)), tmp_path)
    save_plan(found, tmp_path)
    assert load_plan("mine", tmp_path) == found
    (tmp_path / ".mine.comparison.json").write_text("{")
    with refused("not a valid record: it is not valid JSON"):
        load_plan("mine", tmp_path)


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda path: path.stem)
def test_shipped_experiments_are_valid(path):
    found = compose_experiment(path)
    assert found.settings.description
    groups = groups_of(make_plan(found, Path("none")))
    assert all(len(trials) > 1 for trials in groups.values())  # a single seed shows no spread
    if path.stem != "chapter":
        return
    assert len(groups) == 8  # which differ in score and mask only
    for label, trials in groups.items():
        name = label.replace(", mask_padding=true", "-masked").replace(", mask_padding=false", "")
        expected = load_config(path.parent.parent / f"chapter/{name}.yaml")
        seeds = [expected.model_copy(update={"seed": seed}) for seed in range(1, 11)]
        assert [trial.config for trial in trials] == seeds
