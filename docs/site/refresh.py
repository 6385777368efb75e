"""Puts the present styles, scripts and markup into pages: `python docs/site/refresh.py PAGE ...`.

Models, weights and what was exported stay as they are.
"""

import re
import sys
from pathlib import Path

from seq2attn.pages.page import assemble


def refresh(page: Path) -> None:
    """Write a page anew around the data that it has."""
    text = page.read_text("utf-8")
    title = re.search(r"<title>(.*?)</title>", text)[1]
    data = re.search(r'<script [^>]*id="data"[^>]*>(.*?)</script>', text, re.DOTALL)[1]
    trains = "worker-src" in text.partition("</head>")[0]
    page.write_text(assemble(title, data, trains=trains), "utf-8")


for name in sys.argv[1:]:
    refresh(Path(name))
