"""Parts of plug-ins that are legal but odd, or broken: each trains and resumes exactly, or is refused in one sentence."""

import signal

import pytest
import torch
from models import SIX_STEPS

from seq2attn.config import check_config
from seq2attn.config.plugins import load_plugin, plugin_error
from seq2attn.display.progress import Display
from seq2attn.errors import ConfigError, Seq2AttnError
from seq2attn.runs.checkpoint import load_checkpoint
from seq2attn.runs.load import load_run, measure
from seq2attn.training.session import NewRun, train

pytestmark = pytest.mark.usefixtures("own_scores")

TINY = {
    "task": {"alphabet": "abcd", "max_length": 3},
    "model": {"hidden": 8, "embedding": 4, "initial_state": "last"},
    "training": SIX_STEPS,
}
SCORE = """\
import torch
import torch.nn.functional as F
from torch import nn
from seq2attn.model.scores import Score, register

@register("odd", equal_widths=True)
class Odd(Score):
    def __init__(self, query_width, key_width):
        super().__init__(query_width, key_width)
        {init}

    def forward(self, query, keys):
        scores = query @ keys.mT
        {code}
"""  # the class is in line 6, the code in line 14


def write_score(tmp_path, code, init="pass"):
    """A plug-in with the score `odd`, loaded."""
    (tmp_path / "odd.py").write_text(SCORE.format(code=code, init=init))
    load_plugin(tmp_path / "odd.py")


def configured(*overrides, score="odd"):
    return check_config({**TINY, "model": {**TINY["model"], "attention": {"score": score}}}, overrides)


def trained(folder, config, **settings):
    return train(config, NewRun(folder, "run"), device="cpu", **settings).run


class StopAt(Display):
    def __init__(self, step):
        self.at = step

    def step(self, trial, step, text):
        if step == self.at:
            signal.raise_signal(signal.SIGINT)


# ---- legal but odd ----

LEGAL = {
    "expanded": ("return scores.new_zeros(1, 1, 1).expand(scores.shape)", "pass"),
    "position only": ("return self.w[: keys.size(1)].expand(scores.shape)", "self.w = nn.Parameter(torch.rand(9))"),
    "frozen": ("return scores * self.w", "self.w = nn.Parameter(torch.rand(1), requires_grad=False)"),
    "float64": ("return (scores * self.w).float()", "self.w = nn.Parameter(torch.rand(1).double())"),
    "dropout": ("return F.dropout(scores, 0.5, self.training)", "pass"),
    "buffer": (
        "self.training and self.mean.mul_(0.9).add_(scores.detach().mean() * 0.1); return scores - self.mean",
        'self.register_buffer("mean", torch.zeros(()))',
    ),
    "infinite buffer": (
        "return scores + self.mask[: keys.size(1)].clamp(min=-9)",
        'self.register_buffer("mask", torch.full((9,), -torch.inf))',
    ),
}


@pytest.mark.parametrize("kind", LEGAL)
def test_an_odd_score_trains_resumes_exactly_and_is_evaluated(tmp_path, kind):
    write_score(tmp_path, *LEGAL[kind])
    config = configured("training.weight_decay=0.1")
    whole = trained(tmp_path / "whole", config)
    stopped = trained(tmp_path / "stopped", config, display=StopAt(3))
    assert load_checkpoint(stopped.checkpoint("last")).state["step"] == 3
    torch.manual_seed(99)  # a resumed run does not depend on the generator's state
    assert train(config, stopped, device="cpu").finished
    ours, theirs = (load_checkpoint(run.checkpoint("last")).tensors for run in (whole, stopped))
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(tensor, theirs[name]) for name, tensor in ours.items())
    model = load_run(whole, "last", "cpu")
    assert len(measure(model, [1, 2], samples=2).lengths) == 2
    name = "model.decoder.attention.score.w"
    if kind == "frozen":
        with torch.random.fork_rng():
            assert torch.equal(ours[name], load_checkpoint(stopped.checkpoint("last")).tensors[name])
        assert f"optimiser.exp_avg.{name.removeprefix('model.')}" not in ours
    if kind == "float64":
        assert ours[name].dtype == torch.float64
        assert {one.dtype for other, one in ours.items() if "score.w" not in other} == {torch.float32}


def test_a_tried_plugin_leaves_seeds_and_weights_as_they_are(tmp_path, monkeypatch):
    write_score(tmp_path, LEGAL["dropout"][0])
    before = torch.get_rng_state()
    tried = trained(tmp_path / "tried", configured())
    monkeypatch.setattr("seq2attn.training.session.check_parts", lambda config, task, device: None)
    torch.set_rng_state(before)
    untried = trained(tmp_path / "untried", configured())
    ours, theirs = (load_checkpoint(run.checkpoint("last")).tensors for run in (tried, untried))
    assert all(torch.equal(tensor, theirs[name]) for name, tensor in ours.items())


# ---- refused before training ----


@pytest.mark.parametrize(
    ("code", "init", "message"),
    [
        ("return scores.double()", "pass", "shape: scores: torch.float64, expected torch.float32"),
        ("query.mul_(2); return scores", "pass", "steps: a step changes in place what it was given"),
        (
            "return scores * torch.nan",
            "pass",
            "shape: scores: numbers that are not finite",
        ),
        (
            "return scores - torch.inf",
            "pass",
            "shape: scores: numbers that are not finite",
        ),
        ("return F.dropout(scores, 0.5)", "pass", "in evaluation the model is random"),
        (
            "self.training and self.n.add_(1); return scores",
            'self.register_buffer("n", torch.zeros(()), persistent=False)',
            "training changes the buffer decoder.attention.score.n, which checkpoints leave out",
        ),
        ("return scores if not self.training else scores / self.oops", "pass", "training: odd.py:14: AttributeError"),
    ],
)
def test_a_broken_score_is_refused_before_a_run_is_made(tmp_path, monkeypatch, code, init, message):
    monkeypatch.chdir(tmp_path)
    write_score(tmp_path, code, init)
    with pytest.raises(Seq2AttnError) as caught:
        trained(tmp_path / "runs", configured())
    assert message in caught.value.message
    assert "seq2attn check --plugin odd.py" in caught.value.hint
    assert not (tmp_path / "runs").exists()


WINDOW, HISTORY = "model.attention.window", "model.attention.history"
INITIAL_STATE, DECODER = "model.initial_state", "model.decoder"
PARTS = """\
import torch
from seq2attn.model.scores import register
from seq2attn.model.windows import Window, View
from seq2attn.model.histories import History
from seq2attn.model.cells import Cell
from seq2attn.model.initial_state import InitialState
from seq2attn.model.decoder import BahdanauDecoder
from seq2attn.data.tasks.reverse import Reverse

@register("odd")
class Odd({base}):
{body}
"""


@pytest.mark.parametrize(
    ("base", "body", "key", "message"),
    [
        ("Window", "def forward(self, *inputs): raise KeyError(7)", WINDOW, "shape: odd.py:12: KeyError"),
        ("Window", "def forward(self, *inputs): pass", WINDOW, "shape: raised TypeError: cannot unpack"),
        (
            "History",
            "def forward(self, past, prepared): return past.mT.unsqueeze(1)\n"
            "    def update(self, past, weights): return past.add_(weights.unsqueeze(1))",
            HISTORY,
            "steps: a step changes in place what it was given",
        ),
        (
            "InitialState",
            "def forward(self, encoded): return (encoded.states[:, 0].double(),)",
            INITIAL_STATE,
            "first state, tensor 0: torch.float64",
        ),
        (
            "BahdanauDecoder",
            "def advance(self, embedded, state, memory): return super().advance(embedded[:, :1], state, memory)",
            "model.decoder",
            "decoder 'odd' (class Odd, odd.py): shape: odd.py:12: RuntimeError",
        ),
        ("BahdanauDecoder", "def decode(self, features, *others): return features", DECODER, "shape: raised ValueError"),
    ],
)  # fmt: skip
def test_a_broken_part_of_any_kind_is_refused_before_a_run_is_made(tmp_path, monkeypatch, base, body, key, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "odd.py").write_text(PARTS.format(base=base, body=f"    {body}"))
    load_plugin(tmp_path / "odd.py")
    with pytest.raises(Seq2AttnError) as caught:
        trained(tmp_path / "runs", configured(f"{key}=odd", score="scaled"))
    assert message in caught.value.message
    assert caught.value.hint == "Check it: seq2attn check --plugin odd.py"
    assert not (tmp_path / "runs").exists()


def test_a_history_may_have_no_features(tmp_path, monkeypatch, cli):
    monkeypatch.chdir(tmp_path)
    body = (
        "    def forward(self, past, prepared): return None\n"
        "    def update(self, past, weights): return weights.unsqueeze(1)\n"
        "    def combine(self, weights, past, prepared, valid, allowed): return (weights + past) / (1 + past.sum(2, True))"
    )
    (tmp_path / "odd.py").write_text(PARTS.format(base="History", body=body))
    assert cli("check", "--plugin", "odd.py").code == 0
    run = trained(tmp_path / "runs", configured(f"{HISTORY}=odd", score="scaled"))
    assert run.status().state == "finished"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "if length == 9: raise KeyError('nine')",
            "task 'odd' (class Odd, odd.py): examples: odd.py:13: KeyError: 'nine'",
        ),
        ("if length == 9: raise Seq2AttnError('only short ones')", "examples(random, 8, 9): only short ones"),
        ("if length == 9: length = 8", "has sources of 8 to 8 characters; expected 9 to 9"),
    ],
)
def test_a_task_is_tried_at_every_length_before_a_run_is_made(tmp_path, monkeypatch, body, message):
    monkeypatch.chdir(tmp_path)
    code = f"    def examples(self, random, count, length=None):\n        {body}\n"
    code += "        return super().examples(random, count, length)"
    text = PARTS.format(base="Reverse", body=code)
    (tmp_path / "odd.py").write_text(text.replace("import torch\n", "from seq2attn.errors import Seq2AttnError\n"))
    load_plugin(tmp_path / "odd.py")
    config = check_config({**TINY, "task": {"name": "odd", "max_length": 3}, "evaluation": {"lengths": [2, 9]}})
    with pytest.raises(Seq2AttnError) as caught:
        trained(tmp_path / "runs", config)
    assert message in caught.value.message
    assert not (tmp_path / "runs").exists()


# ---- later ----


def test_an_exception_during_training_names_the_plugin_and_shows_its_frames(cli, tmp_path):
    code = "self.calls += self.training\n        if self.calls > 20: raise ValueError('boom')\n        return scores"
    (tmp_path / "odd.py").write_text(SCORE.format(code=code, init="self.calls = 0"))
    (tmp_path / "tiny.yaml").write_text(
        "task: {max_length: 3}\nmodel: {hidden: 8}\ntraining: {steps: 50, batch_size: 4}\n"
    )
    done = cli("train", "-c", "tiny.yaml", "--plugin", "odd.py", "-s", "model.attention.score=odd", "--name", "run")
    assert done.code == 1
    assert done.err.splitlines()[1:] == [
        "error: odd.py:15: ValueError: boom",
        "  odd.py:15, in forward: if self.calls > 20: raise ValueError('boom')",
        "Check it: seq2attn check --plugin odd.py",
    ]
    assert '"state": "failed"' in (tmp_path / "runs/run/status.json").read_text()


def test_an_exception_in_another_command_names_the_plugin(cli, tmp_path):
    (tmp_path / "odd.py").write_text(SCORE.format(code="return scores", init="pass"))
    (tmp_path / "tiny.yaml").write_text(
        "task: {max_length: 3}\nmodel: {hidden: 8}\ntraining: {steps: 1, batch_size: 4, validation_samples: 1}\n"
    )
    done = cli("train", "-c", "tiny.yaml", "--plugin", "odd.py", "-s", "model.attention.score=odd", "--name", "run")
    assert done.code == 0, done.err
    code = "if keys.size(1) == 7: raise ValueError('seven')\n        return scores"
    (tmp_path / "other.py").write_text(SCORE.format(code=code, init="pass").replace('"odd"', '"other"'))
    config = tmp_path / "runs/run/config.yaml"
    config.write_text(config.read_text().replace("score: odd", "score: other"))
    done = cli("predict", "--run", "run", "abcdef", "--plugin", "other.py")
    assert (done.code, done.out) == (1, "")
    assert "error: other.py:14: ValueError: seven\n" in done.err
    assert "Traceback" not in done.err


def test_an_exception_outside_plugins_is_not_explained():
    with pytest.raises(ZeroDivisionError) as caught:
        1 / 0  # noqa: B018
    assert plugin_error(caught.value) is None


# ---- what a decoder needs, and what a part says of its options ----

POINTER = "    needs_attention = True\n    needs_one_vocabulary = True\n"


def test_a_decoder_that_needs_attention_is_refused_without(tmp_path):
    (tmp_path / "odd.py").write_text(PARTS.format(base="BahdanauDecoder", body=POINTER))
    load_plugin(tmp_path / "odd.py")
    with pytest.raises(ConfigError, match=r"model\.decoder.*: decoder 'odd' cannot work with attention score 'none'"):
        configured("model.decoder=odd", score="none")
    assert configured("model.decoder=odd", score="scaled").model.decoder.name == "odd"


def test_a_decoder_that_needs_one_vocabulary_is_refused_with_two(tmp_path):
    text = (
        PARTS.format(base="BahdanauDecoder", body=POINTER)
        + """
from seq2attn.data.vocabulary import Vocabulary

@register("upper")
class Upper(Reverse):
    def __init__(self, *, max_length: int = 3):
        super().__init__(alphabet="ab", max_length=max_length)
        self.target_vocabulary = Vocabulary("AB")
"""
    )
    (tmp_path / "odd.py").write_text(text)
    load_plugin(tmp_path / "odd.py")
    config = check_config({"task": "upper", "model": {"decoder": "odd"}, "evaluation": {"lengths": [2]}})
    with pytest.raises(
        Seq2AttnError, match=r"'odd' needs one vocabulary, but the sources of task 'upper' use ab and its"
    ):
        trained(tmp_path / "runs", config)


def test_docstring_and_limits_describe_the_options(tmp_path):
    body = '''
    """A window.

    radius: positions to each side,
        at most five
    """

    limits = {"radius": (1, 5)}  # noqa

    def __init__(self, query_width, source_eos, *, radius: int = 2, other: float = 1.5):
        super().__init__(query_width, source_eos, radius=radius)

    def forward(self, query, lengths, width, first):
        return View(self.inside(lengths.view(-1, 1, 1).expand(-1, query.size(1), 1), width))
'''
    (tmp_path / "odd.py").write_text(PARTS.format(base="Window", body=body))
    load_plugin(tmp_path / "odd.py")
    from seq2attn.parts import WINDOWS

    meanings = WINDOWS.get("odd").meanings
    assert meanings["radius"] == "positions to each side, at most five"
    assert meanings["other"] == "default: 1.5"
    with pytest.raises(ConfigError, match="must be at most 5, found 6"):
        configured("model.attention.window=odd", "model.attention.window.radius=6", score="scaled")


@pytest.mark.parametrize(
    ("base", "missing"),
    [("Window", "forward"), ("History", "forward, update"), ("Cell", "step"), ("InitialState", "forward")],
)
def test_an_unfinished_part_is_refused_when_it_is_registered(tmp_path, base, missing):
    (tmp_path / "odd.py").write_text(PARTS.format(base=base, body="    pass"))
    with pytest.raises(Seq2AttnError, match=f"'odd': class Odd does not define {missing}\n") as caught:
        load_plugin(tmp_path / "odd.py")
    assert f"odd.py:10: {base.lower()[:4]}" in caught.value.message or base == "InitialState"
    assert f".{base})` describes what it has to define." in caught.value.hint


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("width=0", "error: --option: 1 problem\n  width: must be at least 1, found 0\n"),
        ("widht=3", "error: --option: 1 problem\n  widht: unknown key; did you mean 'width'?"),
    ],
)
def test_a_mistake_in_an_option_of_check_names_the_option(cli, option, message):
    done = cli("check", "additive", "--option", option)
    assert done.code == 2
    assert done.err.startswith(message)
    assert "--set" not in done.err
