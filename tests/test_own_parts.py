"""Parts of plug-ins that are legal but odd, or broken: each trains and resumes exactly, or is
refused in one sentence.
"""

from pathlib import Path

import pytest
import torch
import yaml
from inline import read, write
from models import SIX_STEPS
from outcomes import StopAt, same_tensors, step_of
from refusal import refusal, refused
from tables import table

from seq2attn.config import check_config
from seq2attn.inference.trained_model import load_run
from seq2attn.parts import WINDOWS
from seq2attn.plugins import load_plugin, plugin_error
from seq2attn.training.session import NewRun, train

pytestmark = pytest.mark.usefixtures("own_scores", "one_place")

TINY = yaml.safe_load("""
task: {alphabet: abcd, max_length: 3}
model: {hidden: 8, embedding: 4, initial_state: last}
training: {snapshots: 0}
""")
SCORE = """\
import torch
import torch.nn.functional as F
from torch import nn
from seq2attn import Score, register

@register("odd", equal_widths=True)
class Odd(Score):
    def __init__(self, query_width, key_width):
        super().__init__(query_width, key_width)
        {init}

    def forward(self, query, keys):
        scores = query @ keys.mT
        {code}
"""  # the code is in line 14
PART = """\
from seq2attn.errors import Seq2AttnError
from seq2attn import register
from seq2attn.model.normalisers import Window, View
from seq2attn.model.histories import History
from seq2attn.model.cells import Cell
from seq2attn.model.encoder import InitialState, RecurrentEncoder
from seq2attn.model.normalisers import Softmax
from seq2attn.model.decoder import BahdanauDecoder
from seq2attn.data.tasks.strings import Reverse

@register("odd")
class Odd({base}):
    {body}
"""  # the body is in line 13
TINY_FILE = """
task: {max_length: 3}
model: {hidden: 8}
training: {steps: 50, batch_size: 4, validation_samples: 1, snapshots: 0}
"""


def score(code, init="pass"):
    return SCORE.format(code=code, init=init)


@pytest.fixture
def plugin(here):
    """`plugin(text)`: loads a plug-in with that text, `odd.py` in the working directory."""

    def load(text):
        write(here / "odd.py", text)
        load_plugin(Path("odd.py"))

    return load


@pytest.fixture
def untried(monkeypatch):
    """`untried()`: from then on, no part is checked before it is trained."""
    return lambda: monkeypatch.setattr("seq2attn.training.session.check_parts", lambda *_: None)


def configured(*overrides, score="odd", **values):
    return check_config(
        {**TINY, "model": {**TINY["model"], "attention": {"score": score}}, **values},
        [*SIX_STEPS.split(), *overrides],
    )


def trained(config, name="run", **settings):
    return train(config, NewRun(Path("runs"), name), device="cpu", **settings).run


def untrained(config):
    """Why the config is not trained, and what to do."""
    error = refusal(trained, config)
    assert not Path("runs").exists()
    return error.message, error.hint


# ---- legal but odd ----

ODD_IN_EVERY_WAY = score(
    """
        self.training and self.mean.mul_(0.9).add_(scores.detach().mean() * 0.1)
        scores = F.dropout(scores - self.mean, 0.5, self.training) * self.frozen
        return (scores * self.w[: keys.size(1)]).float() + self.mask[: keys.size(1)].clamp(min=-9)
    """,
    """
        self.w = nn.Parameter(torch.rand(9).double())
        self.frozen = nn.Parameter(torch.rand(1), requires_grad=False)
        self.register_buffer("mean", torch.zeros(()))
        self.register_buffer("mask", torch.full((9,), -torch.inf))
    """,
)


def test_an_odd_score_trains_resumes_exactly_and_is_evaluated(plugin, untried):
    plugin(ODD_IN_EVERY_WAY)
    config = configured("training.weight_decay=0.1")
    whole = trained(config, "whole")  # whose parts are tried, and those of the other are not
    untried()
    stopped = trained(config, "stopped", **StopAt(3).given)
    assert step_of(stopped) == 3
    torch.manual_seed(99)  # a resumed run does not depend on the generator's state
    assert train(config, stopped, device="cpu").stopped_by is None
    ours = same_tensors(whole, stopped)
    assert len(load_run(whole, "last", "cpu").evaluate([1, 2], samples=2).lengths) == 2
    assert "optimiser.exp_avg.decoder.attention.score.frozen" not in ours
    exact = {name for name, one in ours.items() if one.dtype == torch.float64}
    assert exact
    assert all(name.endswith("score.w") for name in exact)


def test_a_history_may_have_no_features(plugin):
    plugin(
        PART.format(base="History", body="def forward(self, step): return None")
        + (
            "    def combine(self, weights, _, step): return (weights + step.past) / (1 + "
            "step.past.sum(2, True))"
        )
    )
    assert (
        trained(configured("model.attention.history=odd", score="scaled")).status().state
        == "finished"
    )


# ---- refused before training ----

UNSAVED = 'self.register_buffer("n", torch.zeros(()), persistent=False)'


NARROW = """
    def advance(self, embedded, state, memory):
        return super().advance(embedded[..., :1], state, memory)
"""


@pytest.mark.parametrize(
    "text, setting, message",
    [
        (
            score("return scores.double()"),
            "attention.score=odd",
            "shape: scores: torch.float64 (3, 4, 6), expected torch.float32 (3, 4, 6)",
        ),
        (
            score("self.training and self.n.add_(1); return scores", UNSAVED),
            "attention.score=odd",
            "training changes the buffer decoder.attention.score.n, which checkpoints leave out",
        ),
        (
            score("return scores / self.oops if self.training else scores"),
            "attention.score=odd",
            "training: odd.py:14: AttributeError",
        ),
        (
            PART.format(base="BahdanauDecoder", body=NARROW),
            "decoder=odd",
            "decoder Odd (odd.py:11): shape: odd.py:15: RuntimeError",
        ),
    ],
)
def test_a_broken_part_is_refused_before_a_run_is_made(plugin, text, setting, message):
    plugin(text)
    told, hint = untrained(configured(f"model.{setting}", score="scaled"))
    assert message in told
    assert hint == "Check it: seq2attn check --plugin odd.py"


INDEX = "torch.arange(query.size(1)).view(1, -1, 1)"  # from 0 in every call, not from `first`
WINDOW = f"""
    def forward(self, query, lengths, width, first):
        return View(self.inside({INDEX}, width).expand(len(query), -1, -1))
"""


@table(
    "steps",
    """
decoder=bahdanau
decoder={name: luong, input_feeding: true}
attention.history=coverage
""",
)
def test_a_part_that_counts_queries_is_refused_where_queries_come_one_at_a_time(plugin, steps):
    plugin("import torch\n" + PART.format(base="Window", body=WINDOW))
    config = configured("model.attention.window=odd", f"model.{steps}", score="scaled")
    message = "steps: position 1 differs between teacher forcing and single steps"
    assert message in untrained(config)[0]


@table(
    "body, message",
    """
raise KeyError('nine') | task Odd (odd.py:11): examples: odd.py:14: KeyError: 'nine'
raise Seq2AttnError('only short ones') | examples: only short ones
length = 8 | has sources of 8 to 8 characters; expected 9 to 9
""",
)
def test_a_task_is_tried_at_every_length_before_a_run_is_made(plugin, body, message):
    code = f"def examples(self, random, count, length=None):\n        if length == 9: {body}\n"
    plugin(
        PART.format(
            base="Reverse", body=f"{code}        return super().examples(random, count, length)"
        )
    )
    config = configured(
        score="dot", task={"name": "odd", "max_length": 3}, evaluation={"lengths": [2, 9]}
    )
    assert message in untrained(config)[0]


# ---- later ----


EXITS = """
exit() | SystemExit
raise SystemExit(0) | SystemExit: 0
raise GeneratorExit | GeneratorExit
raise Unsayable | Unsayable: its text cannot be shown
raise ValueError('x' * 10_000) | ValueError: xxxxxxxx
next(iter(())) | StopIteration
"""
UNSAYABLE = """
class Unsayable(BaseException):
    def __str__(self):
        raise SystemExit
"""


def test_whatever_ends_a_part_is_said_and_never_a_success(cli, untried):
    untried()
    code = "exit()"
    in_training = f"self.calls += self.training\n        if self.calls > 9: {code}"
    in_use = f"if keys.size(1) == 7: {code}"
    for name, lines in (("odd", in_training), ("other", in_use)):
        own = score(f"{lines}\n        return scores", "self.calls = 0") + UNSAYABLE
        write(f"{name}.py", own.replace('"odd"', f'"{name}"'))
    write("tiny.yaml", TINY_FILE)
    train = "train -c tiny.yaml -s training.steps=8"
    done = cli(f"{train} --plugin odd.py -s model.attention.score=odd --name run")
    assert done.code == 1
    error, frame, hint = done.err.splitlines()[-3:]
    assert error.startswith("error: odd.py:15: SystemExit")
    assert frame == f"  odd.py:15, in forward: if self.calls > 9: {code}"
    assert hint == "Check it: seq2attn check --plugin odd.py"
    assert len(done.err) < 3000
    assert '"state": "failed"' in read("runs/run/status.json")
    cli(f"{train} --plugin other.py -s model.attention.score=other --name other").check()
    done = cli("predict --run other abcdef")
    assert (done.code, done.out) == (1, "")
    assert "error: other.py:14: SystemExit" in done.err


@table("code, told", EXITS)
def test_whatever_ends_a_part_breaks_its_contract(cli, code, told):
    write("odd.py", score(code) + UNSAYABLE)
    result = cli("check --plugin odd.py").rows(code=1)[0]["result"]
    assert result.startswith(f"odd.py:14: {told}")


def test_an_exception_outside_plugins_is_not_explained():
    with pytest.raises(ZeroDivisionError) as caught:
        1 / 0  # noqa: B018
    assert plugin_error(caught.value) is None


# ---- what a decoder needs, and what a part says of its options ----


@table(
    "targets",
    """
Vocabulary("AB")
Vocabulary("ab", unknown=True)
""",
)  # the ids of a and b differ
def test_what_a_decoder_needs_is_checked(plugin, targets):
    body = "needs_attention = True\n    needs_one_vocabulary = True\n"
    upper = """
from seq2attn.data.vocabulary import Vocabulary

@register("upper")
class Upper(Reverse):
    def __init__(self, *, max_length: int = 3):
        super().__init__(alphabet="ab", max_length=max_length)
        self.target_vocabulary = TARGETS
"""
    plugin(PART.format(base="BahdanauDecoder", body=body) + upper.replace("TARGETS", targets))
    with refused(r"model\.decoder.*: cannot work, with attention score 'none'"):
        configured("model.decoder=odd", score="none")
    assert configured("model.decoder=odd", score="scaled").model.decoder.name == "odd"
    config = check_config(
        {"task": "upper", "model": {"decoder": "odd"}, "evaluation": {"lengths": [2]}}
    )
    assert "'odd' needs one vocabulary, but the sources use a b" in untrained(config)[0]


def test_docstring_and_limits_describe_the_options(plugin):
    body = '''"""A window.

    Args:
        radius: positions to each side,
            at most five
        other: a factor
    """

    limits = {"radius": (1, 5)}  # noqa

    def __init__(
        self, query_width, source_eos, *, radius: int = 2, other: float = 1.5, more: float = 0.5
    ):
        super().__init__(query_width, source_eos, radius=radius)

    def forward(self, query, lengths, width, first):
        return View(self.inside(lengths.view(-1, 1, 1).expand(-1, query.size(1), 1), width))
'''
    plugin(PART.format(base="Window", body=body))
    meanings = {
        "radius": "positions to each side, at most five",
        "other": "a factor",
        "more": "default: 0.5",
    }
    fields = WINDOWS.get("odd").options.model_fields
    assert {name: one.description for name, one in fields.items() if name != "name"} == meanings
    with refused("should be at most 5, found 6"):
        configured("model.attention.window=odd", "model.attention.window.radius=6", score="scaled")


@table(
    "base, missing",
    """
Window | forward
Cell | step
InitialState | forward
""",
)
def test_an_unfinished_part_is_refused_when_it_is_registered(plugin, base, missing):
    with refused(f"odd.py:11: .* 'odd': class Odd does not define {missing}$"):
        plugin(PART.format(base=base, body="pass"))


LOSS = """\
import torch
from seq2attn import Loss, register

@register("own")
class Own(Loss):
    calls = 0

    def forward(self, decoded, batch):
        {code}
"""


@table(
    "code",
    r"""
"return torch.tensor(1.0)"
"return decoded.logits.argmax()"
"with torch.inference_mode():\n            return decoded.logits.detach().mean()"
""",
    "code",
)
def test_a_loss_without_a_gradient_breaks_its_contract_and_makes_no_run(cli, code):
    write("own.py", LOSS.format(code=code))
    write("tiny.yaml", TINY_FILE)
    assert "the loss has no gradient" in cli("check --plugin own.py").rows(1)[0]["result"]
    refusal = cli("train -c tiny.yaml --plugin own.py -s training.losses=own").refusal
    assert "loss: the loss has no gradient" in refusal
    assert not Path("runs").exists()


@table(
    "calls, kept",
    """
0 | false
20 | true
""",
    "kept",
)
def test_a_loss_that_loses_its_gradient_is_said(cli, calls, kept):
    """After so many calls in float32, of which the contract makes none."""
    lost = f"""
        loss = decoded.logits[batch.decoder_output != 0].mean()
        self.calls += loss.dtype == torch.float32
        return loss.detach() if self.calls > {calls} else loss
    """
    write("own.py", LOSS.format(code=lost))
    write("tiny.yaml", TINY_FILE)
    done = cli("train -c tiny.yaml --plugin own.py -s training.losses=own --name lost")
    assert done.code == 1
    assert "error: training.losses: own: there is no gradient in this step" in done.err
    assert Path("runs/lost").exists() == kept


IN_PLACE = """
    def encode(self, embedded, lengths):
        lengths.clamp_(max=2)
        return super().encode(embedded, lengths)
"""
MASK_IN_PLACE = """
    def forward(self, scores, valid):
        valid.logical_or_(valid)[..., -1] = False
        return super().forward(scores, valid)
"""
LATE = "self.register_buffer('seen', keys.detach())\n        return scores"
IDLE = "self.squares = Point('squares', 'step', 'source')"
HALF = """
        real = (batch.decoder_output > 0).unsqueeze(2)
        return (decoded.logits * decoded.logits.detach() * real).mean()
"""
COUNTS = "self.calls += 1\n        return self.calls * decoded.logits.mean()"


@pytest.mark.parametrize(
    "text, rule, told",
    [
        (
            PART.format(base="RecurrentEncoder", body=IN_PLACE),
            "arguments",
            "odd.py:15: RuntimeError: an argument is changed in place; make a new tensor",
        ),
        (
            PART.format(base="Softmax", body=MASK_IN_PLACE),
            "arguments",
            "odd.py:15: RuntimeError: an argument is changed in place",
        ),
        (
            score(LATE),
            "training",
            "decoder.attention.score.seen is made in a step, too late to be trained and loaded",
        ),
        (
            f"from seq2attn import Point\n{score('return scores', IDLE)}",
            "points",
            "nothing passes through the point squares",
        ),
        (LOSS.format(code=HALF), "loss", "finite differences give"),
        (
            LOSS.format(code=COUNTS),
            "loss",
            "the same outputs give another loss; keep nothing between calls",
        ),
    ],
)
def test_a_broken_rule_is_named(cli, text, rule, told):
    write("odd.py", text)
    row = cli("check --plugin odd.py").rows(1)[-1]
    assert row["rule"] == rule
    assert told in row["result"]
