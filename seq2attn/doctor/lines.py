"""Reads the code of an attention: finds the line that a finding comes from, where it has a known
form, and what should be there.
"""

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

SQUEEZE = r"\.squeeze\(\)", ".squeeze(dim)"
FILL = r"(masked_fill_?\(.+, )(?!.*inf)(float\(.*?\)|[^,()]+)\)", r"\1-torch.inf)"
FORMS = {
    "mask-ignored": (r"^([\w.]+)(\.masked_fill\(.*)", r"\1 = \1\2"),
    "mask-off-by-one": (r" <= (?=\S*len)", " < "),
    "random": (r"dropout_p=([\w.]+)(?=[,)])", r"dropout_p=\1 if self.training else 0.0"),
    # heads of a row follow each other where they are joined with the rows, as in (B * H, L, S)
    "batch": (r"(\w*mask\b.*)\.repeat\(([\w.]+), 1, 1\)", r"\1.repeat_interleave(\2, dim=0)"),
    "axis": (r"([sS]oftmax\((?:.*, ?)?(?:dim=|axis=)?)(?:[012]|-2)\)", r"\1-1)"),
    **dict.fromkeys(("one-row", "length"), SQUEEZE),
    "underflow": FILL,
    # a fill below 0 is no cause, unless it is a slip such as -1e-9
    "padding-leak": (FILL[0].replace("(?!.*inf)", "(?!.*(inf|min))(?!-(?!1e-))"), FILL[1]),
}
"""by the code of a finding: what to look for in a line, and what should stand in its place, both as
`re.sub` takes them"""


def corrections(attention: Any, code: str) -> Iterator[str]:
    """Yield corrections of lines of an attention that may be the cause of a finding, such as "line
    12: write x.squeeze(dim); there is x.squeeze()". There are none if the code has no known form
    (`FORMS`), or the attention no file of Python.

    code: of the finding.
    """
    if code not in FORMS:
        return
    takes = inspect.signature(getattr(attention, "forward", attention)).parameters
    lines, start = _read(inspect.getsourcelines, attention)
    normal = [number for number, line in enumerate(lines, start) if "softmax" in line]
    for number, line in enumerate(lines, start):
        written = line.strip()
        if "masked_fill" in written and normal and number > normal[-1]:
            continue  # of a result, and not of scores
        found = re.search(FORMS[code][0], written)
        better = re.sub(*FORMS[code], written)
        # True in an argument `valid` is a token, and padding is what has to be filled
        better = re.sub(r"(masked_fill_?\()valid\b", r"\1~valid", better)
        filled = re.search(r"(\w+)\.masked_fill", written)
        advice = f"write {better}"
        if filled and filled[1] in takes:
            advice = f"mask the scores, not {filled[1]}"
        # unequal brackets: what was found ends with an argument of an inner call, such as the 1 of
        # `masked_fill(mask.view(B, 1), -1e9)`, and not with the fill
        if better != written and found and found[0].count("(") == found[0].count(")"):
            yield f"line {number}: {advice}; there is {written}"


def file_of(attention: Any) -> str:
    """Return the code of the file that holds an attention; "" if there is none."""
    return "".join(_read(inspect.findsource, attention)[0])


def _read(reader: Callable[[Any], tuple[list[str], int]], attention: Any) -> tuple[list[str], int]:
    """Return lines of code of an attention, as a function of `inspect` does, and the number of the
    first; none if it was typed at a prompt, or is not written in Python.
    """
    if not inspect.isclass(attention) and not inspect.isfunction(attention):
        attention = type(attention)  # of an instance, the lines of its class
    try:
        return reader(attention)
    except (OSError, TypeError):
        return [], 0
