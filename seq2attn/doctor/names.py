"""What names mean: which argument is the query, the keys or the mask of an attention, and which
number a constructor takes.
"""

import contextlib
import inspect
import re
import tomllib
import types
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from torch import nn

from seq2attn.doctor.call import S
from seq2attn.errors import Seq2AttnError
from seq2attn.text import error_text

WORDS = tomllib.loads(Path(__file__).with_name("words.toml").read_text(encoding="utf-8"))
ROLES = {role: set(words.split()) for role, words in WORDS["roles"].items()}
(
    SOURCES,
    STATES,
    NOT_OF_KEYS,
    CONFIGS,
    OF_PADDING,
    OF_TOKENS,
    NEGATIONS,
    BATCH,
    CACHES,
    OF_TRUTH,
    OF_NUMBERS,
    PADDED,
) = (set(words.split()) for words in WORDS["words"].values())
OF_LENGTHS = {*WORDS["of_lengths"], *WORDS["column_of_lengths"]}
GUESSES = {value: set(words.split()) for value, words in WORDS["guesses"].items()}
HEADS, EVEN = 4, 64
LONG, SHORT, SQUARE = 32, S, (3, 3)  # the lengths, or windows of S places, of a constructor
PLACED = inspect.Parameter.POSITIONAL_ONLY
OF_ONE = ("query", "keys", "values")  # roles that only one argument has
Roles = dict[str, list[str]]
"""names of arguments by their role"""


def required(function: Any) -> dict[str, bool]:
    """Return the names of the arguments that have no default, True, and of those whose default is
    None, False: such an argument may be given, but need not.
    """
    names = {}
    for name, one in inspect.signature(function).parameters.items():
        is_single = one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
        is_needed = one.default is one.empty
        if is_single and (is_needed or one.default is None):
            names[name] = is_needed
    return names


@cache
def words(name: str) -> frozenset[str]:
    """Return the words of a name, pairs of neighbours among them, and the name: `encoderOut1` has
    encoder, out, encoder_out and encoder_out1.
    """
    apart = re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower()
    parts = re.split(r"[_\d]+", apart)
    return frozenset({*parts, *map("_".join, pairwise(parts)), apart})


def roles(names: Mapping[str, bool], said: str = "") -> Iterator[Roles]:
    """Yield the roles that arguments may have, the likeliest reading of their names first.

    names: of the arguments, and whether each must be given. said: the docstrings, which may say
    what shapes they have.

    Arguments whose names say little, such as `x` and `source`, are the query and the keys, in this
    order, unless words such as `memory`, or the name of a mask (`source_mask`), say which are the
    keys. A single one attends to itself. The other readings are: query and keys the other way
    round, and without keys that are optional.
    """
    found, rest = _told(names, said)  # rest: names that say little
    # the likeliest keys: those with a mask or lengths of their own, then those named as sources
    masked = [name for name in rest if is_in(name, found["mask"] + found["lengths"])]
    sources = masked + [name for name in rest if words(name) & SOURCES]
    # an optional argument may be left out, unless it is the keys, or there is nothing else
    likely = [name for name in rest if names[name] or name in sources]
    rest = likely if found["query"] and found["keys"] else likely or rest[:1]
    if not found["keys"]:
        after_query = rest if found["query"] else rest[1:]  # the first one is the query
        # one argument alone is the keys: it attends to itself
        found["keys"] = (sources or after_query or rest or found["query"])[:1]
    rest = [name for name in rest if name not in found["keys"]]
    if not found["query"]:
        found["query"], rest = rest[:1], rest[1:]
    if found["query"] == found["keys"]:
        found["query"] = []
    for name in rest:
        # a second one of the keys is what was made of them, which is left out if it may be
        role = "again" if role_of(name) == "keys" else "other"
        if names[name] or role == "other":
            found[role].append(name)
    # a second memory
    is_memory = bool(rest) and (rest[0] in masked or bool(words(rest[0]) & SOURCES))
    if rest and not is_memory and rest[0] in found["other"] and not found["values"]:
        # the first that is left may be the values
        others = [name for name in found["other"] if name != rest[0]]
        yield {**found, "values": rest[:1], "other": others}
    yield found
    # the other way round, if no name says which are the keys, also not that of one mask
    told = {role_of(name) for name in (*found["query"], *found["keys"])}
    is_unclear = told <= {"weak", ""} and len(masked) != 1
    if found["query"] and is_unclear:
        yield {**found, "query": found["keys"], "keys": found["query"]}
    # self-attention, if the keys are optional: without them, and without their mask
    for optional in found["keys"]:
        if found["query"] and not names[optional]:
            masks = [name for name in found["mask"] if not words(name) & words(optional)]
            # "query" is empty, as in all self-attention: what attends to itself is the keys
            yield {**found, "keys": found["query"], "query": [], "values": [], "mask": masks}


def _told(names: Mapping[str, bool], said: str) -> tuple[Roles, list[str]]:
    """Return the arguments by the role that their names, or the docstrings, tell; and the names of
    those whose role is left to be guessed: weak names, such as `x`, and a second one for a role
    that takes only one. Others that need not be given, such as a bias, are left out. Values without
    keys are taken for the keys.

    names: of the arguments, and whether each must be given. said: the docstrings; if they say that
    a `mask` has one axis, (B,), it is lengths.
    """
    found: Roles = {role: [] for role in ROLES}
    rest = []
    for name, needed in names.items():
        role = role_of(name)
        if name.removeprefix("num_").removeprefix("n_") in names.keys() - {name}:
            role = "lengths"  # `n_regions`, beside an argument `regions`
        elif role in ("mask", "count", "weak", ""):
            role = role_by_type(name, said) or role
        if role in ("weak", "") or (role in OF_ONE and found[role]):
            rest.append(name)
        elif needed or role in (*OF_ONE, "mask", "lengths"):
            found[role].append(name)
    if not found["keys"]:
        found["keys"], found["values"] = found["values"], []
    return found, rest


def role_of(name: str) -> str:
    """Return the role that the words of a name tell, such as "keys" for `encoder_outputs`; empty if
    they tell none.
    """
    told = words(name)
    if told & PADDED:  # `xs_pad` are inputs, and no mask
        return "weak"
    role = next((role for role, of_role in ROLES.items() if told & of_role), "")
    # a previous state is the query, and previous alignments are not
    return "weak" if role == "history" and words(name) & STATES else role


def is_in(name: str, others: Sequence[str]) -> bool:
    """Return whether one of the other names contains this name, or its singular: `caption_lengths`
    contains the singular of `captions`.
    """
    return bool({name, name.removesuffix("s")} & set().union(*map(words, others)))


def masks_of(found: Roles) -> list[str]:
    """Return the arguments that may say which keys are valid, the likeliest first, lengths before
    masks; none if the only one is named after the query.

    found: the arguments by their roles.
    """
    # the more words a mask shares with keys and padding, the earlier
    of_keys = {*ROLES["keys"], *SOURCES, *found["keys"], "pad", "padding", "valid"}
    by_rank = sorted(found["mask"], key=lambda name: -len(words(name) & of_keys))
    masks = found["lengths"] + by_rank
    if not found["query"]:
        return masks
    # a name such as `target_mask` is left out, unless it also names the keys, which the words below
    # do not do: `tgt_key_padding_mask` is the target's
    of_sources = SOURCES.union(*map(words, found["keys"])) - {"k", "key", "keys"}
    masks = [name for name in masks if not words(name) & NOT_OF_KEYS or words(name) & of_sources]
    is_of_query = len(masks) == 1 and any(is_in(name, masks) for name in found["query"])
    return [] if is_of_query else masks


# ---- constructors ----


class SimpleNamespace(types.SimpleNamespace):
    """A config object that answers any name, and shows what it was asked.

    It has the name of its base, which its `repr` begins with: a line that makes an instance of it
    can be run anywhere.
    """

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # as Python asks for, to copy it or to find what it can do
            raise AttributeError(name)
        setattr(self, name, guess(name, self.width))
        return getattr(self, name)

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)

    def get(self, name: str, default: Any = None) -> Any:
        """Return a value, as a dictionary does."""
        return getattr(self, name) if default is None else default


def guess(name: str, width: int, longest: Any = LONG, rest: int | None = None) -> Any:
    """Guess from the words of its name what an argument of a constructor may be. width: for a name
    such as `dim`. longest: of the sources, for a name such as `max_length`. rest: for a name that
    tells nothing; the width by default.
    """
    if words(name) & CONFIGS:
        return SimpleNamespace(width=width)
    for value, known in GUESSES.items():
        if words(name) & known:  # a value is an expression, such as "W // H"
            return eval(value, {"W": width, "H": HEADS, "LONG": longest, "nn": nn})
    return rest or width


HAS_PARTS = re.compile("'int' object (is not subscriptable|is not iterable|has no attribute)")


def instances(cls: Any, sizes: Sequence[Any], width: int) -> Iterator[tuple[Any, str]]:
    """Yield instances of a class, with the line of code that makes each.

    sizes: what the constructor is given; if it is empty, that is guessed from the names of its
    arguments (see `guess`), in several ways. The first is for long sources. The next two are for
    sources of exactly the length that the doctor draws, with a small number where a name tells
    nothing. If none of these works, a width is tried that more sizes of heads divide, and then, if
    a number was asked for its parts or its attributes, a pair, or an object, in place of each.
    """
    problems: list[str] = []
    tried: list[dict[str, Any]] = []
    works = False
    # nothing is guessed beside `sizes`: then all ways are the same, and one is tried
    needed = [] if sizes else [name for name, is_needed in required(cls).items() if is_needed]
    arguments = inspect.signature(cls).parameters
    by_place = [name for name in needed if arguments[name].kind is PLACED]
    ways = [(width, LONG, width), (width, SHORT, HEADS), (width, SQUARE, HEADS)]
    usual = [{name: guess(name, *way) for name in needed} for way in ways]
    last = {name: guess(name, EVEN, LONG, EVEN) for name in needed}
    parts = [(width, width), SimpleNamespace(width=width)]
    parted = [{**usual[0], name: part} for part in parts for name in needed]
    for number, given in enumerate([*usual, last, *parted]):
        if given in tried or (works and number >= len(usual)):
            continue
        if number > len(usual) and not HAS_PARTS.search(problems[0]):
            break
        tried.append(given)
        placed = [*sizes, *(given[name] for name in by_place)]
        named = {name: value for name, value in given.items() if name not in by_place}
        shown = [*map(repr, placed), *(f"{name}={value!r}" for name, value in named.items())]
        try:
            instance = cls(*placed, **named)
        except Exception as error:
            problems.append(error_text(error))
            continue
        works = True
        yield instance, f"attention = {cls.__name__}({', '.join(shown)})"
    if not works:
        raise Seq2AttnError(
            f"{cls.__name__} cannot be made: {problems[0]}",
            hint="Give what its constructor takes, in order: --sizes 16,32; or name an instance.",
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
    r"(?<![.\d])\b(true|1|nonzero|false|0)(?:\.0)?\b[`*'\"]*\s*(?:(?:entries|values|positions) )?"
    r"(?:[=:→]+|->|to|for|at|where|on|if|is|are|means?|marks?|indicates?|denotes?)\s"
    r"([^.,;:()\n]+?)(?=[.,;:()\n]| and | or |$)",
    re.IGNORECASE,
)
UNPACKED = re.compile(r"^ *(\w+(?:, *\w+)+) = (\w+)\.(?:shape|size\(\))(?: *#.*)?$", re.MULTILINE)
MEANT_BY = re.compile(
    r"(\w+)(?: out)? (?:where|when|wherever|if)\b[^.;:]{0,60}?"
    r"\b(?:is|are|=+) [`*'\"]*(true|false|0|1)\b",
    re.IGNORECASE,
)
"""such as "masked out where their value is `False`\""""


def documented(mask: str, text: str) -> tuple[bool | None, str]:
    """Return whether a docstring says that True in a mask means padding, and the words that say so;
    None if it says nothing of the mask.

    mask: its name. The text just after it is searched: first for a value and its meaning, as in
    "True for tokens to ignore", then for a meaning and its value, as in "ignored where it is True".
    What is said of False or 0, or with "not", as in "True: not attended", means the opposite.
    """
    # the name itself, and not `causal_mask` for `mask`; a letter or two stand in any word
    place = re.search(rf"\b{re.escape(mask)}\b", text)
    if not place and len(mask) > 2:
        place = re.search(re.escape(mask), text)
    after = text[place.start() :][:NEAR] if place else ""
    known = OF_PADDING | OF_TOKENS
    for found in MEANING.finditer(after):
        value, meaning = found.groups()  # "True", "tokens to ignore"
        told = re.findall(r"\w+", meaning.lower())
        telling = [word for word in told if word in known]
        if telling:
            # of "tokens to ignore", the second word tells
            word = min(telling, key=lambda one: one.startswith("token"))
            # what is negated may come after it: "1: token i may not see token j"
            until = None if word.startswith("token") else told.index(word)
            is_negated = bool(NEGATIONS & set(told[:until]))
            is_of_false = value.lower() in ("false", "0")
            return (word in OF_PADDING) ^ is_negated ^ is_of_false, found[0].strip()
    for found in MEANT_BY.finditer(after):
        word, value = found[1].lower(), found[2].lower()  # "ignored", "true"
        if word in known:
            return (word in OF_PADDING) ^ (value in ("false", "0")), found[0].strip()
    return None, ""


def axes_of(name: str, text: str) -> tuple[list[str], str]:
    """Return the axes that docstrings (`text`) name for an argument, and the word that follows: "b"
    and "s", and "bool", of "mask: (B, S) bool". For one that may be the query or the keys, what is
    said of "input" counts, too. Several axes count only if one is that of the batch.
    """
    found = re.search(SHAPE.format(re.escape(name)), text)
    if not found and role_of(name) in ("keys", "query", "weak", ""):
        patterns = (SHAPE.format("[Ii]nputs?"), BEFORE, FOR)
        found = next(filter(None, (re.search(one, text) for one in patterns)), None)
    if not found:
        return [], ""
    apart = re.split(r",| x ", found[1])
    axes = [axis.strip(" `*").lower() for axis in apart if axis.strip()]
    is_told = len(axes) == 1 or BATCH & set(axes)
    return (axes, found[2].lower()) if is_told else ([], "")


def role_by_type(name: str, said: str) -> str:
    """Return the role that the shape or the type of an argument tells, if docstrings (`said`) name
    them: "lengths", "mask" or "other"; the empty string if they do not.
    """
    axes, kind = axes_of(name, said)
    if len(axes) == 1 and role_of(name) in ("mask", "count") and kind not in OF_TRUTH:
        return "lengths"
    if kind in OF_TRUTH:
        return "mask"
    return "other" if kind in OF_NUMBERS and role_of(name) != "mask" else ""


def said_of(attention: Any, first: bool = False) -> str:
    """Return the name and the docstrings of an attention, or their first lines."""
    owner = type(attention) if isinstance(attention, nn.Module) else attention
    docs = [getattr(owner, "__name__", ""), owner.__doc__, function_of(attention).__doc__]
    docs = [doc.strip() for doc in docs if doc]
    return "\n".join(doc.partition("\n")[0] if first else doc for doc in docs)


def documented_by(attention: Any, mask: str) -> tuple[bool | None, str]:
    """Return what `documented` does, of the docstrings of an attention, or else of the comments in
    its function.
    """
    told = documented(mask, said_of(attention))
    if told[0] is None:
        comments = re.findall(r"^ *# *(.*)", source_of(attention), re.MULTILINE)
        told = documented(mask, "\n".join(comments))
    return told


def unpacked(attention: Any) -> str:
    """Return the shapes of arguments that the function of an attention unpacks before it changes
    them, as a docstring would: "x: (batch, seq, _)" for `batch, seq, _ = x.shape`.
    """
    source, lines = source_of(attention), []
    for found in UNPACKED.finditer(source):
        axes, name = found.groups()
        if not re.search(rf"\b{name}\b[\w, ]* = ", source[: found.start()]):
            lines.append(f"{name}: ({axes})")
    return "\n".join(lines)


def source_of(attention: Any) -> str:
    """Return the source of the function of an attention; the empty string if it is not known."""
    with contextlib.suppress(OSError, TypeError):
        return inspect.getsource(function_of(attention))
    return ""


CHOICES = {"optional", "optionally", "or", "if", "whether", "when", "can", "may"}


def is_named_causal(attention: Any, padding: str = "") -> bool:
    """Return whether the name of an attention, or the first line of its docstring, says that it is
    causal, and nothing that it is given, a mask or a flag, can decide that. padding: an argument
    that cannot, although it is a mask.
    """
    owner = type(attention) if isinstance(attention, nn.Module) else attention
    told = words(getattr(owner, "__name__", ""))
    # the first line does not count if it may speak of a choice, as "optionally causal" does
    line = {*re.findall(r"[a-z]+", (owner.__doc__ or "").strip().partition("\n")[0].lower())}
    if not line & CHOICES:
        told |= line
    flags = [*inspect.signature(owner).parameters, *vars(attention)]
    is_said = bool(told & {"causal", "autoregressive"})
    if not is_said or told & NEGATIONS or any("causal" in words(name) for name in flags):
        return False
    given = inspect.signature(function_of(attention)).parameters.values()
    return not any(
        one.kind is one.VAR_KEYWORD or words(one.name) & {*ROLES["mask"], "bias", "causal"}
        for one in given
        if one.name != padding
    )


def function_of(attention: Any) -> Any:
    """Return what is called: of a module, its `forward`."""
    return attention.forward if isinstance(attention, nn.Module) else attention


def module_of(attention: Any) -> nn.Module:
    """Return the attention; of a function, one module that holds those that it calls: none for a
    callable of another kind.
    """
    attention = getattr(attention, "__self__", attention)  # of a method, such as `layer.attend`
    if isinstance(attention, nn.Module):
        return attention
    modules = nn.ModuleList()
    if inspect.isfunction(attention):
        seen = inspect.getclosurevars(attention)
        for value in (*seen.nonlocals.values(), *seen.globals.values()):
            if isinstance(value, nn.Module):
                modules.append(value)
    return modules
