"""Rules of positions, and of blocks: what says that it encodes positions depends on them, and the
size of blocks in which keys are visited changes nothing.

A rule yields the code of each finding, with what the finding's text shows. B counts rows of the
batch, H heads, L queries, S keys; in self-attention both are places of one sequence, L = S.
Differences are shares of the largest number of a result; CLOSE is what rounding may make of equal
results.
"""

import contextlib
import functools
import re
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from seq2attn.doctor.call import B, settle
from seq2attn.doctor.said import docs_of, source_of
from seq2attn.doctor.subject import CLOSE, Subject, gap, unchanged
from seq2attn.doctor.words import POSITIONS, words
from seq2attn.findings.engine import Found

ROTARY, NEARER, ENCODED, BLOCKS, COUNTS = POSITIONS.values()
COUNTED = {
    r"window\w*`*\s*-\s*1\b|- `?window\w*`* \+ 1\b"
    r"|window[^.]*\b(counting|including) itself|window[^.]*\bitself included": (1, 0),
    r"\b2 ?\* ?`?window\w*`* ?\+ ?1\b": (2, 1),
}
"""what docstrings say of the places of a window, and (a, b) if a window of size n has a n + b"""
IN_ORDER = (nn.RNNBase, nn.Conv1d, nn.Conv2d)
"""layers that join places next to each other"""
FEW = 3  # places of a window, or of a side of an image
MANY = 7  # of its other side
IMAGE = r"keys(|\.mT)(?:\[:, (?:None|:, None)\]|\.unflatten\(\d, \(\d+, \d+\)\))"
"""an expression of an image"""
FAR = 0.02  # by which scores of equal tokens may differ, as a share of the largest


def positions(subject: Subject) -> Found:
    """Self-attention that encodes positions, as names in it say, depends on them. With rotary
    encodings, and with biases such as ALiBi's, scores depend on the distances of positions alone;
    and ALiBi's biases lower the score of a farther key. At most one finding is yielded.

    Equal tokens show that: then scores differ by positions only. Nothing is said where positions
    are an argument, as the call gives all tokens the same, or a bias that may hold them.
    """
    names = _encodings(subject)
    biases = [name for name in subject.arguments if "bias" in words(name)]
    if not subject.has_own_places or not names:
        return
    if words(*subject.call.expressions, *biases) & ENCODED:
        return
    if not subject.depends_on_order:
        yield "positions-unused", ", ".join(sorted(names))
        return
    keys = subject.inputs.keys
    equal = subject.inputs.unpadded._replace(keys=keys[:1, :1].expand_as(keys))  # tokens
    with unchanged(subject.module):
        # numbers that are all alike, as norms begin: others would turn queries and keys once more
        for parameter in subject.module.parameters():
            if parameter.dim() == 1:
                parameter.fill_(parameter.mean())
        weights = subject.run(equal).weights
    if not names & (ROTARY | NEARER) or len(weights) != 1:
        return  # absolute positions are right, or there are several layers
    # (H, L, S - 1), of the first row of the batch, as all are alike: by how much the next key's
    # score is higher; scores differ as the logarithms of weights do
    steps = weights[0][0].log().diff(dim=-1)
    # (H, L - 1, S - 2), the same for the next query, one key further on, less the step itself: 0 if
    # distances alone matter
    changes = steps[:, 1:, 1:] - steps[:, :-1, :-1]
    # weights of 0, of places that a row may not see, give NaN or infinity: no step
    steps, changes = (one.nan_to_num(0, 0, 0) for one in (steps, changes))
    by = float(changes.abs().max())
    if by > FAR * steps.abs().max() + CLOSE:
        yield "positions-absolute", by
    # before the row's own place, where the next key is a nearer one, it has a lower score
    elif names & NEARER and steps.tril(-1).min() < -CLOSE:
        yield "positions-reversed"


def selected(subject: Subject) -> Found:
    """If the keys with the largest scores are selected, and nothing encodes positions, the order of
    keys does not matter. If it does, `top-places` is yielded. Examined only where rows see all
    keys, or all up to their own place: of causal attention, `depends_on_order` compares the last
    row alone, which sees all keys.
    """
    is_whole = subject.seen.all() or subject.is_causal
    if not (subject.unmasked.watch.selected and subject.depends_on_order and is_whole):
        return
    # the order may matter where sizes of blocks or windows (`is_local`), convolutions, recurrent
    # layers or positions say so
    has_layers = any(isinstance(part, IN_ORDER) for part in subject.module.modules())
    has_positions = _encodings(subject) or words(*subject.arguments) & ENCODED
    if not (subject.is_local or has_layers or has_positions):
        yield "top-places"


def moved(subject: Subject) -> Found:
    """Where the order of keys matters, it is not because heads were split across places."""
    if subject.depends_on_order and subject.unmasked.watch.is_moved:
        yield "places-mixed"


def sides(subject: Subject) -> Found:
    """In self-attention over an image, the rows or columns of the output change their order as
    those of the image do, unless their order matters even in an image of a single row or column.
    Otherwise `sides-mixed` is yielded.
    """
    if subject.is_image and subject.has_own_places:
        with contextlib.suppress(Exception):  # it may need images of other sides
            flat = all(_follows(subject, *pair) for pair in ((1, MANY), (MANY, 1)))
            if flat and not _follows(subject, FEW, MANY):
                yield "sides-mixed", FEW, MANY


def _follows(subject: Subject, height: int, width: int) -> bool:
    """Return whether the output moves with an image of these sides, if the last row becomes the
    first, and the last column, too.
    """

    def as_image(found: re.Match[str]) -> str:
        """Return the expression of such an image in place of another one."""
        return f"keys{found[1]}.unflatten({2 if found[1] else 1}, ({height}, {width}))"

    def turned(tensor: Tensor) -> Tensor:
        """Return a tensor (B, places, D) with its places moved."""
        return tensor.view(len(tensor), height, width, -1).roll((1, 1), (1, 2)).flatten(1, 2)

    given = subject.call.expressions.items()
    texts = {name: re.sub(IMAGE, as_image, text) for name, text in given}
    called = subject.called(expressions=texts)
    inputs = subject.draw(length=height * width).unpadded
    outputs = [
        settle(called.results(one)[subject.output_indices[0]], B, height, width).flatten(1, 2)
        for one in (inputs, inputs.each(turned)._replace(valid=inputs.valid))
    ]
    return gap(turned(outputs[0]), outputs[1]) < CLOSE * float(outputs[0].abs().max())


def _encodings(subject: Subject) -> frozenset[str]:
    """Return the words for encodings of positions (`words.toml` lists them) that an attention
    contains. Which words count depends on where they stand:

    - in the names of parameters, and the names and classes of parts: all of them;
    - in the code of the attention's function, and the name of its class: those for rotary encodings
      and for biases such as ALiBi's (ROTARY, NEARER), as "position" may mean any position there;
      but not those of an argument that is left out, or of an attribute that is None or False;
    - in the names of buffers, and in what `docs_of` returns, which is the attention's name with the
      first lines of its docstrings: those for such biases alone (NEARER).
    """
    module = subject.module
    told = [name for name, _ in module.named_buffers()]
    told += re.findall(r"\w+", docs_of(subject.call.attention, first=True).lower())
    names = [name for name, _ in module.named_parameters()]
    for name, part in module.named_modules():
        names += [name, type(part).__name__] if name else []  # "": the module itself
    used = re.findall(r"\w+", source_of(subject.call.attention))
    arguments, given = subject.arguments.items(), subject.call.expressions
    unset = [name for name, one in arguments if not one.default and name not in given]
    unset += [name for name, value in vars(module).items() if value is None or value is False]
    # a position-wise layer encodes no positions
    held = words(*(name for name in names if "wise" not in name.lower()))
    in_code = words(type(module).__name__, *used) - words(*unset)
    by_distance = (held | in_code) & (ROTARY | NEARER)
    return held & ENCODED | by_distance | words(*told) & NEARER


def window_size(subject: Subject) -> Found:
    """A window of self-attention, its size set to FEW, has as many places as its docstring counts.
    The row's own place may be one of them, as in "window_size - 1 tokens before it", or there may
    be `window_size` on either side of it, as in "2 * window_size + 1". Nothing is said of other
    docstrings, and of a number that is not wrong by exactly one on each side that is counted.
    """
    counted = [one for text, one in COUNTED.items() if re.search(text, subject.docs)]
    if not subject.has_own_places or not counted:
        return
    # (1, 0): FEW places, the row's own among them; (2, 1): FEW on either side, and the row's own
    sides, own = counted[0]
    expected = sides * FEW + own
    for attention, numbers, name, value in _sizes(subject, {"window"}):
        numbers[name] = FEW
        with contextlib.suppress(Exception):  # another size may have to be changed with this one
            # how many places a row sees at most
            most = int(subject.called(attention=attention).seen.sum(1).max())
            if abs(most - expected) == sides:
                yield "window-wide", name, FEW, most, expected
        numbers[name] = value  # as it was


def tables(subject: Subject) -> Found:
    """Different distances between places of an image's window have different rows of the table of
    biases for relative positions: in a window of x times y places, (2 x - 1) (2 y - 1) rows.

    Such a table is a parameter beside a buffer (x y, x y) of whole numbers, which says the row for
    each two places. What x and y are is not known: any sides of at least 2 may be meant.
    """
    for part in subject.module.modules():
        for name, index in part.named_buffers(recurse=False):
            places = len(index) if index.dim() else 0  # x y
            if index.dtype != torch.long or index.shape != (places, places):
                continue
            sides = [side for side in range(2, places) if places % side == 0]
            distances = {(2 * side - 1) * (2 * places // side - 1) for side in sides}
            used = len(set(index.flatten().tolist()))  # how many rows the buffer names
            # a table with a row for each distance, of which some are never used
            if any(used < len(one) in distances for one in part.parameters(recurse=False)):
                yield "positions-collide", name, used


def _sizes(subject: Subject, known: set[str]) -> Iterator[tuple[Any, dict[str, Any], str, int]]:
    """Yield the sizes whose names have one of the `known` words, and none for a count of them: what
    to call, a dictionary that this call takes the size from, so that another one can be set there,
    the name, and the size. They are attributes of each part, then arguments with whole numbers as
    their defaults.
    """
    attention, arguments = subject.call.attention, subject.arguments.items()
    defaults = {name: one.default for name, one in arguments if type(one.default) is int}
    with_defaults = functools.partial(attention, **defaults)
    holders = [(attention, vars(part)) for part in subject.module.modules()]
    for called, numbers in (*holders, (with_defaults, with_defaults.keywords)):
        for name, value in list(numbers.items()):  # a copy, as a call may add attributes meanwhile
            is_size = type(value) is int and value > 0 and not words(name) & COUNTS
            if is_size and words(name) & known:
                yield called, numbers, name, value
