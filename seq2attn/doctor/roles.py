"""Which argument of an attention is the query, the keys or the mask, by their names.

Words in a name tell its role, such as "keys", "mask" or "lengths" (`words.toml` lists them). A name
such as `x` or `source` is "weak": it is the query or the keys, but does not say which. "again" is
the role of what was made of the keys, such as projected keys; "other" that of all else.
"""

from collections.abc import Iterator, Mapping, Sequence

from seq2attn.doctor.said import role_by_type
from seq2attn.doctor.words import NOT_OF_KEYS, ROLES, SOURCES, is_in, role_of, words

OF_ONE = ("query", "keys", "values")  # roles that only one argument has
SIDES = ({"h", "w"}, {"height", "width"})
Roles = dict[str, list[str]]
"""names of arguments by their role"""


def roles(names: Mapping[str, bool], said: str = "") -> Iterator[Roles]:
    """Yield readings of the names of arguments, the likeliest first: the arguments by their roles,
    without those that are left out.

    names: the arguments, each with whether it must be given. said: the docstrings, which may say
    what shapes they have.

    Arguments whose names say little, such as `x` and `source`, are the query and the keys, in this
    order, unless words such as `memory`, or the name of a mask (`source_mask`), say which are the
    keys. A single one is the keys, without a query: it attends to itself. If others must be given,
    too, the first of these may be the values, which is tried before. After these come readings with
    query and keys the other way round, and self-attention, without keys that are optional.
    """
    found, weak = _told(names, said)
    # the likeliest keys: those with a mask or lengths of their own, then those named as sources
    masked = [name for name in weak if is_in(name, found["mask"] + found["lengths"])]
    sources = masked + [name for name in weak if words(name) & SOURCES]
    rest = _guess_keys_and_query(found, weak, sources, names)
    for name in rest:
        if names[name]:  # it must be given
            # a second one that is named as keys is what was made of them, but `k` a number of them
            role = "count" if name == "k" else "again" if role_of(name) == "keys" else "other"
            found[role].append(name)
    first = next(iter(rest), None)
    if first in found["other"] and first not in sources and not found["values"]:
        # the first one that is left may be the values, unless it is a second memory
        others = [name for name in found["other"] if name != first]
        yield {**found, "values": rest[:1], "other": others}
    yield found
    # the other way round, if no name says which are the keys: neither their own names, nor that of
    # a mask or of lengths of just one of them
    told = {role_of(name) for name in (*found["query"], *found["keys"])}
    tell_nothing = told <= {"weak", ""} and len(masked) != 1
    # or if both names say so, and that of a mask is like the query's: `neighbour_mask`
    of_masks = words(*found["mask"], *found["lengths"])
    is_masked = [bool(words(*found[role]) & of_masks) for role in ("query", "keys")]
    is_like_query = len(told) == 1 and is_masked == [True, False]
    if found["query"] and (tell_nothing or is_like_query):
        yield {**found, "query": found["keys"], "keys": found["query"]}
    # self-attention, if the keys are optional: without them, and without their mask
    for optional in found["keys"]:
        if found["query"] and not names[optional]:
            masks = [name for name in found["mask"] if not words(name) & words(optional)]
            # what would be the query is the keys, which attend to themselves
            yield {**found, "keys": found["query"], "query": [], "values": [], "mask": masks}


def _guess_keys_and_query(
    found: Roles, weak: list[str], sources: Sequence[str], names: Mapping[str, bool]
) -> list[str]:
    """If no name told which are the keys or the query, choose them among weak names, and add them
    to `found`. Return the weak names that are left.

    weak: names that say little. sources: those of them that are likely the keys, the likeliest
    first. names: all arguments, each with whether it must be given.
    """
    weak = sorted(weak, key=lambda name: not words(name) & NOT_OF_KEYS)  # a decoder's is the query
    # an optional argument is left out, unless it is likely the keys, or there is nothing else
    rest = [name for name in weak if names[name] or name in sources]
    if not rest and not (found["query"] and found["keys"]):
        # an optional argument whose name tells nothing, such as `labels`, is not the query if
        # another one is the keys
        rest = [name for name in weak if role_of(name) or not found["keys"]][:1]
    if not found["keys"]:
        after_query = rest if found["query"] else rest[1:]  # the first one is then the query
        # one argument alone is the keys, even if it is named as a query: it attends to itself
        found["keys"] = (list(sources) or after_query or rest or found["query"])[:1]
    rest = [name for name in rest if name not in found["keys"]]
    if not found["query"]:
        found["query"], rest = rest[:1], rest[1:]
    if found["query"] == found["keys"]:  # that one alone
        found["query"] = []
    return rest


def _told(names: Mapping[str, bool], said: str) -> tuple[Roles, list[str]]:
    """Return the arguments by the role that their names, or the docstrings, tell; and the names of
    those whose role is left to be guessed: weak names, such as `x`, and a second one for a role
    that takes only one. Others that need not be given, such as a bias, are left out, but not masks
    and lengths. Values without keys are taken for the keys.

    names: the arguments, each with whether it must be given. said: the docstrings, which count if
    a name tells little; if they say that a `mask` has one axis, (B,), it is lengths.
    """
    found: Roles = {role: [] for role in (*ROLES, "side")}
    lower = {name.lower() for name in names}
    # such as h and w, where both are arguments
    sides = set().union(*(pair for pair in SIDES if pair <= lower))
    rest = []
    for name, needed in names.items():
        role = role_of(name)
        if not role and name.startswith(("n_", "num_")):
            role = "lengths"  # such as `n_regions`
        elif name.lower() in sides:
            role = "side"  # the height or width of an image whose places are given as a sequence
        elif role in ("mask", "count", "weak", ""):
            role = role_by_type(name, said) or role
        if role in ("weak", "") or (role in OF_ONE and found[role]):
            rest.append(name)
        elif needed or role in (*OF_ONE, "mask", "lengths"):
            found[role].append(name)
    if not found["keys"]:
        found["keys"], found["values"] = found["values"], []
    return found, rest


def masks_of(found: Roles) -> list[str]:
    """Return the arguments that may say which keys are valid, the likeliest first, lengths before
    masks. With a query, those are left out that are named as the query's, or as a decoder's.

    found: the arguments by their roles.
    """
    # the more words a mask shares with keys and padding, the earlier
    of_keys = {*ROLES["keys"], *SOURCES, *found["keys"], "pad", "padding", "valid"}
    by_rank = sorted(found["mask"], key=lambda name: -len(words(name) & of_keys))
    masks = found["lengths"] + by_rank
    if not found["query"]:
        return masks
    # a name such as `target_mask` is left out, unless it also names the keys by another word than
    # "key": `tgt_key_padding_mask` is the target's
    of_sources = SOURCES.union(*map(words, found["keys"])) - {"k", "key", "keys"}
    masks = [name for name in masks if not words(name) & NOT_OF_KEYS or words(name) & of_sources]
    # a single one that has the name of the query in its own is the query's; of several, none is
    # left out for that
    is_of_query = len(masks) == 1 and any(is_in(name, masks) for name in found["query"])
    return [] if is_of_query else masks
