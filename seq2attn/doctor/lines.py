"""Finds the line that a finding comes from, where it has a known form, and what should be there."""

import inspect
import linecache
import re
from collections.abc import Iterator
from typing import Any

SQUEEZE = r"\.squeeze\(\)", ".squeeze(dim)"
FILL = r"(masked_fill_?\(.+, )(?!.*inf)(float\(.*?\)|[^,()]+)\)", r"\1-torch.inf)"
FORMS = {
    "mask-ignored": (r"^([\w.]+)(\.masked_fill\(.*)", r"\1 = \1\2"),
    **dict.fromkeys(("one-row", "batch", "length"), SQUEEZE),
    "underflow": FILL,
    # a fill below 0 is no cause, unless it is a slip such as -1e-9
    "padding-leak": (FILL[0].replace("(?!.*inf)", "(?!.*(inf|min))(?!-(?!1e-))"), FILL[1]),
}
"""by findings, what may be their cause, and what should stand there"""


def corrections(attention: Any, code: str) -> Iterator[str]:
    """Yield corrections of lines in the file of an attention that may be the cause of a finding,
    such as "line 12: x.squeeze(dim) in place of x.squeeze()". code: of the finding.
    """
    if code not in FORMS:
        return
    if not inspect.isclass(attention) and not inspect.isfunction(attention):
        attention = type(attention)
    try:
        file = inspect.getsourcefile(attention)
    except TypeError:  # it is not written in Python
        return
    for number, line in enumerate(linecache.getlines(file or ""), start=1):  # none of a prompt
        written = line.strip()
        found = re.search(FORMS[code][0], written)
        better = re.sub(*FORMS[code], written)
        # an argument of an inner call, as in `masked_fill(mask.view(B, 1), -1e9)`, is not meant
        if better != written and found and found[0].count("(") == found[0].count(")"):
            yield f"line {number}: {better} in place of {written}"
