"""`seq2attn check --expect` tells a score from the expected one, and says how they differ."""

import pytest
from inline import write
from tables import table

pytestmark = pytest.mark.usefixtures("own_scores")
FILE = """
import math, torch
from torch import nn
from seq2attn import Score, register

def add(name, formula, equal_widths=True):
    forward = lambda self, query, keys: formula(query, keys)
    register(name, equal_widths=equal_widths)(type(name, (Score,), {"forward": forward}))

def minus(query, keys):
    return query.unsqueeze(2) - keys.unsqueeze(1)

add("good_distance", lambda s, h: 2 * s @ h.mT - h.square().sum(2).unsqueeze(1))
add("sign", lambda s, h: minus(s, h).square().sum(3))
add("square", lambda s, h: -minus(s, h).norm(dim=3))
add("keys_twice", lambda s, h: -minus(h, h).square().sum(3))
add("factor", lambda s, h: -minus(s, h).square().mean(3))
add("query_ignored", lambda s, h: -h.square().sum(2).unsqueeze(1).expand(-1, s.size(1), -1))
add("constant", lambda s, h: -minus(s, s).norm(dim=3).sum(2, True).expand(-1, -1, h.size(1)))
add("by_query", lambda s, h: -s.norm(dim=2, keepdim=True) * minus(s, h).square().sum(3))
add("transposed", lambda s, h: -minus(h, s).square().sum(3))
add("other", lambda s, h: s @ h.mT)

class StepOwn(Score):
    def forward(self, query, keys, now):
        return (query @ keys.mT / query.size(2) ** 0.5) * now.allowed

register("step_own", equal_widths=True)(StepOwn)

class Concat(Score):
    def __init__(self, query_width, key_width, *, width: int = 9):
        super().__init__(query_width, key_width)
        self.map = nn.Linear(key_width + query_width, width)
        self.v = nn.Parameter(torch.randn(width))

    def forward(self, query, keys):
        shape = (*query.shape[:2], keys.size(1), -1)
        pairs = [keys.unsqueeze(1).expand(shape), query.unsqueeze(2).expand(shape)]
        return self.act(self.map(torch.cat(pairs, 3))) @ self.v

register("good_concat")(type("GoodConcat", (Concat,), {"act": torch.tanh}))
register("tanh")(type("NoTanh", (Concat,), {"act": torch.clone}))

class Bilinear(Score):
    def __init__(self, query_width, key_width):
        super().__init__(query_width, key_width)
        self.W = nn.Linear(query_width, key_width, bias=False)

    def forward(self, query, keys):
        return self.W(query) @ keys.mT

register("good_bilinear")(Bilinear)
"""


@table(
    "expected, names",
    """
-norm(s - h)**2
  | good_distance sign square keys_twice factor query_ignored constant transposed by_query other
additive | good_concat tanh
general | good_bilinear
""",
)
def test_a_wrong_score_is_named_by_its_mistake(cli, expected, names):
    write("mine.py", FILE)
    done = cli("check --plugin mine.py --expect", expected, *names.split())
    for row in done.rows(code=int(names.count(" ") > 0)):
        name = row["score"]
        wanted = "" if name.startswith("good") else name.replace("_", "-")
        assert row["difference"] == wanted, row


def test_what_is_expected_may_come_from_a_file(cli):
    write("mine.py", FILE)
    done = cli("check other --plugin mine.py --expect scaled")
    assert done.code == 1
    assert "a division by sqrt(D), D = 12, is missing" in done.out
    assert "no score to compare" in cli("check other --plugin mine.py --expect other").refusal
    assert cli("check dot --plugin mine.py --expect other").code == 0
    assert "equal" in cli("check step_own --plugin mine.py --expect scaled").out
