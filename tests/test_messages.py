"""A user's mistake is one clear message: exit code 2, nothing on standard output, no traceback, and
no file changed.
"""

import contextlib
import os
import shlex
import shutil
from pathlib import Path

import pytest
import typer
import yaml
from inline import contents, process, write
from tables import rows, table

from seq2attn import __version__, train
from seq2attn.cli.app import app
from seq2attn.runs.run import Run, training_lock

FILES = yaml.safe_load(r"""
good.yaml: "model: {hidden: 8, embedding: 4}\ntraining: {steps: 1}\n"
plugin.py: "x = 1\n1 / 0\n"
scaled.yaml: "seed: 1"
empty.yaml: ""
dates.yaml: "task: dates"
alone.yaml: "configs: good.yaml\n"
pairs.yaml: "task: {name: pairs, train: words.tsv, dev: words.tsv}\nmodel: {hidden: 8}\n\
  training: {epochs: 3, batch_size: 1}\n"
words.tsv: "a\tb\nb\ta\n"
short.yaml: "task: {max_length: 3}"
mine.html: "<title>mine</title>"
grid.yaml: "confgs: good.yaml\nmetric: exact\nlengths: [0]\nsamples: many\n"
axes.yaml: "configs: good.yaml\nvary:\n  seed: 3-1\n  model.hidden: []\n"
values.yaml: "configs: good.yaml\nset: {seeed: 1}\nvary:\n  model.hidden: [8, -1, [1]]\n"
places.yaml: "seed: x\nmodel:\n  hiden: 8\n  bidirectional: true\n  attention:\n\
  \    score: {width: 3}\n"
tag.yaml: "seed: !!int 3\n"
tags.yaml: "configs: good.yaml\nvary:\n  seed: !!int 3\n"
piped.yaml: "configs: pipe.yaml\n"
there/dev.tsv: "a\tb\n"
figures/both-loss.png: mine
other/e-seed_1/notes.txt: mine
""")


def message_of(cli, line, folder):
    """The message, after the checks common to all mistakes."""
    before = contents(folder)
    done = cli("", *shlex.split(line))
    assert done.refusal.count("error: ") == 1
    assert contents(folder) == before
    return done.err.partition("error: ")[2].rstrip("\n")


def write_files(folder):
    for name, text in FILES.items():
        write(folder / name, text)


@pytest.fixture
def mistake(cli, tmp_path):
    """`mistake("eval --lengths 0")` -> the message."""
    write_files(tmp_path)
    return lambda line: message_of(cli, line, tmp_path)


@pytest.fixture(scope="module")
def folder(tiny_run, tmp_path_factory):
    """With a run `tiny`, a run on pairs in its own folder of runs, and files: none is changed."""
    folder = tmp_path_factory.mktemp("mistakes")
    write_files(folder)
    os.mkfifo(folder / "pipe.yaml")
    shutil.copytree(tiny_run.runs, folder / "runs")
    with contextlib.chdir(folder):
        train("pairs.yaml", name="words", runs_dir="pairs", device="cpu", progress=False)
    return folder


# ---- commands ----


@table(
    "line, first",
    """
foo | train, eval
plot foo | acc
analyze foo | var
""",
)
def test_an_unknown_command_is_told_the_known_ones_and_help_shows_each_in_full(
    mistake, cli, monkeypatch, line, first
):
    told = mistake(line)
    group = line.split()[:-1]
    names = told.splitlines()[1].removeprefix("Commands: ")
    assert told.startswith("No such command 'foo'")
    assert names.startswith(first)
    monkeypatch.setenv("COLUMNS", "80")
    shown = cli(*group)
    assert (shown.code, shown.err) == (2, "")
    assert "Usage: seq2attn" in shown.out
    listed = shown.out.partition("Commands:")[2]
    assert all(f"\n  {name} " in listed for name in names.split(", "))
    assert "..." not in listed


# ---- configs: their messages are tested in test_config.py ----


PROBLEMS = """
bad.yaml: 4 problems
expected KEY=VALUE with a dotted key, such as model.hidden=64 (--set 'steps')
seed (--set 'seed=x'): should be a whole number, found 'x'
model.embedding (--set 'model.embedding=0'): should be at least 1, found 0
model.hiden (bad.yaml:1): unknown key; did you mean 'hidden'? allowed here: architecture, attention,
bidirectional, cell, decoder, dropout, embedding, encoder, hidden, initial_state, layers,
padding_embedding, source_eos
`seq2attn inspect CONFIG` shows every key with its value. A part of your own needs --plugin FILE.
"""


def test_problems_of_file_and_overrides_are_reported_together(mistake):
    write("bad.yaml", "model: {hiden: 8}\n")
    message = mistake("train -c bad.yaml --set seed=x --set model.embedding=0 --set steps")
    assert " ".join(message.split()) == " ".join(PROBLEMS.split())
    assert message.count("\n") == 5


# ---- one table: a command, and what its message says, once each ----

EMPTY = "empty.yaml: expected keys and values"
FEW = "the task Dates cannot be measured on unary; its families: random"
FORMAT = "a figure's file name ends with one of .png, .svg, .pdf"
GRID = "compare -c good.yaml --vary"
ALL_PAIRS = "runs on pairs are measured on all pairs of their dev file"
GROUPS = "and is otherwise additive, hidden=8; the groups are: additive, hidden=8;"
SCORES = f"{GRID} model.attention.score=additive,dot --vary model.hidden=8,16 --vary seed=1-2"
DASK = "--executor: expected dask:ADDRESS, such as dask:tcp"
LENGTHS = "allowed: whole numbers from 1 to 100,000 and ranges of them such as 3-10"
NO_RUN = "no run 'tyny' in runs; did you mean 'tiny'? existing: tiny"
NOT_A_FOLDER = "Invalid value for '--runs-dir' (env var: 'SEQ2ATTN_RUNS'):"
MEASURED = "run 'words' is measured on all pairs of a file"
ON_PAIRS = "eval --runs-dir pairs"
OR_CONTINUE = "Choose another name, or continue it: seq2attn train --resume tiny"
OUTSIDE = " is not in the runs directory, runs"
PAGE = "page tiny --to"
PAIRS = "train -c pairs.yaml --set task."
RATES = "training.learning_rate=log:"
PIPE = "pipe.yaml: cannot be read: not a plain file"
SHORT = "no source has 8 characters"
TAG = "not plain YAML: found an alias, a tag, or more than 20 levels; write plain values"
UNCHANGED = "--config, --set, --name and --note are for new runs"
UNSEEN = "; its alphabet is a b c d e f g h i j k l m n o p q r s t u v w x y z"
ZERO = "plugin plugin.py:2: ZeroDivisionError: division by zero"
MISTAKES = f"""
evl | No such command 'evl' | See: seq2attn --help
eval --samples 0 | Invalid value for '--samples' | See: seq2attn eval --help
train --threads 300 | Invalid value for '--threads' | See: seq2attn train --help
analyze variance --query-mean x | Invalid value for '--query-mean' | See: 
eval --smaples 5 | No such option: --smaples | --samples | See: seq2attn eval --help
predict | Missing argument 'TEXT' | For example: seq2attn predict | See: seq2attn predict --help
plot accuracy | Missing option '--plot' | For example: seq2attn plot accuracy
predict ab --run | Option '--run' requires an argument | See: seq2attn predict --help
eval --lengths 3 --lengths | Option '--lengths' requires an argument | See: seq2attn eval --help
eval --json=3 | Option '--json' does not take a value | See: seq2attn eval --help
inspect one two | Got unexpected extra argument | See: seq2attn inspect --help
train | give either --config FILE or --resume RUN | For example: seq2attn train --config
train -c empty.yaml | {EMPTY} | One line is enough:
inspect empty.yaml | {EMPTY} | One line is enough:
train -c scale.yaml | scale.yaml: no such file | There are: scaled.yaml,
train -c good.yaml --name tiny | run 'tiny' already exists in runs | {OR_CONTINUE}
train --resume tiny -c good.yaml | {UNCHANGED} | For a
train --resume tiny --set seed=2 | {UNCHANGED} | For a
train --resume tiny --name other | {UNCHANGED} | For a
train --resume tiny --note text | {UNCHANGED} | For a
runs --sort exact_match_man | unknown --sort key 'exact_match_man'; did you mean
runs --sort s | unknown --sort key 's'; allowed: run,
train -c good.yaml --name ../x | '../x' is not a valid run name; allowed: letters, digits,
train -c good.yaml --device gpu | --device: 'gpu' is not available
eval --device gpu | --device: 'gpu' is not available
train -c good.yaml --plugin plugin.py | {ZERO}
eval --plugin plugin.py | {ZERO}
predict abc --plugin plugin.py | {ZERO}
list --plugin plugin.py | {ZERO}
eval --data good.yaml --errors ./good.yaml | is not a table of wrong answers
eval --lengths --json | --lengths: '--json' is not a length; {LENGTHS}
eval --lengths 3 tiny2 | no run 'tiny2' in runs; did you mean 'tiny'? existing: tiny
eval tyny | {NO_RUN}
predict abc --run tyny | {NO_RUN}
train --resume tyny | {NO_RUN}
eval ../tiny | '../tiny'{OUTSIDE}
eval /tiny | '/tiny'{OUTSIDE}
eval elsewhere/tiny | 'elsewhere/tiny'{OUTSIDE}
eval runs/../../tiny | 'runs/../../tiny'{OUTSIDE}
predict abc --run ../tiny | '../tiny'{OUTSIDE}
train --resume ../tiny | '../tiny'{OUTSIDE}
eval runs/tiny/.. | '..' is not a valid run name;
eval --checkpoint newest | unknown checkpoint 'newest';
predict abc --checkpoint newest | unknown checkpoint 'newest';
predict abc --plot map.gif | map.gif: {FORMAT}
predict abc --plot map | map: {FORMAT}
predict abc --plot map.png.txt | map.png.txt: {FORMAT}
predict Hello! | 'Hello!' has symbols the model never saw: '!', 'H'{UNSEEN}
predict abc héllo | 'héllo' has symbols the model never saw: 'é' (U+00E9){UNSEEN}
predict 'a b' | 'a b' has symbols the model never saw: ' '{UNSEEN}
predict abc --map foo | Invalid value for '--map': 'foo' is not one of 'colour', 'digits', 'none'
predict abc '' | '' has no symbol, or an empty one | Give at least one symbol.
list score | unknown kind 'score'; did you mean 'scores'? allowed: scores, tasks,
check dot --require causal | --require, --allow, --call, --sizes, --widths and | need --attention
check mine.py:Mine | unknown part 'mine.py:Mine'; | an attention in a file: --attention FILE:NAME
check dto | unknown part 'dto'; did you mean 'dot'? allowed: score/dot,
check score/none | unknown part 'score/none'
check score/dto | unknown part 'score/dto'; did you mean 'score/dot'? allowed: score/dot,
inspect tinny | no run 'tinny' in runs; did you mean 'tiny'? | `seq2attn config` lists the configs
runs --runs-dir good.yaml | {NOT_A_FOLDER}
eval --runs-dir good.yaml | {NOT_A_FOLDER}
train -c good.yaml --runs-dir good.yaml | {NOT_A_FOLDER}
{GRID} seed=1 --runs-dir good.yaml | {NOT_A_FOLDER}
report --runs-dir good.yaml | {NOT_A_FOLDER}
inspect x --runs-dir good.yaml | {NOT_A_FOLDER}
train -c good.yaml --set model.attention.score=mine | good.yaml: 1 problem
{GRID} seed=1-9999 --vary model.hidden=8,9 | 19,998 trials; at most 10,000 are allowed
{GRID} seed=1 --vary seed=2 | --vary names seed twice
{GRID} seed=1 --checkpoint x | checkpoint (--checkpoint): should be 'best' or 'last'
{GRID} seed=1 --baseline seed | expected KEY=VALUE
{GRID} seed=1 --name a/b | is not a valid run name
{GRID} seed=1 --plot good.yaml | good.yaml is not a folder
{GRID} seed=1 -c goood.yaml | goood.yaml: no such file
{GRID} seed=1 --device tpu | --device: 'tpu' is not available
{GRID} seed=1 --metric wer | metric: wer is measured on files of pairs
{GRID} seed=1 --metric entropy --set model.attention.score=none | metric: entropy is of attention
compare -c dates.yaml --vary seed=1-2 --metric alignment | metric: alignment needs the source
compare -c pairs.yaml --vary seed=1-2 --metric alignment | which pairs lacks
{GRID} seed=1 --executor desk | {DASK}
{GRID} seed=1 --executor dask | {DASK}
{GRID} seed=1 --executor dask: | {DASK}
{GRID} seed=1 --executor dask:foo | {DASK}
{GRID} seed=1 --executor dask:foo:bar | {DASK}
{GRID} seed=1 --executor dask:http://127.0.0.1:9 | {DASK}
{GRID} seed=1 --executor dask:tcp://a | {DASK}
{GRID} seed=1 --executor tcp://a:1 | {DASK}
{GRID} seed=1 --executor '' | {DASK} | found ''
{GRID} training.learning_rate=log:1e-4..1e-2:1 | log:FIRST..LAST:COUNT with 0 < FIRST
{GRID} model.attention.score=additive,concat | additive-seed_1 is there 2 times
{GRID} seed=1,1-2 | compare-good-seed_1 is there 2 times
{GRID} model.layers=1,2,1,1 | compare-good-layers_1-seed_1 is there 3 times
{GRID} seed=1 alone.yaml | expected an experiment file, or --config
compare | expected an experiment file, or --config FILE and --vary | compare --help
compare good.yaml | model (good.yaml:1): unknown key | compare -c CONFIG --vary seed=1-5
compare -c good.yaml | nothing to compare | For example: --vary seed=1-5
compare alone.yaml | nothing to compare | For example: --vary seed=1-5
compare -c dates.yaml --vary seed=1-2 --families unary | {FEW}
train -c dates.yaml --set evaluation.families=[unary] | {FEW}
compare -c dates.yaml --vary seed=1-2 --set task=addition --lengths 7,8 | {SHORT}
train -c dates.yaml --set task=addition --set evaluation.lengths=[7,8] | {SHORT}
eval --families unray | --families: | did you mean 'unary'
train -c dates.yaml --set evaluation.families=[unray] | evaluation.families (--set | 'unary'
predict abc --beam 0 | --beam
predict a --ideal | --ideal outlines cells of a figure
analyze variance --samples 1 | Invalid value for '--samples'
analyze variance --seed -1 | Invalid value for '--seed'
analyze variance --seed 9223372036854775808 | Invalid value for '--seed'
analyze variance --widths 0 | Invalid value for '--widths'
analyze variance --widths 16 x | '--widths': should be a whole number
analyze variance --scores scalde | unknown score 'scalde'; did you mean 'scaled'?
analyze variance --scores none | 'none' has no score function
analyze variance --scores nonn | unknown score 'nonn'; did you mean 'none'? allowed: dot,
analyze variance --plot figure.jpg | figure.jpg: {FORMAT}
analyze entropy --keys 5000 | Invalid value for '--keys'
analyze gradient --scales 0 | Invalid value for '--scales'
analyze ledger --scores mine | unknown score 'mine'
plot attention --string bac --plot x.png | no recorded attention for 'bac'; recorded:
plot accuracy --plot x.gif | {FORMAT}
plot attention --plot x.gif | {FORMAT}
plot accuracy --plot good.yaml/x.png | good.yaml is not a folder
plot accuracy tiny tiny2 --by-length --plot x.png | no run 'tiny2'
report tinny | no run 'tinny' in runs; did you mean
report good tiny | no run 'good' in runs
report tiny --to good.yaml/page.html | good.yaml/page.html: good.yaml is not a folder
train -c good.yaml --set training.watched=[ab,x1] | training.watched: | '1'
train -c good.yaml --set "training.watched=''" | training.watched: '' has no symbol, or an empty one
train -c good.yaml --set training.watched={95 * "a"} | training.watched: 'aaa | is too long to draw
train -c dates.yaml --set training.losses=attentive_guidance | which task 'dates' does not know
split words.tsv --by nothing --set task.header=true | 'nothing' names 0 columns
split words.tsv --by 5 | there is no column 5; lines have 2
split words.tsv | too few words, or values to split by: none is left for dev
{ON_PAIRS} | is measured on a file of pairs, which a run's own config never opens
{ON_PAIRS} --data wrods.tsv | wrods.tsv: cannot be read: No such file
{ON_PAIRS} --data words.tsv --lengths 3 | {MEASURED}; leave out lengths
{ON_PAIRS} --data words.tsv --samples 3 --seed 2 | {MEASURED}; leave out samples and seed
{ON_PAIRS} --data words.tsv --per word | per: 'word'; allowed: type, token
{ON_PAIRS} --data words.tsv --paired | --paired compares two runs or more on a file of pairs
eval --data words.tsv | run 'tiny' is on task 'reverse'
{PAIRS}train=trian.tsv | trian.tsv: cannot be read: No such | train takes --set task.train=FILE
{PAIRS}delimiter=';;' | must be one character, such as ',' or ';'; found ';;'
{PAIRS}train=. | cannot be read: Is a directory
{PAIRS}target_column=3 | 2 of 2 lines cannot be read | 2 lines (1, 2): columns: found 2, expected 3
{PAIRS}target_column=1 | 1 is also task.source_column; name another column
{PAIRS}columns=1 | 1 is below the last column that is used, 2
{PAIRS}train=null | task.train (--set 'task.train=null'): is missing: name the file of pairs
{PAIRS}target_separator='"\t"' | must not contain a tab or a line end
{PAIRS}skip_bad=0 --set training.steps=5 | set either this or training.steps, and the other to null
{PAIRS}skip_bad=0 --set training.warmup=7 | 7 is above the 6 steps of training: 3 epochs of 2
compare -c pairs.yaml --vary seed=1-2 --set task.train=none.tsv | none.tsv
compare -c pairs.yaml --vary seed=1-2 --lengths 3 | lengths: {ALL_PAIRS}
compare -c pairs.yaml --vary seed=1-2 --samples 3 | samples: {ALL_PAIRS}
train configs/x.yaml | For example: seq2attn train --config configs/scaled.yaml | See: seq2attn
inspect -c x.yaml | No such option: -c | For example: seq2attn inspect configs/scaled.yaml | See:
eval --run mine | No such option: --run | For example: seq2attn eval scaled-001 --lengths 3 5
report -r mine | No such option: -r | For example: seq2attn report scaled-001 | See: seq2attn
config pairs/smal | pairs/smal: no such file | There are: configs/pairs/small.yaml,
config ../x | ../x: no such file | There are:
check dot --expect 's + k' | name 'k' is not defined
{PAGE} good.yaml/x.html | good.yaml/x.html: good.yaml is not a folder
{PAGE} mine.html | mine.html exists and is not a page
page tiny tiny tiny | a page shows one run, or two side by side
page tiny --text ABC | 'ABC' has symbols the model never saw
page --train good.yaml --train good.yaml | --train takes one config, or two of different names
page --train good.yaml --checkpoint last | --checkpoint and --snapshots choose weights of a run
page --train good.yaml --snapshots 2 | --train begins untrained
page --train good.yaml --train dates.yaml | vocabularies differ
page --train good.yaml --train short.yaml | task and training.batch_size must be equal
{GRID} seed | --vary 'seed' | expected KEY=VALUE,VALUE,...
{GRID} 'seed= ' | --vary 'seed= ' | expected KEY=VALUE,VALUE,...
{GRID} seed=3-1 | --vary 'seed=3-1' | '3-1': expected FIRST-LAST, counting up
{GRID} seed=0-99999999999999999 | at most 10,000 numbers
{GRID} seed=[1 | --vary 'seed=[1'
{GRID} {RATES}1e-2..1e-4:8 | --vary '{RATES}1e-2..1e-4:8' | 'log:1e-2..1e-4:8': expected log:
{GRID} {RATES}1..1e999:3 | expected log:FIRST..LAST:COUNT with
{GRID} config=a,b | not a config key; list base configs with --config FILE
{GRID} train=a,b | not a config key; list base configs with --config FILE
{SCORES} --baseline model.attention.score=dott | no group has model.attention.score="dott" {GROUPS}
{SCORES} --baseline model.hiden=8 | no group has model.hiden=8 {GROUPS}
{SCORES} --baseline seed=1 | no group has seed=1 {GROUPS}
compare grid.yaml | grid.yaml:1): unknown key; did you mean 'configs'? | grid.yaml:2): should be
compare grid.yaml | grid.yaml:3): '0' is not a length | grid.yaml:4): should be a whole number
compare axes.yaml | axes.yaml:3): '3-1': expected | axes.yaml:4): no values
compare values.yaml | values.yaml:2): unknown key | at least 1, found -1 | number, found [1]
train -c pairs.yaml --set task.source_column=1000 | expected 1000
compare -c pairs.yaml --vary task.source_column=0,1 | must be a column's number, from 1 to 1,000
inspect places.yaml --set seed --set training.steps=0 --set 'model={{heads: 2}}'
  | places.yaml: 4 problems | (--set 'seed') | seed (places.yaml:1)
  | training.steps (--set 'training.steps=0') | model.heads (--set 'model={{heads: 2}}')
inspect places.yaml | places.yaml: 4 problems | seed (places.yaml:1) | model.hiden (places.yaml:3)
  | model.attention.score (places.yaml:6) | model.attention.score.width (places.yaml:6)
inspect tag.yaml | tag.yaml:1: {TAG}
compare tags.yaml | tags.yaml:3: {TAG}
inspect good.yaml --set 'seed=!!int 3' | {TAG}
{GRID} 'seed=!!int 3' | {TAG}
{GRID} seed=1 --baseline 'seed=!!int 3' | {TAG}
{GRID} model.attention.score=dot,scalde --vary model.hiden=1,2 --vary seed=1-3
  | seq2attn compare: 2 problems | Nothing was run: 12 trials.
  | model.attention.score (--vary 'model.attention.score=dot,scalde'): unknown score 'scalde'
  | model.hiden (--vary 'model.hiden=1,2'): unknown key; did you mean 'hidden'?
{GRID} model.attention.score=dot,general --vary model.bidirectional=false,true --vary seed=1-5
  --set model.initial_state=bridge | 'dot' needs encoder and decoder states of equal width
{GRID} seed=1 --config good.yaml | two base configs are called
{GRID} seed=1 --name e --runs-dir other | other/e-seed_1: cannot be used:
{GRID} seed=1,2 --name both --plot figures | figures/both-loss.png exists and is not a figure
  | Name another file, or replace it with --force.
compare chapter/dot | task (chapter/dot:4): unknown key
compare pipe.yaml | {PIPE}
compare piped.yaml --vary seed=1 | {PIPE}
train --config pipe.yaml | {PIPE}
inspect pipe.yaml | {PIPE}
config pipe.yaml | {PIPE}
split words.tsv --to there | there/dev.tsv exists
split there/dev.tsv --to there --force | there/dev.tsv is FILE itself
check --attention homework.py | --attention homework.py: which attention of the file?
check --attention handed-in/*.py | --attention handed-in/*.py: which attention of the file?
check --attention handedin/*.py:scaled
  | --attention handedin/*.py: no .py or .ipynb file there
"""  # with a run `tiny`


@pytest.mark.parametrize("row", rows(MISTAKES), ids="-".join)
def test_mistakes(cli, folder, monkeypatch, own_scores, row):
    monkeypatch.chdir(folder)
    line, *parts = row
    told = message_of(cli, line, folder)
    assert [part for part in parts if told.count(part) != 1] == []


# ---- runs that are missing or damaged ----

MAKE_ONE = (
    "Make one: seq2attn train --config configs/scaled.yaml    or name another folder of runs: "
    "--runs-dir FOLDER"
)


def test_no_run_yet(mistake):
    for command in ("eval tiny", "predict abc --run tiny", "train --resume tiny"):
        assert mistake(command) == f"no run 'tiny' in runs; existing: none\n{MAKE_ONE}"
    for command in ("eval", "predict abc"):
        here = Path("runs").absolute()
        assert mistake(command) == f"no trained model in {here} yet\n{MAKE_ONE}"
    Path("runs/notes").mkdir(parents=True)
    assert mistake("eval notes").startswith("runs/notes is not a run: it has no config.yaml")


@table(
    "command, which, other",
    """
eval | best | last
predict abc | best | last
train --resume tiny | last | best
""",
)
def test_a_checkpoint_cut_in_half(mistake, runs_copy, command, which, other):
    file = runs_copy / f"tiny/checkpoints/{which}.safetensors"
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    message = mistake(command)
    assert message.startswith(f"runs/tiny/checkpoints/{which}.safetensors: damaged: ")
    assert message.endswith(
        f"\nThe run's other checkpoint may be intact: eval and predict take --checkpoint {other}."
    )


# ---- help ----


def commands(group, path=()):
    """Every command below `group`, by its words."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


COMMANDS = dict(commands(typer.main.get_command(app)))


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_help_explains_every_option_and_keeps_examples_in_one_piece(cli, monkeypatch, words):
    monkeypatch.setenv("COLUMNS", "80")
    done = cli(*words, "--help").check()
    assert done.err == ""
    lines = done.out.splitlines()
    assert lines[0].startswith(f"Usage: seq2attn {' '.join(words)} [OPTIONS]")
    assert max(map(len, lines)) <= 80
    for parameter in COMMANDS[words].params:
        assert parameter.help
        assert all(option in done.out for option in parameter.opts[:1] if "-" in option)
    examples = [
        line.strip()
        for line in COMMANDS[words].help.splitlines()
        if line.strip().startswith("seq2attn ")
    ]
    assert examples
    assert {line for line in examples if len(line) < 74} <= {line.strip() for line in lines}


def test_the_version(cli):
    assert cli("--version") == (0, f"seq2attn {__version__}\n", "")


INTERRUPTED = """\
import os, signal, sys
class AtImport:
    def find_spec(self, name, *_):
        if name == moment:
            os.kill(os.getpid(), signal.SIGINT)
moment = sys.argv.pop(1)
sys.meta_path.insert(0, AtImport())
from seq2attn.__main__ import main
main()
"""


@table(
    "moment",
    """
typer
numpy
""",
)  # which torch imports
def test_an_interrupt_during_an_import_ends_without_a_traceback(tmp_path, runs_copy, moment):
    done = process(tmp_path, "-c", INTERRUPTED, moment, "predict", "abc", "--run", "tiny")
    assert done == (130, "", "")


def test_predict_and_eval_say_that_a_run_is_still_being_trained(cli, runs_copy):
    said = "run tiny is still being trained: using checkpoint best of step "
    for words in ("predict abc", "eval tiny --samples 1"):
        with training_lock(Run(runs_copy / "tiny")):
            assert said in cli(words).err
        assert said not in cli(words).err


# ---- `--lengths 3 5 7` ----


@table(
    "words, lengths",
    """
tiny | 1 2 3  # the config's
tiny --lengths 3 1 | 1 3
--lengths 1 --samples 2 --lengths 3 -- tiny | 1 3
--lengths=2, 3 --samples 2 tiny | 2 3
--families unary,runs all --lengths 1 tiny | 1
""",
)
def test_lengths_reach_the_command(cli, runs_copy, words, lengths):
    assert {row["length"] for row in cli(f"eval {words}").rows()} == {*lengths.split()}
