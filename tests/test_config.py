import re
import sys
from functools import reduce
from pathlib import Path

import yaml
from inline import write
from refusal import refusal, refused
from tables import rows, table

from seq2attn.config import check_config, flat_values, load_config, place_of
from seq2attn.config.schema import all_keys, parse_lengths
from seq2attn.errors import Problem, quoted
from seq2attn.registry import Options

WINDOW = "model.attention.window"


def nested(dotted, value):
    """`nested("a.b", 1)` -> `{"a": {"b": 1}}`."""
    for key in reversed(dotted.split(".")):
        value = {key: value}
    return value


def problems(values, *overrides):
    found = refusal(check_config, values, overrides).problems
    return {problem.path: problem.message for problem in found}


# ---- values ----

HALF = "ends with what is not a character; leave it out"


DEFAULTS = yaml.safe_load("""
model.embedding: 32
model.hidden: 96
model.attention.score: scaled
model.attention.mask_padding: true
model.padding_embedding: learned
training.batch_size: 64
training.learning_rate: 0.003
training.clip_norm: 1.0
training.schedule: cosine
task: reverse
task.alphabet: abcdefghijklmnopqrstuvwxyz
""")  # of the specification


def value_at(config, key):
    value = reduce(getattr, key.split("."), config)
    return (
        value.model_dump(mode="json", exclude_defaults=True)
        if isinstance(value, Options)
        else flat_values(config)[key]
    )


def test_defaults_match_the_specification():
    assert {key: value_at(check_config({}), key) for key in DEFAULTS} == DEFAULTS


@table(
    "key, written, kept",
    """
model.attention.score | scaled_dot | scaled
model.attention.score | {name: concat, width: null} | additive
model.attention.score | {name: general, initial_std: 1} | {name: general, initial_std: 1.0}
training.learning_rate | 1 | 1.0
training.clip_norm | null | null
training.watched | ["a\\u0303", b, "\\u00e3"] | ["\\u00e3", b]
evaluation.lengths | [7, 3, 5] | [3, 5, 7]
evaluation.lengths | ["1-3", 12] | [1, 2, 3, 12]
evaluation.lengths | 4 | [4]
evaluation.families | unary | [unary]
model.hidden | 1 | 1
seed | 9223372036854775807 | 9223372036854775807
task.alphabet | "aa\\u0303" | "a\\u00e3"
""",
    "written kept",
)  # a key, and as YAML a value and what it becomes
def test_values_are_normalised(key, written, kept):
    value = value_at(check_config(nested(key, written)), key)
    assert value == kept
    assert type(value) is type(kept)


def test_a_problem_of_a_key_that_is_not_written_is_placed_at_the_nearest_one_above():
    written = {"model": "a:1", "model.attention": "a:2", "model.attention.score": "a:3", "seed": ""}
    assert place_of(Problem("model.attention.heads", "is odd"), written) == "a:2"


def test_every_key_and_every_option_is_documented():
    assert [path for path, field in all_keys() if not field.description] == []
    assert {"model.attention.window.radius", "task.train", "model.heads", "model.cell"} <= dict(
        all_keys()
    ).keys()


# ---- mistakes, each under the key to change ----

TRANSFORMER, NONE = "model.architecture=transformer", "model.attention.score=none"
FOREIGN = "unknown key; allowed here: architecture, dropout,"
NO_STATE = (
    "has no effect, with architecture 'transformer', which has no recurrent state; change one"
)
NO_WEIGHTS = "has no effect, with attention score 'none'; change one of them"
EQUAL = (
    "'dot' needs encoder and decoder states of equal width, but a bidirectional encoder's are "
    "2 x 96 wide and the decoder's 96; use one of general, scaled_general, additive, key_value, or"
)
SCORE, HISTORY = "model.attention.score", "model.attention.history"
NORMALISER = "model.attention.normaliser"
WIDE = f"model.bidirectional=true {SCORE}"
WIDTH = f"{WINDOW}={{name: local_m, width: 3}}"


def separate(overrides):
    """Overrides that are separated by spaces; a value may contain some."""
    return re.split(r" (?=[a-z_.]+=)", overrides)


@table(
    "overrides, key, message",
    f"""
model.hidden="64" | model.hidden | should be a whole number, found '64'
task.alphabet=null | task.alphabet | should be text, found nothing; an empty string is written ""
model.hidden=0 | model.hidden | should be at least 1, found 0
model.bidirectional=yes | model.bidirectional | should be true or false, found 'yes'
model=null | model | unknown architecture 'None'; allowed: gru, transformer
{WINDOW}=null | {WINDOW} | unknown window 'None'; allowed: global,
model=gruu | model | unknown architecture 'gruu'; did you mean 'gru'? allowed: gru, transformer
model.dropout=1.0 | model.dropout | should be below 1.0, found 1.0
model.padding_embedding=one | model.padding_embedding | should be 'learned' or 'zero', found 'one'
task.alphabet=abca | task.alphabet | repeats 'a'
task.alphabet="a\\nb" | task.alphabet | must have characters, none of which ends a line; found
seed={2**63} | seed | should be below {2**63}, found {2**63}
training.learning_rate="3e-3" | training.learning_rate | should be a number, found '3e-3'
training.learning_rate=.inf | training.learning_rate | should be a finite number, found inf
evaluation.lengths=[] | evaluation.lengths | no length given
evaluation.lengths={{a: 1}} | evaluation.lengths | {{'a': 1}} is not a length
evaluation.families=unray | evaluation.families | unknown family 'unray'; did you mean 'unary'?
task={{name: translate}} | task | unknown task 'translate'; allowed: reverse,
model.attention.score=bilinaer | model.attention.score | unknown score 'bilinaer'; did you mean
model.hiden=1 | model.hiden | unknown key; did you mean 'hidden'? allowed here: architecture,
modle=1 | modle | unknown key; did you mean 'model'? allowed here: evaluation, model, seed, task,
hidden=1 | hidden | unknown key; allowed here: evaluation, model, ... elsewhere: model.hidden
model.kernel=1 | model.kernel | unknown key; allowed here: ... elsewhere: {HISTORY}.kernel
training.zzz=1 | training.zzz | unknown key; allowed here: batch_size, clip_norm,
{SCORE}=additive {WIDTH} | {WINDOW}.width | unknown key of 'local_m'; ... elsewhere: {SCORE}.width
{SCORE}=general {WIDTH} | {WINDOW}.width | unknown key of 'local_m'; allowed here: centre, radius
{SCORE}={{name: general, width: 3}} | {SCORE}.width | unknown key of 'general'; allowed here:
model.kernel=3 | model.kernel | unknown key; ... elsewhere: {HISTORY}.kernel
weight=1 | weight | unknown key; ... elsewhere: training.losses.weight
training.losses=[coverage] weight=1 | weight | unknown key; allowed here: evaluation,
heads=2 | heads | unknown key; ... elsewhere: model.attention.heads
{TRANSFORMER} {WINDOW}=local_p | model.attention | {FOREIGN}
model.heads=2 | model.heads | unknown key; ... elsewhere: model.attention.heads
{TRANSFORMER} training.encoder_reset=0.5 | training.encoder_reset | {NO_STATE}
{TRANSFORMER} model.hidden=30 | model.hidden | 30 is not a multiple of model.heads, 4; change
{NONE} training.decoder_reset=0.2 | training.decoder_reset | destroys all that is known
{NONE} {WINDOW}=local_m | {WINDOW} | {NO_WEIGHTS}
{NONE} model.attention.scalable_softmax=true | model.attention.scalable_softmax | {NO_WEIGHTS}
{NONE} training.losses=coverage | training.losses | reads attention weights, with
{NONE} model.initial_state=zeros | model.initial_state | leaves the decoder no way to
model.decoder.input_feeding=true | model.decoder.input_feeding | unknown key of 'bahdanau'; allowed
model.attention.history={{name: location, kernel: 4}} | model.attention.history.kernel | must be
{WINDOW}={{name: local_m, centre: left}} | {WINDOW}.centre | should be 'monotonic' or 'reversed'
{WINDOW}.radius=3 | {WINDOW}.radius | unknown key of 'global'; allowed here: none
task.min_length=9 task.max_length=3 | task.min_length | 9 is above task.max_length, 3; change
task.symbols=62 task.alphabet=abc | task.symbols | is set, and so is task.alphabet; set
task.symbols=129 | task.symbols | should be at most 128, found 129
training.warmup=6 training.steps=5 | training.warmup | 6 is above training.steps, 5; change
training.target=0.9 evaluation.lengths=13,20 | training.target | no length of evaluation.lengths
{WIDE}=dot | model.attention.score | {EQUAL}
{NORMALISER}=sigmoid model.attention.history=shift | {NORMALISER} | 'sigmoid' cannot work with
training.steps= | training.epochs | set either this or training.steps, and the other to null
training.epochs=3 | training.epochs | task 'reverse' draws its examples
""",
)  # overrides, the key to change, how the message begins, and after `...` what else it says
def test_a_mistake_is_reported_under_the_key_to_change(overrides, key, message):
    found = problems({}, *separate(overrides))
    assert list(found) == [key]
    begins, _, says = message.partition(" ... ")
    assert found[key].startswith(begins)
    assert says in found[key]
    assert ("elsewhere: " in says) == ("elsewhere: " in found[key])
    assert len(found[key]) < 300


@table(
    "overrides",
    f"""
task.min_length=3 task.max_length=3
training.warmup=5 training.steps=5
training.target=0.9 evaluation.lengths=12,20
evaluation.lengths=[13]
{TRANSFORMER} training.losses=coverage
{WIDE}=none model.layers=2
{WIDE}=general model.initial_state=last
""",
)
def test_valid_combinations_are_accepted(overrides):
    check_config({}, separate(overrides))


@table(
    "overrides, paths",
    f"""
task.min_length=9 task.max_length=3 seed=-1 typo=1 | seed task.min_length typo
training.steps=many training.warmup=1000000000 | training.steps
model.hidden=0 {NONE} model.initial_state=zeros | model.hidden model.initial_state
{WIDE}=dto | model.attention.score
model.attention.score={{name: nne, width: 3}} | model.attention.score
model.architecture=transfomer model.heads=2 | model
{WIDE}={{name: dot, width: 3}} | model.attention.score model.attention.score.width
""",
)  # overrides, and the keys with problems; warmup depends on steps, which are invalid
def test_all_problems_are_reported_together_but_not_those_that_follow_from_others(overrides, paths):
    assert sorted(problems({}, *separate(overrides))) == paths.split()


# ---- overrides ----


@table(
    "overrides, key, expected",
    """
[" seed = 7 "] | seed | 7
["training.clip_norm="] | training.clip_norm | null
["evaluation.lengths=3-5"] | evaluation.lengths | [3, 4, 5]
['task.alphabet="ab "'] | task.alphabet | "ab "
["model={embedding: 4}"] | model.hidden | 96
["model.embedding=4"] | model.hidden | 64
training.steps=500 | training.steps | 500
{training.learning_rate: 1.0e-5, seed: 3} | training.learning_rate | 1.0e-5
{model.attention.window: {name: local_m, radius: 3}} | model.attention.window
  | {name: local_m, radius: 3}
""",
    "overrides expected",
)
def test_an_override_replaces_the_value_of_the_file(overrides, key, expected):
    values = {"seed": 1, "model": {"hidden": 64}}
    assert value_at(check_config(values, overrides), key) == expected
    assert values == {"seed": 1, "model": {"hidden": 64}}


LOCAL_P = "{name: local_p, radius: 4}"


@table(
    "written, overrides, part",
    f"""
global | {WINDOW}=local_m {WINDOW}.radius=3 | {{name: local_m, radius: 3}}
global | {WINDOW}.radius=3 {WINDOW}=local_m | {{name: local_m, radius: 3}}
null | {WINDOW}.radius=3 {WINDOW}=local_m | {{name: local_m, radius: 3}}
{LOCAL_P} | {WINDOW}.radius=3 | {{name: local_p, radius: 3}}
{LOCAL_P} | {WINDOW}=local_m | {{name: local_m, radius: 4}}
{LOCAL_P} | {WINDOW}={{name: global}} | global
{LOCAL_P} | {WINDOW}={{name: local_m}} | local_m
""",
    "written part",
)  # the window of the file, overrides, what it becomes: a mapping replaces all of it
def test_an_override_of_a_part_or_its_options(written, overrides, part):
    assert value_at(check_config(nested(WINDOW, written), separate(overrides)), WINDOW) == part


@table(
    "override, message",
    f"""
seed | expected KEY=VALUE with a dotted key, such as model.hidden=64
{".".join("a" * 21)}=1 | expected KEY=VALUE
seed.more=3 | seed has no keys below it
seed=[ | value:1: not plain YAML
seed=!!str 3 | value:1: not plain YAML: found an alias, a tag
""",
)
def test_an_invalid_override_is_quoted(override, message):
    (problem,) = refusal(check_config, {"seed": 1}, [override]).problems
    assert problem.message.startswith(message)
    assert problem.where == f"--set {quoted(override)}"


# ---- lengths ----


@table(
    "lengths, expected",
    """
[7, "3", 5, 3] | [3, 5, 7]
["3,", "5,", "7"] | [3, 5, 7]
[" 3 - 4 , 6 "] | [3, 4, 6]
100000 | [100000]
[] | "no length given; allowed: whole numbers from 1 to 100,000 and ranges of them such as 3-10"
[0] | "'0' is not a length; allowed: whole numbers from 1 to 100,000 and ranges of them such as"
[0-3] | "'0-3' is not a length"
[100001] | "'100001' is not a length"
[10-3] | "'10-3' is not a length"
["3,,5"] | "'' is not a length"
["٣"] | "'٣' is not a length"
[true] | True is not a length
[[3]] | "[3] is not a length"
""",
    "lengths expected",
)
def test_lengths(lengths, expected):
    if isinstance(expected, list):
        assert parse_lengths(lengths) == (*expected,)
        return
    assert str(refusal(parse_lengths, lengths)).startswith(expected)


# ---- text that no file can hold ----


HALVES = f"""
train -c a.yaml | a\\ud800' {HALF}
inspect a.yaml | {HALF}
train -c d\udcff/pairs.yaml | d\\udcff' {HALF}
compare grid.yaml | {HALF}
compare -c scaled --vary task.alphabet="a\\ud800",b | unacceptable character #xd800
"""  # a command, and what it says


def test_a_lone_surrogate_in_a_file_is_refused_before_a_run_is_made(cli, tmp_path):
    folder = tmp_path / "d\udcff"  # a name in Latin-1
    write(folder / "pairs.yaml", "task: {name: pairs, train: a.tsv, dev: a.tsv}")
    write("a.yaml", 'seed: 1\ntask: {alphabet: "a\\ud800"}')
    write("grid.yaml", "configs: a.yaml\nvary: {seed: 1-2}")
    for words, where in rows(HALVES):
        assert where in cli(words).refusal
    assert not Path("runs").exists()
    with refused(HALF):
        check_config({"training": {"watched": ["ab", "\udcff"]}})


def test_unknown_keys_cost_time_in_proportion_to_their_number(tmp_path):
    def calls(count):
        """How many functions are called until a file with so many unknown keys is refused."""
        made = 0

        def counted(frame, event, _):
            nonlocal made
            made += event == "call"

        file = tmp_path / "unknown.yaml"
        file.write_text("".join(f"k{number}: 1\n" for number in range(count)))
        before = sys.getprofile()
        sys.setprofile(counted)
        try:
            with refused(f"{count} problems"):
                load_config(file)
        finally:
            sys.setprofile(before)
        return made

    assert calls(900) < 3.3 * calls(300)
