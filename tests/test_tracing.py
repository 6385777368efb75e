"""What cannot become a graph is refused by the operation, or the size, and the line of Python."""

import pytest
from models import make_task, predictor_of
from pages import CONFIGS
from refusal import refused
from tables import slow

from seq2attn import export
from seq2attn.build import build_model, build_task
from seq2attn.config import load_config
from seq2attn.pages import graphs, page
from seq2attn.pages.page import PageModel
from seq2attn.pages.tracing import trace_model
from seq2attn.pages.training import training_graphs
from seq2attn.plugins import load_plugin

ODD = """
import torch
from seq2attn import Encoded, Loss, Normaliser, Score, register
from seq2attn.model.encoder import RecurrentEncoder

@register("kept", formula="s . h, times a count of calls")
class Kept(Score):
    calls = 0
    def forward(self, query, keys):
        self.calls += 1
        return query @ keys.mT * self.calls

@register("rising", formula="the largest so far")
class Rising(Score):
    def forward(self, query, keys):
        return torch.cummax(query @ keys.mT, dim=2).values

@register("noisy", formula="s . h, with noise in training")
class Noisy(Score):
    def forward(self, query, keys):
        scores = query @ keys.mT
        return torch.poisson(scores.exp()) if self.training else scores

@register("summed")
class Summed(RecurrentEncoder):
    def encode(self, embedded, lengths):
        states, final = super().encode(embedded, lengths)
        return Encoded(states.cumsum(dim=1), final)

@register("masked", formula="-mean log p")
class Masked(Loss):
    def forward(self, decoded, batch):
        return -decoded.logits[batch.decoder_output != 0].mean()

@register("early", formula="H, in the first steps")
class Early(Loss):
    def forward(self, decoded, batch, step):
        return decoded.logits.mean() / (step + 1)
"""
SMALL = ["model.hidden=8", "model.embedding=4", "task.max_length=1", "training.batch_size=2"]


@pytest.fixture
def odd(tmp_path, own_scores):
    """Makes a config with parts of the plug-in above."""
    (tmp_path / "odd.py").write_text(ODD)
    load_plugin(tmp_path / "odd.py")
    return lambda setting: load_config(CONFIGS / "general.yaml", [setting, *SMALL])


@pytest.mark.parametrize(
    "setting, reason",
    [
        (
            "model.encoder=summed",
            r"prepare gives other numbers: a size became fixed, at getitem_1 "
            r"\(cells.py, line \d+: steps = projected.unbind",
        ),
        slow(
            "model.attention.score=kept",
            r"step gives other numbers, from mul on \(odd.py, line 11: return query @ keys.mT \* ",
        ),
    ],
)
def test_what_is_right_at_one_length_only(odd, setting, reason):
    model = build_model(odd(setting))
    with refused(rf"cannot export this model: of a source of length 1, {reason}"):
        trace_model(model)


@pytest.mark.slow  # the next test has the page's own message, test_export the exporter
def test_an_operation_that_the_page_and_the_exporter_lack(odd, monkeypatch, quick_exporter):
    config = odd("model.attention.score=rising")
    task = build_task(config)
    model = PageModel("odd", predictor_of(build_model(config, task), task), {}, [])
    traced = trace_model(model.predictor.model)
    lacking = r"cummax \(odd.py, line 16: return torch.cummax\(query @ keys.mT, dim=2\).values\)"
    monkeypatch.setattr(page, "trace_model", lambda _: traced)
    with refused(f"the page cannot run odd: it lacks the operation {lacking}"):
        page.model_json(model)
    monkeypatch.setattr(export, "trace_model", lambda _: traced[-1:])  # the step, which attends
    with refused(f"into ONNX: the exporter has no translation for {lacking}"):
        export.export_graphs(model.predictor.model)


@pytest.mark.parametrize(
    "setting, reason",
    [
        slow("model.attention.score=noisy", r"it lacks the operation poisson \(odd.py, line 22: "),
        slow(
            "training.losses=[masked]",
            r"it lacks the operation index by a mask \(odd.py, line 33: return -decoded",
        ),
        ("training.losses=[early]", "the loss early depends on the step, and the page repeats one"),
    ],
)
def test_a_training_step_that_the_page_lacks(odd, setting, reason):
    config = odd(setting)
    with refused(rf"the page cannot train \w+: {reason}"):
        training_graphs(config, build_task(config))


def test_a_page_has_no_rule_that_it_cannot_run(monkeypatch):
    assert page.answer_json(make_task())
    known = graphs.operations()
    monkeypatch.setattr(graphs, "operations", lambda: known - {"gather"})
    assert page.answer_json(make_task()) is None
