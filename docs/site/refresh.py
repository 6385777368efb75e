"""Puts the present styles, scripts and markup into pages: `python docs/site/refresh.py PAGE ...`.

Models, weights and what was exported stay as they are. Three pages run no model: docs/root.html,
docs/formulas.html with the numbers of seq2attn's scores, docs/ranking.html with those of a study.
"""

import re
import sys
from pathlib import Path

import torch
from ranking import ranking_page
from torch import Tensor

from seq2attn.model.scores import Additive, Dot, General, Score
from seq2attn.pages import asset
from seq2attn.pages.page import assemble, script

HERE = Path(__file__).parent
SHARED = {"view": ["dom"], "engine": ["formula", "session", "learner"]}  # that root.js builds on
QUERY = torch.tensor([[[0.0, -2, 1]]])  # (B, L, D)
KEYS = torch.tensor([[[3.0, -2, 2], [-1, -1, 1], [1, 1, 1], [0, -1, 3]]])  # (B, S, D)
MINUS = "\N{MINUS SIGN}"
SWAPPED = torch.eye(3)[[1, 0, 2]]
"""the matrix by which the first two numbers trade places; twice, and they are back"""


def refresh(page: Path) -> None:
    """Write a page anew around the data that it has."""
    if page.stem in OWN:
        page.write_text(OWN[page.stem](), "utf-8")
        return
    text = page.read_text("utf-8")
    title = re.search(r"<title>(.*?)</title>", text)[1]
    data = re.search(r'<script [^>]*id="data"[^>]*>(.*?)</script>', text, re.DOTALL)[1]
    trains = "worker-src" in text.partition("</head>")[0]
    page.write_text(assemble(title, data, trains=trains), "utf-8")


def own_page(name: str) -> str:
    """Return the markup of a page that is not made of a model, with its styles."""
    page = (HERE / f"{name}.html").read_text("utf-8")
    style = asset("view/page.css") + (HERE / f"{name}.css").read_text("utf-8")
    return page.replace("{{style}}", style)


def root_page() -> str:
    """Return the page on the division by the root of D, which runs no model."""
    shared = [script(folder, names) for folder, names in SHARED.items()]
    own = (HERE / "root.js").read_text("utf-8")
    return own_page("root").replace("{{script}}", "\n".join([*shared, own]))


def formulas_page() -> str:
    """Return the page on three scores, which has a table of each for each of four changes."""
    changes = {
        "none": (QUERY, KEYS, torch.eye(3)),
        "long": (3 * QUERY, KEYS, torch.eye(3)),
        "order": (QUERY, KEYS @ SWAPPED, torch.eye(3)),
        "learned": (QUERY, KEYS @ SWAPPED, SWAPPED),
    }
    rows = []
    for name, (query, keys, learned) in changes.items():
        ways = [table(score, query, keys) for score in three_scores(learned)]
        rows.append(f'  <div class="ways of-{name}">\n{"".join(ways)}  </div>')
    return own_page("formulas").replace("{{tables}}", "\n".join(rows))


def three_scores(learned: Tensor) -> tuple[Score, ...]:
    """Return dot, general and additive, of which two read keys through a matrix."""
    general = General(3, 3)
    general.map.weight.data = learned
    additive = Additive(3, 3)
    additive.query_map.weight.data = torch.eye(3)
    additive.key_map.weight.data = learned
    additive.v.weight.data = torch.full((1, 3), 2.0)
    return Dot(3, 3), general, additive


@torch.no_grad()
def table(score: Score, query: Tensor, keys: Tensor) -> str:
    """Return a table of the keys: their numbers, scores and weights."""
    scores = score(query, score.project(keys)).flatten()
    weights = scores.softmax(0).tolist()
    head = "<tr><th>key</th><th>score</th><td></td><th>weight</th></tr>"
    lines = [f"    <table><caption>{type(score).__name__.lower()}</caption>{head}\n"]
    for j, weight in enumerate(weights):
        numbers = ", ".join(f"{number:.0f}" for number in keys[0, j].tolist()).replace("-", MINUS)
        value = f"{scores[j] + 0.0:.1f}".replace("-0.0", "0.0").replace("-", MINUS)
        best = ' class="best"' if weight == max(weights) else ""
        bar = f'<i{best} style="width: {100 * weight:.0f}%"></i>'
        lines.append(
            f"      <tr><td>h{'₁₂₃₄'[j]} = ({numbers})</td><td>{value}</td>"
            f'<td class="size">{bar}</td><td>{weight:.2f}</td></tr>\n'
        )
    return "".join([*lines, "    </table>\n"])


OWN = {
    "root": root_page,
    "formulas": formulas_page,
    "ranking": lambda: ranking_page(own_page("ranking")),
}
for name in sys.argv[1:]:
    refresh(Path(name))
