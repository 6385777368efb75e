"""What the README claims of the shipped recipes, by training them: minutes, so `make test-slow`."""

import pytest
import torch
from measured import places

from seq2attn.build import build_model, build_training_data
from seq2attn.config import load_config
from seq2attn.display.progress import Display
from seq2attn.inference.evaluation import evaluate
from seq2attn.parts import FAMILIES
from seq2attn.runs.create import NewRun, create_run
from seq2attn.training.loop import Trainer

pytestmark = pytest.mark.slow


def trained(tmp_path, config_file, overrides=()):
    """The shipped config, trained to the end by the trainer itself: a predictor with the final
    weights.
    """
    config = load_config(config_file, overrides)
    run = create_run(NewRun(tmp_path, "recipe", exact=False), config, {})
    cpu = torch.device("cpu")
    trainer = Trainer(
        run, config, build_model(config), cpu, Display(), build_training_data(config, cpu)
    )
    assert trainer.train() is None
    return trainer.predictor


def measured(predictor, lengths):
    results = evaluate(predictor, lengths, samples=1000, seed=0)
    return {result.length: result for result in places(results)}


ADDITIVE, ATTENTION, COPY = "model.attention.score=additive", "model.attention", "task.name=copy"
COVERAGE = "[cross_entropy, {name: coverage, weight: 0.1}]"
FORWARD = (
    "monotonic",
    "gaussian",
    "dynamic_convolution",
)  # histories that never, or hardly ever, go back
READ = [  # config, overrides, lengths: each is read without error
    *[
        (score, [f"seed={n}"], range(1, 13))
        for score in "scaled additive dot general".split()
        for n in range(1, 6)
    ],
    (
        "mechanisms",
        [ADDITIVE, "model.bidirectional=true", "model.initial_state=bridge"],
        range(1, 13),
    ),
    (
        "mechanisms",
        [ADDITIVE, f"{ATTENTION}.history=coverage", f"training.losses={COVERAGE}"],
        range(1, 13),
    ),
    ("mechanisms", [ADDITIVE, f"{ATTENTION}.history=location"], range(1, 13)),
    ("mechanisms", [f"{ATTENTION}.score=cosine"], range(1, 13)),
    ("mechanisms", [f"{ATTENTION}.score=key_value"], range(1, 13)),
    ("mechanisms", [f"{ATTENTION}.score=scaled_general"], range(1, 13)),
    ("mechanisms", [f"{ATTENTION}.window={{name: local_m, centre: reversed}}"], range(1, 13)),
    ("mechanisms", [f"{ATTENTION}.window={{name: local_p, radius: 4}}"], range(1, 13)),
    ("mechanisms", [f"{ATTENTION}.scalable_softmax=true"], range(1, 13)),
    *[
        ("mechanisms", [f"{ATTENTION}.normaliser={name}"], range(1, 13))
        for name in ("sparsemax", "entmax15", "sigmoid")
    ],
    ("mechanisms", [f"{ATTENTION}.heads=4"], range(1, 13)),
    *[
        ("mechanisms", [f"{ATTENTION}.history={name}", ADDITIVE, COPY], range(1, 13))
        for name in FORWARD
    ],
    ("mechanisms", ["model.decoder=luong"], range(1, 13)),
    ("mechanisms", ["model.decoder={name: luong, input_feeding: true}"], range(1, 13)),
    ("mechanisms", ["model.decoder=pointer"], range(1, 13)),
    ("mechanisms", ["model.decoder=hard_monotonic", COPY], range(1, 13)),
    ("transformer", [], range(1, 13)),
    *[("dates", [f"seed={n}"], range(8, 37)) for n in (1, 2, 3)],  # those that were held out
]


@pytest.mark.parametrize("config, overrides, lengths", READ)
def test_the_recipes_read_every_length(config, overrides, lengths, tmp_path):
    results = measured(trained(tmp_path, f"configs/{config}.yaml", overrides), lengths)
    for length, result in results.items():
        assert result.exact_match.value >= 0.999, length
        if config in ("scaled", "additive", "dot", "general"):
            assert result.alignment.value >= 0.99, length


@pytest.mark.parametrize("task", ["reverse", "copy", "duplicate"])
def test_what_was_learned_on_eight_letters_holds_on_two_hundred_of_any_kind(task, tmp_path):
    predictor = trained(tmp_path, f"configs/records/{task}.yaml")
    results = places(evaluate(predictor, [80, 200], samples=100, seed=0, families=FAMILIES.names()))
    assert not any(result.trained for result in results)
    assert [(one.family, one.length) for one in results if one.exact_match.value < 1] == []


def test_content_alone_goes_beyond_eight_letters_but_not_far(tmp_path):
    results = measured(trained(tmp_path, "configs/records/content.yaml"), [8, 10, 40])
    assert min(results[8].exact_match.value, results[10].exact_match.value) >= 0.97
    assert results[40].exact_match.value < 0.2


def test_without_attention_long_strings_do_not_fit_through_the_bottleneck(tmp_path):
    results = measured(trained(tmp_path, "configs/none.yaml"), [2, 12])
    assert results[12].exact_match.value < 0.5 < results[2].exact_match.value


@pytest.mark.parametrize("score", "scaled additive dot general".split())
def test_the_chapters_models_learn_every_length_once_padding_is_masked(score, tmp_path):
    results = measured(trained(tmp_path, f"configs/chapter/{score}-masked.yaml"), [3, 5, 7])
    for length, result in results.items():
        assert result.teacher_forced.value >= 0.99, length


def test_the_chapters_scaled_model_fails_on_short_strings_without_the_mask(tmp_path):
    results = measured(trained(tmp_path, "configs/chapter/scaled.yaml"), [5, 8])
    assert results[5].teacher_forced.value < 0.6
    assert results[8].teacher_forced.value > 0.9


@pytest.mark.parametrize("task, least, most", [("copy", 0.8, 1), ("sort", 0, 0.6)])
def test_the_lessons_maps_are_a_diagonal_for_copy_but_not_for_sort(task, least, most, tmp_path):
    result = measured(trained(tmp_path, "configs/scaled.yaml", [f"task.name={task}"]), [6])[6]
    assert result.exact_match.value > 0.9
    assert least <= result.alignment.value <= most
