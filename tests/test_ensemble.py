"""Ensembles: the average of probabilities, step by step, through the model's interface."""

import math

import pytest
import torch
from models import TRANSFORMER, as_batch, make_config, make_model
from refusal import refused
from torch.testing import assert_close

from seq2attn.build import build_model
from seq2attn.data.tasks.strings import Copy
from seq2attn.inference.decoding import BeamSearch, Ensemble, beam_decode
from seq2attn.inference.predictor import Predictor, ensemble

SOURCE = torch.tensor([[3, 4, 3, 3], [4, 3, 0, 0]])
LENGTHS = torch.tensor([4, 2])
EOS = 2
V = 5
CPU = torch.device("cpu")


def members():
    """A GRU, an LSTM in another arrangement, and a Transformer, over the same five ids."""
    config = make_config(f"seed=2 task.alphabet=ab model.layers=1 {TRANSFORMER}")
    recurrent = [
        make_model(vocabulary=V, seed=4),
        make_model(vocabulary=V, seed=5, cell="lstm", arrangement="luong"),
    ]
    return [model.eval() for model in (*recurrent, build_model(config).double())]


def probabilities(model, source, tokens):
    """P of each token, and the weights, by teacher forcing of one source alone: (L, V), (L, S)."""
    decoded = model(
        as_batch(source.unsqueeze(0), torch.tensor([len(source)]), torch.tensor([tokens]))
    )
    return torch.softmax(decoded.logits[0], dim=1), decoded.weights[0]


@torch.no_grad()
def test_teacher_forcing_averages_probabilities_and_weights():
    models = members()
    tokens = [1, 3, 4, 4]
    for source, length in zip(SOURCE, LENGTHS.tolist(), strict=True):
        parts = [probabilities(model, source[:length], tokens) for model in models]
        found, weights = probabilities(Ensemble(models), source[:length], tokens)
        assert_close(found, sum(part[0] for part in parts) / 3, rtol=0, atol=1e-12)
        assert_close(weights, sum(part[1] for part in parts) / 3, rtol=0, atol=1e-12)
        assert found.sum(dim=1).tolist() == pytest.approx([1] * 4)


@torch.no_grad()
def test_hypotheses_of_an_ensemble_have_its_probabilities_and_weights():
    found = beam_decode(
        Ensemble(members()), SOURCE, LENGTHS, BeamSearch(4), max_steps=3, keep_weights=True
    )
    for row, length in enumerate(LENGTHS.tolist()):
        lengths = (found.tokens != EOS).sum(dim=2)
        fields = (found.tokens, lengths, found.log_probabilities, found.weights)
        for tokens, size, logp, weights in zip(*(field[row] for field in fields), strict=True):
            forced, expected = probabilities(
                Ensemble(members()), SOURCE[row, :length], [1, *tokens[:-1].tolist()]
            )
            stop = min(int(size) + 1, 3)
            assert logp.item() == pytest.approx(
                sum(math.log(forced[t, tokens[t]]) for t in range(stop)), abs=1e-6
            )
            assert_close(weights[:stop, :length], expected[:stop], rtol=0, atol=1e-9)


@torch.no_grad()
def test_a_model_without_attention_leaves_no_weights():
    silent = make_model("none", initial_state="bridge", vocabulary=V).eval()
    assert Ensemble([members()[0], silent])(as_batch(SOURCE, LENGTHS, SOURCE)).weights is None


def predictor(alphabet="ab", source_eos=True):
    model = make_model(vocabulary=3 + len(alphabet))
    return Predictor(model, Copy(alphabet=alphabet), source_eos=source_eos, device=CPU)


def test_what_cannot_decode_together_is_refused():
    for other in (predictor("ac"), predictor(source_eos=False)):
        says = "one and two cannot form an ensemble: they read or write different symbols"
        with refused(says):
            ensemble({"one": predictor(), "two": other})
