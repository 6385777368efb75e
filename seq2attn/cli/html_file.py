"""The HTML file that a command writes: never over another kind of file."""

from __future__ import annotations

import html
import re
from pathlib import Path

from seq2attn.cli.output import note, write_line
from seq2attn.errors import Seq2AttnError
from seq2attn.runs.files import write_atomically


class HtmlFile:
    """A file to write later, checked at once. It may replace one of its kind, and says so."""

    def __init__(self, path: Path, kind: str, title: str) -> None:
        """kind: such as report. title: a regular expression that finds the title in the first lines of that kind only.

        Raises `Seq2AttnError` if the name is not that of an HTML file, or belongs to a file of another kind.
        """
        self.path, self.kind = path, kind
        if path.suffix.lower() not in (".html", ".htm"):
            raise Seq2AttnError(f"{path}: a {kind}'s file name ends with .html")
        if not path.parent.is_dir():
            raise Seq2AttnError(f"{path}: there is no directory {path.parent}")
        self.replaced = self._title(title)

    def _title(self, pattern: str) -> str | None:
        try:
            with self.path.open(encoding="utf-8", errors="replace") as file:
                found = re.search(pattern, file.read(4096), re.DOTALL)
        except FileNotFoundError:
            return None
        if found is None:
            raise Seq2AttnError(
                f"{self.path} exists and is not a {self.kind}", hint="Name another file with --to FILE."
            )
        return html.unescape(found[1])

    def write(self, text: str) -> None:
        """Write the file and print its name."""
        write_atomically(self.path, text.encode(errors="backslashreplace"))
        if self.replaced is not None:
            note(f"replaced {self.path}, a {self.kind} of {self.replaced}")
        write_line(str(self.path))
