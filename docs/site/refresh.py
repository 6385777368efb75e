"""Puts the present styles, scripts and markup into pages: `python docs/site/refresh.py PAGE ...`.

Models, weights and what was exported stay as they are; docs/root.html runs no model.
"""

import re
import sys
from pathlib import Path

from seq2attn.pages import asset
from seq2attn.pages.page import assemble, script

HERE = Path(__file__).parent
SHARED = {"view": ["dom"], "engine": ["formula", "session", "learner"]}  # that root.js builds on


def refresh(page: Path) -> None:
    """Write a page anew around the data that it has."""
    if page.name == "root.html":
        page.write_text(root_page(), "utf-8")
        return
    text = page.read_text("utf-8")
    title = re.search(r"<title>(.*?)</title>", text)[1]
    data = re.search(r'<script [^>]*id="data"[^>]*>(.*?)</script>', text, re.DOTALL)[1]
    trains = "worker-src" in text.partition("</head>")[0]
    page.write_text(assemble(title, data, trains=trains), "utf-8")


def root_page() -> str:
    """Return the page on the division by the root of D, which runs no model."""
    own = {ending: (HERE / f"root.{ending}").read_text("utf-8") for ending in ("html", "css", "js")}
    shared = [script(folder, names) for folder, names in SHARED.items()]
    page = own["html"].replace("{{style}}", asset("view/page.css") + own["css"])
    return page.replace("{{script}}", "\n".join([*shared, own["js"]]))


for name in sys.argv[1:]:
    refresh(Path(name))
