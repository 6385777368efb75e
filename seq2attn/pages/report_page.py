"""Data and templates -> one HTML page."""

from __future__ import annotations

import html
import json
import re
from importlib.resources import files
from typing import Any

SCRIPTS = ("chart.js", "map.js", "comparison.js", "report.js")


def render(data: dict[str, Any], title: str) -> str:
    """The page for `data`, with its styles and scripts inline."""
    folder = files("seq2attn.pages")

    def read(name: str) -> str:
        return folder.joinpath(name).read_text(encoding="utf-8")

    parts = {
        "title": html.escape(title),
        "style": read("report.css"),
        "script": "\n".join(map(read, SCRIPTS)),
        "data": embedded(data),
    }
    # all at once, because a part may contain {{
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], read("report.html"))


def embedded(data: Any) -> str:
    """JSON that is safe inside a script tag: ASCII without `<`, `>` and `&`."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return re.sub(r"[<>&]", lambda found: f"\\u{ord(found[0]):04x}", text)
