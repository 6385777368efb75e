"""docs/plugins.md runs from check to prediction; each mistake in a first plug-in is reported once,
with its line.
"""

import re
import shlex
import sys
from pathlib import Path

import pytest
import torch
from inline import ROOT, read, read_json, write
from refusal import refused
from tables import slow, table

import seq2attn
from seq2attn.parts import EXTENSIBLE, HISTORIES, SCORES
from seq2attn.plugins import load_plugin, load_plugins

pytestmark = pytest.mark.usefixtures("own_scores", "one_place")
PAGE = read(ROOT / "docs/plugins.md")
FOLDER = ROOT / "examples/plugins"
FILES = dict(re.findall(r"```python\n# (\w+\.py)\n(.*?)```", PAGE, re.DOTALL))
FILES |= {path.name: read(path) for path in sorted(FOLDER.glob("*.py"))}
SETTING_OF = dict(re.findall(r"^\|.*plugins/(\w+\.py)\).*\| `(.*)` \|$", PAGE, re.MULTILINE))
COMMANDS = re.findall(
    r"^    seq2attn train (.*--plugin \w+\.py.*)$", PAGE, re.MULTILINE
)  # of the files on the page
for name, setting in SETTING_OF.items():
    COMMANDS.append(f"--config configs/scaled.yaml --plugin {name} --set {shlex.quote(setting)}")
TINY = """
training.steps=1 training.warmup=0 training.batch_size=2 training.validation_samples=1
training.snapshots=0 model.hidden=8 model.embedding=4 evaluation.samples=2 evaluation.lengths=[2,3]
""".split()
SETTINGS = " ".join(f"--set={setting}" for setting in TINY)
SCORE = """\
import torch
from torch import nn
from seq2attn import Score, register

@register("mine", equal_widths=True)
class Mine(Score):
    def __init__(self, query_width, key_width, *, factor: float = 1.0):
        super().__init__(query_width, key_width)
        self.factor = factor

    def forward(self, query, keys):
        return self.factor * query @ keys.mT
"""  # the class is in line 5, its formula in line 12


def file_of(line):
    words = shlex.split(line)
    name = words[words.index("--plugin") + 1]
    write(name, FILES[name])
    return name


SECOND = "quiet fading drifting cope convolutional early_uniform quiet_states rotate".split()


@pytest.mark.parametrize(
    "line",
    [slow(line) if any(f" {one}.py" in line for one in SECOND) else line for line in COMMANDS],
)  # by default one of a kind
def test_each_file_of_the_page_is_checked(cli, line):
    name = file_of(line)
    checked = cli("check --plugin", name).check()
    assert "Rules used the default options" in checked.err
    said = "gradients not compared, since declared straight_through: normaliser/gumbel"
    assert (said in checked.err) == (name == "gumbel.py")


@pytest.mark.parametrize(
    "line",
    [COMMANDS[0], *map(slow, COMMANDS[1:])],
)  # by default that whose code is on the page
def test_each_file_of_the_page_is_trained_and_predicts(cli, line):
    words = shlex.split(line)
    name = file_of(line)
    done = cli(f"train {SETTINGS} --name run --device cpu", *words).check()
    assert done.err.splitlines()[-1] == f"Next: seq2attn eval run --plugin {name}"
    letters = "0369" if "doubling" in name else "hello"
    cli(f"predict {letters} --run run --plugin {name}").check()
    assert cli("eval run --plugin", name).out.count("\texact_match\t") == 2


def test_a_part_that_changes_a_builtin_one_makes_its_makes_weights_as_that_does(cli):
    write("drifting.py", FILES["drifting.py"])
    line = "inspect configs/scaled.yaml --plugin drifting.py --set model.attention.history=drifting"
    said = cli(f"{line} --set model.attention.normaliser=sparsemax").refusal
    assert "'sparsemax' cannot work with history 'drifting', which makes its own" in said


def test_what_an_encoder_without_recurrent_layers_lacks_is_refused(cli):
    write("convolutional.py", FILES["convolutional.py"])
    line = "--plugin convolutional.py --set model.encoder=convolutional"
    reset = "--set model.bidirectional=true --set training.encoder_reset=0.1"
    said = cli(f"train -c configs/general.yaml {line} {reset}").refusal
    assert "model.bidirectional (--set 'model.bidirectional=true'): has no effect, with" in said
    assert "training.encoder_reset (--set 'training.encoder_reset=0.1'): has no effect, wi" in said
    assert "encoder 'convolutional', which has no recurrent layers" in said
    said = cli(f"train -c configs/scaled.yaml {line} --set model.cell=lstm").refusal
    assert "'last' cannot work with encoder Convolutional: its final state has 1 of the 2" in said
    assert not Path("runs").exists()


@pytest.mark.slow  # test_tracing has a loop over positions, which cannot have one
@table(
    "name",
    """
convolutional
attending
""",
)
def test_an_encoder_has_a_page(cli, name):
    plugin = f"--plugin {name}.py"
    write(f"{name}.py", FILES[f"{name}.py"])
    line = f"--set model.encoder={name} --name {name} --device cpu"
    cli(f"train -c configs/general.yaml {plugin} {line} {SETTINGS}").check()
    cli(f"page {name} --to 1.html {plugin}").check()


@pytest.mark.slow
def test_the_plugin_of_the_examples_keeps_the_contract(cli):
    cli("check --plugin", ROOT / "examples/walking.py").check()


def test_walk_tells_the_context_once_how_often_its_keys_were_read():
    load_plugins([ROOT / "examples/walking.py"])
    walk = HISTORIES.choose("walk").make(4, 4, 4)
    # last, total, before
    past = torch.tensor([[[0.2, 0.8, 0.0], [1.0, 0.5, 0.0], [0.0, 0.0, 1.0]]])
    step = seq2attn.AttentionStep(None, past, None, None, None)
    counted = walk.extra_context(torch.tensor([[[0.5, 0.5, 0.0]]]), step)
    assert counted.item() == pytest.approx(0.5 * 1.0 + 0.5 * 0.5)  # shift_by_key: 8 of others


def test_the_page_has_a_file_of_each_kind():
    assert {line.partition("--plugin ")[2].split()[0] for line in COMMANDS} == set(FILES)
    for registry in EXTENSIBLE:
        *_, base = (
            name
            for name in seq2attn.__all__
            if getattr(getattr(seq2attn, name), "registry", None) is registry
        )
        assert re.search(rf"^class \w+\(\w*{base}\)", "\n".join(FILES.values()), re.MULTILINE)


RULES = """
shape arguments randomness steps mask batch padding training context state points parameters
gradients options
""".split()


@table(
    "old, new, rule, message",
    r"""
keys.mT | kees.mT | shape | mine.py:12: NameError: name 'kees' is not defined
self.factor * query @ keys.mT | keys @ query.mT | shape
  | mine.py:5: scores: torch.float32 (3, 6, 4), expected torch.float32 (3, 4, 6)
self.factor * query @ keys.mT | query @ keys.mT, None | shape
  | mine.py:5: scores: tuple of torch.float32 (3, 4, 6), NoneType, expected torch
query, keys) | query, keys, values) | shape
  | mine.py:5: raised TypeError: Mine.forward() missing 1
return | "keys.mul_(2)\n        return" | arguments
  | mine.py:12: RuntimeError: an argument is changed in place; make a new tensor
self.factor * query @ keys.mT | (query @ keys.mT).detach() | gradients
  | mine.py:5: the gradients are not those that
return
  | "if not hasattr(self, 'w'): self.w = nn.Parameter(torch.ones(()))\n        return self.w *"
  | training
  | mine.py:5: decoder.attention.score.w is made in a step, too late to be trained and loaded; make
  it in __init__
""",
    "new",
)
def test_a_broken_rule_is_reported_once_and_those_after_it_are_not_tried(
    cli, old, new, rule, message
):
    write("mine.py", SCORE.replace(old, new, 1))
    done = cli("check --plugin mine.py")
    *passed, broken = done.rows(code=1)
    assert [row["rule"] for row in (*passed, broken)] == RULES[: RULES.index(rule) + 1]
    assert {row["result"] for row in passed} <= {"passed"}
    assert broken["result"].startswith(message)
    assert done.err.count("error: ") == 1


@table(
    "old, new, message",
    r"""
"(Score):" | "(Score)" | "plugin mine.py: SyntaxError: expected ':' (mine.py, line 6)\n"
import torch | "import sys\nsys.exit('bye')" | "plugin mine.py:2: SystemExit: bye"
import torch | import broken
  | "plugin mine.py:1: SyntaxError: invalid syntax (broken.py, line 3)"
"factor: float = 1.0" | "factor: float"
  | "plugin mine.py:5: score 'mine': Mine cannot be made: missing a required argument: 'f"
"(Score):" | "(Score):\n    limits = {'factor': (2.0,)}"
  | "config: 1 problem\n  model.attention.score.factor (--"
"@register" | "# @register"
  | "plugin mine.py: registered nothing\nfrom seq2attn import Score, register "
(Score) | (nn.Module)
  | "plugin mine.py:5: @register('mine') decorates Mine, which is not a part that a "
"@register"
  | "@register('mine')\nclass Other(Score):\n    def forward(self, query, keys): ...\n\n@register"
  | "plugin mine.py:9: score 'mine' is already registered; choose another name\n"
""",
    "old new message",
)
def test_a_plugin_that_cannot_be_used_says_why_and_where(
    cli, tmp_path, monkeypatch, old, new, message
):
    monkeypatch.syspath_prepend(tmp_path)
    write("broken.py", "x = 1\n\nif:\n")
    write("mine.py", SCORE.replace(old, new, 1))
    assert f"error: {message}" in cli("check --plugin mine.py").refusal


def test_parts_may_be_in_a_module_that_the_file_imports(tmp_path, monkeypatch, own_scores):
    monkeypatch.syspath_prepend(tmp_path)
    write(tmp_path / "my_own_scores.py", SCORE)
    write(tmp_path / "all.py", "import my_own_scores\n")
    assert [cls.__name__ for cls in load_plugin(tmp_path / "all.py")] == ["Mine"]
    assert load_plugin(tmp_path / "all.py") == []  # as by a second call of `train`
    monkeypatch.delitem(sys.modules, "my_own_scores")


def test_an_exception_of_a_constructor_is_told_with_its_line(cli):
    code = SCORE.replace("super().__init__(query_width, key_width)", "self.w = nn.Linear(1, 1)")
    write("mine.py", code)
    done = cli("check --plugin mine.py")
    assert done.err.startswith("error: mine.py:8: AttributeError: cannot assign module before")
    assert done.code == 1


@table(
    "old, new, message",
    r"""
'[batch.decoder_output != 0]' | '' | outputs where batch.decoder_output is 0 (<pad>)
.clamp(min=1e-9) | '' | forward returned nan
"decoded.weights\n" | "decoded.weights.detach()\n" | the loss has no gradient
.mean() | .mean(0, True) | forward returned tensor([
needs_attention = True | '' | 'NoneType' object has no attribute 'clamp'
""",
    "old new",
)
def test_a_broken_loss_is_named(cli, old, new, message):
    write("sharp.py", FILES["sharp.py"].replace(old, new, 1))
    assert message in cli("check --plugin sharp.py").out


def test_a_synonym_means_its_part(cli):
    for word in ("multiplicative", "score/multiplicative"):
        assert "score\tgeneral\tgradients\tpassed" in cli(f"check {word}").check().out


def test_the_lengths_of_a_task_are_those_that_it_says(cli, trials_here):
    code = FILES["doubling.py"]
    draw = "        draw = partial("
    write("only.py", code.replace(draw, f"        assert length != 4\n{draw}"))
    done = cli("check --plugin only.py")
    assert done.out.splitlines()[-1].startswith("task\tdoubling\texamples\tonly.py:22: Asserti")
    odd = "    def is_trained(self, length):\n        return length in (3, 5)\n\n    def answer"
    refuse = f"        assert length in (None, 2, 3, 5, 6)\n{draw}"
    write("only.py", code.replace("    def answer", odd).replace(draw, refuse))
    write("grid.yaml", "task: doubling\n")
    grid = f"compare -c grid.yaml --vary seed=1 --plugin only.py --samples 2 {SETTINGS}"
    grid = grid.replace("evaluation.lengths=[2,3]", "evaluation.lengths=null")
    assert [row["length"] for row in cli(grid).rows()] == ["3", "5"]


def test_a_run_tells_that_its_plugin_has_changed(cli, trials_here):
    write("mine.py", SCORE)
    write("tiny.yaml", "model: {attention: {score: mine}, initial_state: last}\n")
    settings = f"-c tiny.yaml --plugin mine.py {SETTINGS}"
    grid = f"compare {settings} --vary seed=1 --lengths 2 --samples 2"
    assert cli(f"train {settings} --name changing --device cpu").code == cli(grid).code == 0
    told = "mine.py has changed since run 'changing' was made"
    assert told not in cli("predict abc --run changing --plugin mine.py").err
    assert len(read_json("runs/changing/environment.json")["plugin_contents"][0]) == 64
    write("mine.py", SCORE.replace("query @", "2 * query @"))
    assert told in cli("predict abc --run changing --plugin mine.py").err
    assert "made before mine.py was changed" in cli(grid).err


def test_whoever_uses_a_run_of_a_plugin_is_told_how(cli, monkeypatch):
    write("mine.py", SCORE)
    write("tiny.yaml", "model: {attention: {score: mine}}\n")
    with monkeypatch.context() as patch:
        patch.setattr(SCORES, "_entries", dict(SCORES._entries))
        run = seq2attn.train("tiny.yaml", TINY, plugins=["mine.py"], device="cpu")
    with refused(r"made with --plugin mine\.py"):
        seq2attn.load(run)
    for words in ("eval", "predict ab --run", "train --resume", "inspect"):
        said = cli(words, run.name).refusal
        assert "unknown score 'mine'" in said
        assert "made with --plugin mine.py" in said
    assert seq2attn.load(run, plugins=["mine.py"]).predict("abc").source == "abc"
    assert seq2attn.evaluate(run, [2], samples=2, plugins=["mine.py"]).lengths == [2]
