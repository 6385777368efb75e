"""What docstrings, comments and code say of the arguments of an attention: their shapes, what True
in a mask means, whether rows see later places. An "attention" is a module or a function.
"""

import contextlib
import inspect
import re
from typing import Any

from torch import nn

from seq2attn.doctor.call import arguments_of, function_of
from seq2attn.doctor.words import (
    BATCH,
    NEGATIONS,
    OF_NUMBERS,
    OF_PADDING,
    OF_TOKENS,
    OF_TRUTH,
    ROLES,
    role_of,
    words,
)

NEAR = 200  # letters after the name of a mask
SHAPE = (
    r"\b{}\b(?:[`* ]*\([^(),]*\))?[^()\[\]\n]{{0,60}}"
    r"[(\[]([^()\[\]]+(?:,| x )[^()\[\]]*)[)\]]"
    r"(?: or [(\[][^()\[\]]*[)\]])? *(\w*)"
)
"""a name, its axes in brackets, a few words later at most, and the word after them"""
BEFORE = r"[(\[]([^()\[\]]+(?:,| x )[^()\[\]]*)[)\]] inputs?\b()"
"""axes before what they are of, as in "on (batch, tokens, dim) inputs" """
FOR = r"\b(?:for|on|over) [^.()\[\]\n]{0,40} of shape [(\[]([^()\[\]]+,[^()\[\]]*)[)\]]()"
"""as in "a layer for token features of shape (batch, tokens, dim)" """
MEANING = re.compile(
    r"(?<![.\d])\b(?P<value>true|1|nonzero|false|0)(?:\.0)?\b[`*'\"]*\s*"
    r"(?:(?:entries|values|positions) )?"
    r"(?:[=:→]+|->|to|for|at|where|on|if|is|are|means?|marks?|indicates?|denotes?)\s"
    r"(?P<meaning>[^.,;:()\n]+?)(?=[.,;:()\n]| and | or |$)",
    re.IGNORECASE,
)
"""as in "True for tokens to ignore" """
MEANT_BY = re.compile(
    r"(?P<meaning>\w+)(?: out)? (?:where|when|wherever|if)\b[^.;:]{0,60}?"
    r"\b(?:is|are|=+) [`*'\"]*(?P<value>true|false|0|1)\b",
    re.IGNORECASE,
)
"""such as "masked out where their value is `False`\""""


def documented(mask: str, text: str) -> tuple[bool | None, str]:
    """Return whether a docstring says that True in a mask means padding, and the words that say so;
    None and the empty string if it says nothing of the mask.

    mask: its name. The NEAR letters from its first occurrence are searched: first for a value and
    its meaning, as in "True for tokens to ignore", then for a meaning and its value, as in "ignored
    where it is True". What is said of False or 0, or with "not", as in "True: not attended", means
    the opposite.
    """
    # the name itself, and not `causal_mask` for `mask`, if it stands alone somewhere; a name of a
    # letter or two is part of many words
    place = re.search(rf"\b{re.escape(mask)}\b", text)
    if not place and len(mask) > 2:
        place = re.search(re.escape(mask), text)
    after = text[place.start() :][:NEAR] if place else ""
    for found in (*MEANING.finditer(after), *MEANT_BY.finditer(after)):
        told = re.findall(r"\w+", found["meaning"].lower())
        telling = [word for word in told if word in OF_PADDING | OF_TOKENS]
        if telling:
            # the first word but "token": of "tokens to ignore", "ignore" tells
            word = min(telling, key=lambda one: one.startswith("token"))
            # "not" counts before the word; after "token", too: "1: token i may not see token j"
            until = None if word.startswith("token") else told.index(word)
            is_negated = bool(NEGATIONS & set(told[:until]))
            is_of_false = found["value"].lower() in ("false", "0")
            # each of the two turns the meaning around
            return (word in OF_PADDING) ^ is_negated ^ is_of_false, found[0].strip()
    return None, ""


def axes_of(name: str, text: str) -> tuple[list[str], str]:
    """Return the axes that docstrings (`text`) name for an argument, and the word after them, in
    lower case: "b" and "s", and "bool", of "mask: (B, S) bool"; no axes and the empty string if
    they name none. For an argument that may be the query or the keys, what is said of "input"
    counts, too. Several axes count only if one is that of the batch.
    """
    found = re.search(SHAPE.format(re.escape(name)), text)
    if not found and role_of(name) in ("keys", "query", "weak", ""):
        patterns = (SHAPE.format("[Ii]nputs?"), BEFORE, FOR)
        found = next(filter(None, (re.search(one, text) for one in patterns)), None)
    if not found:
        return [], ""
    parts = re.split(r",| x ", found[1])
    axes = [axis.strip(" `*").lower() for axis in parts if axis.strip()]
    # "[b, q_len, ]" leaves the rest to be guessed, and "(B,)" does not
    is_told = len(axes) == 1 or (BATCH & set(axes) and parts[-1].strip())
    return (axes, found[2].lower()) if is_told else ([], "")


def role_by_type(name: str, said: str) -> str:
    """Return the role of an argument that its shape or type tells, if docstrings (`said`) name
    them: "mask" for bool, "other" for whole numbers such as ids, but not of a mask; the empty
    string if they do not. A mask, or a count such as `num_tokens`, with one axis, (B,), and not
    bool, is "lengths".
    """
    axes, kind = axes_of(name, said)  # kind: the word after the shape, such as "bool" or "long"
    if len(axes) == 1 and role_of(name) in ("mask", "count") and kind not in OF_TRUTH:
        return "lengths"
    if kind in OF_TRUTH:
        return "mask"
    return "other" if kind in OF_NUMBERS and role_of(name) != "mask" else ""


def docs_of(attention: Any, first: bool = False) -> str:
    """Return the name and the docstrings of an attention, or their first lines."""
    owner = type(attention) if isinstance(attention, nn.Module) else attention
    docs = [getattr(owner, "__name__", ""), owner.__doc__, function_of(attention).__doc__]
    docs = [doc.strip() for doc in docs if doc]
    return "\n".join(doc.partition("\n")[0] if first else doc for doc in docs)


def documented_by(attention: Any, mask: str) -> tuple[bool | None, str]:
    """Return whether the docstrings of an attention, or else the comments in its function, say that
    True in a mask means padding, and the words that say so; None and the empty string if neither
    says anything of the mask. mask: its name.
    """
    told = documented(mask, docs_of(attention))
    if told[0] is None:
        comments = re.findall(r"^ *# *(.*)", source_of(attention), re.MULTILINE)
        told = documented(mask, "\n".join(comments))
    return told


def source_of(attention: Any) -> str:
    """Return the source of the function of an attention; the empty string if it is not known."""
    with contextlib.suppress(OSError, TypeError):
        return inspect.getsource(function_of(attention))
    return ""


CHOICES = {"optional", "optionally", "or", "if", "whether", "when", "can", "may"}
"""words with which a line speaks of a choice, as in "optionally causal" """


def is_named_causal(attention: Any, padding: str = "") -> bool:
    """Return whether the name of an attention, or the first line of its docstring, says that it is
    causal, and nothing else can decide that: no flag such as `causal`, as an attribute or for the
    constructor, and no mask or bias for a call.

    padding: the argument that is a mask of padding, which cannot decide it; "" for none.
    """
    owner = type(attention) if isinstance(attention, nn.Module) else attention
    told = words(getattr(owner, "__name__", ""))
    # the words of the first line, which do not count if it speaks of a choice
    line = {*re.findall(r"[a-z]+", (owner.__doc__ or "").strip().partition("\n")[0].lower())}
    if not line & CHOICES:
        told |= line
    flags = [*inspect.signature(owner).parameters, *vars(attention)]
    is_said = bool(told & {"causal", "autoregressive"})
    if not is_said or told & NEGATIONS or "causal" in words(*flags):
        return False
    arguments = arguments_of(attention)
    takes_any = any(one.kind is one.VAR_KEYWORD for one in arguments.values())  # `**kwargs`
    others = words(*(name for name in arguments if name != padding))
    return not takes_any and not others & {*ROLES["mask"], "bias", "causal"}
