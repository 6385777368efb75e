"""JavaScript and C as tokens, lines and functions, for `test_source.py`."""

import re
from typing import NamedTuple

TOKEN = re.compile(
    r"""(?P<space>\s+|//[^\n]*|/\*.*?\*/)"""
    r"""|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'"""
    r"""|[A-Za-z_$#][\w$]*|\d[\w.]*"""
    r"""|=>|===|!==|\?\?=|\?\?|\?\.(?!\d)|\.\.\.|&&|\|\||\*\*|[+\-*/%<>=!&|^]=?|[^\s]""",
    re.DOTALL,
)
PATTERN = re.compile(r"/(?:\\.|\[(?:\\.|[^\]\\])*\]|[^/\\\[\n])+/[a-z]*")
BEFORE_PATTERN = {*"(,=:[!&|?{};~+-*%<>^", "=>", "&&", "||", "??", "return", "==="}
NO_NAMES = {"if", "for", "while", "switch", "catch", "function", "return", "super"}
CONDITIONALS = {"if", "?", "case"}
GOES_ON = {*"+-*/%<>=.,?:&|^([{", "=>", "&&", "||", "??", "?.", "===", "!==", "<=", ">=", "**"}
OPENING, CLOSING = {*"([{", "${"}, set(")]}")


class Token(NamedTuple):
    text: str
    place: int


class Function(NamedTuple):
    name: str
    line: int
    tokens: int
    lines: int
    conditionals: int


def lines_with_code(text):
    """How many lines have more than a comment."""
    bare = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    lines = map(str.strip, bare.splitlines())
    return sum(not line.startswith("//") for line in lines if line)


def tokens(text, place=0, end=None):
    """The tokens of a program without comments, those inside templates among them."""
    found = []
    end = len(text) if end is None else end
    while place < end:
        if text[place] == "`":
            place = _template(text, place, found)
            continue
        if text[place] == "/" and (not found or found[-1].text in BEFORE_PATTERN):
            pattern = PATTERN.match(text, place)
            if pattern and not text.startswith(("//", "/*"), place):
                found.append(Token(pattern[0], place))
                place = pattern.end()
                continue
        match = TOKEN.match(text, place)
        if not match["space"]:
            found.append(Token(match[0], place))
        place = match.end()
    return found


def _template(text, place, found):
    """Add a template as one token, and then those of the code in it; return where it ends."""
    found.append(Token("`", place))
    place += 1
    while text[place] != "`":
        if text[place] == "\\":
            place += 2
        elif text.startswith("${", place):
            close = _closing(text, place + 2)
            found += [Token("${", place), *tokens(text, place + 2, close), Token("}", close)]
            place = close + 1
        else:
            place += 1
    return place + 1


def _closing(text, place):
    """Where the brace of a template closes that was opened before `place`."""
    depth = 1
    while True:
        if text[place] == "`":
            place = _template(text, place, [])
            continue
        match = TOKEN.match(text, place)
        depth += (match[0] == "{") - (match[0] == "}")
        if not depth:
            return place
        place = match.end()


def functions(text):
    """Every function of a program, with those inside it."""
    found = tokens(text)
    for k, token in enumerate(found):
        if token.text == "=>":
            start, end = _parameters(found, k), _body(text, found, k + 1)
        elif token.text == "function" or _is_method(found, k):
            start, end = k, _block(found, k)
        else:
            continue
        own = found[start:end]
        lines = text.count("\n", own[0].place, own[-1].place) + 1
        line = text.count("\n", 0, own[0].place) + 1
        conditionals = sum(one.text in CONDITIONALS for one in own)
        yield Function(_name(found, start, k), line, len(own), lines, conditionals)


def _matching(found, k, step):
    """The place of the bracket that matches the one at k, forwards or backwards."""
    depth = 0
    while True:
        depth += (found[k].text in OPENING) - (found[k].text in CLOSING)
        if not depth:
            return k
        k += step


def _parameters(found, k):
    return _matching(found, k - 1, -1) if found[k - 1].text == ")" else k - 1


def _body(text, found, k):
    """The end of an arrow function whose body begins at k. An expression may end with its line."""
    if found[k].text == "{":
        return _matching(found, k, 1) + 1
    while k < len(found) and found[k].text not in CLOSING | {",", ";"}:
        k = _matching(found, k, 1) + 1 if found[k].text in OPENING else k + 1
        if k == len(found) or found[k - 1].text in GOES_ON or found[k].text in GOES_ON:
            continue
        if "\n" in text[found[k - 1].place : found[k].place]:
            break
    return k


def _block(found, k):
    """The end of a function or method whose name is at k or after it."""
    while found[k].text != "(":
        k += 1
    return _matching(found, _matching(found, k, 1) + 1, 1) + 1


def _is_method(found, k):
    if not re.match(r"[A-Za-z_$]", found[k].text) or found[k].text in NO_NAMES or not k:
        return False
    if found[k - 1].text not in {"{", "}", ";", ",", "async"}:
        return False
    if k + 1 >= len(found) or found[k + 1].text != "(":
        return False
    close = _matching(found, k + 1, 1)
    return close + 1 < len(found) and found[close + 1].text == "{"


def _name(found, start, k):
    if found[k].text == "function":
        return found[k + 1].text
    if found[k].text == "=>":
        before = [one.text for one in found[max(0, start - 2) : start]]
        return before[0] if before[1:] in (["="], [":"]) else "=>"
    return found[k].text
