"""What the README claims of the shipped recipes, by training them: minutes, so `make test-slow`."""

import shlex

import pytest
from measured import places
from tables import table

import seq2attn
from seq2attn.inference.evaluation import evaluate
from seq2attn.parts import FAMILIES

pytestmark = pytest.mark.slow


def trained(tmp_path, config_file, overrides=()):
    """The shipped config, trained to the end: a predictor with the final weights."""
    run = seq2attn.train(config_file, overrides, runs_dir=tmp_path, device="cpu", progress=False)
    return seq2attn.load(run, checkpoint="last", device="cpu").predictor


def measured(predictor, lengths):
    results = evaluate(predictor, lengths, samples=1000, seed=0)
    return {result.length: result for result in places(results)}


FOUR = "scaled additive dot general".split()
MECHANISMS = """
@score=additive model.bidirectional=true model.initial_state=bridge
@score=additive @history=coverage "training.losses=[cross_entropy,{name: coverage,weight: 0.1}]"
@score=additive @history=location
@score=additive @history=monotonic task.name=copy
@score=additive @history=gaussian task.name=copy
@score=additive @history=dynamic_convolution task.name=copy
@score=cosine
@score=key_value
@score=scaled_general
"@window={name: local_m,centre: reversed}"
"@window={name: local_p,radius: 4}"
@scalable_softmax=true
@normaliser=sparsemax
@normaliser=entmax15
@normaliser=sigmoid
@heads=4
model.decoder=luong
"model.decoder={name: luong,input_feeding: true}"
model.decoder=pointer
model.decoder=hard_monotonic task.name=copy
"""  # histories that never, or hardly ever, go back are tried with copies
MECHANISMS = MECHANISMS.replace("@", "model.attention.")
READ = [  # config, overrides: every length is read without error
    *((score, [f"seed={n}"]) for score in FOUR for n in range(1, 6)),
    *(("mechanisms", shlex.split(line)) for line in MECHANISMS.strip().split("\n")),
    ("transformer", []),
    *(("dates", [f"seed={n}"]) for n in (1, 2, 3)),
]


@pytest.mark.parametrize("config, overrides", READ)
def test_the_recipes_read_every_length(config, overrides, tmp_path):
    lengths = range(8, 37) if config == "dates" else range(1, 13)  # of dates that were held out
    results = measured(trained(tmp_path, f"configs/{config}.yaml", overrides), lengths)
    for length, result in results.items():
        assert result.exact_match.value >= 0.999, length
        if config in FOUR:
            assert result.alignment.value >= 0.99, length


@table(
    "task",
    """
reverse
copy
duplicate
""",
)
def test_what_was_learned_on_eight_letters_holds_on_two_hundred_of_any_kind(task, tmp_path):
    predictor = trained(tmp_path, f"configs/records/{task}.yaml")
    results = places(evaluate(predictor, [80, 200], samples=100, seed=0, families=FAMILIES.names()))
    assert not any(result.trained for result in results)
    assert [(one.family, one.length) for one in results if one.exact_match.value < 1] == []


def test_content_alone_goes_beyond_eight_letters_but_not_far(tmp_path):
    results = measured(trained(tmp_path, "configs/records/content.yaml"), [8, 10, 40])
    assert min(results[8].exact_match.value, results[10].exact_match.value) >= 0.97
    assert results[40].exact_match.value < 0.2


@pytest.mark.parametrize("score", FOUR)
def test_the_chapters_models_learn_every_length_once_padding_is_masked(score, tmp_path):
    results = measured(trained(tmp_path, f"configs/chapter/{score}-masked.yaml"), [3, 5, 7])
    for length, result in results.items():
        assert result.teacher_forced.value >= 0.99, length


def test_the_chapters_scaled_model_fails_on_short_strings_without_the_mask(tmp_path):
    results = measured(trained(tmp_path, "configs/chapter/scaled.yaml"), [5, 8])
    assert results[5].teacher_forced.value < 0.6
    assert results[8].teacher_forced.value > 0.9


def test_the_lessons_maps_are_a_diagonal_for_copy(tmp_path):  # not for sort: `test_lesson`
    result = measured(trained(tmp_path, "configs/scaled.yaml", ["task.name=copy"]), [6])[6]
    assert result.exact_match.value > 0.9
    assert result.alignment.value >= 0.8
