"""Training loops of the user's own, as the trials of a comparison get them. Imports no torch."""

import contextlib
import inspect
import pickle
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from seq2attn.comparison.fingerprint import fingerprint
from seq2attn.errors import Seq2AttnError
from seq2attn.text import error_text, quoted, short_path

Train = Callable[[Any], object]
"""a function that trains the `NewModel` it is given"""


@dataclass(frozen=True)
class Loop:
    """A function of the user's that trains a model, in a form that other processes can be given."""

    key: str
    """its name and its `fingerprint`, which a run keeps: another function of this name has another
    key"""
    pickled: bytes

    def train(self, model: Any) -> None:
        """Train a model. What the user's function raises becomes a `Seq2AttnError` with file and
        line, except Ctrl-C, and what is one already.
        """
        try:
            pickle.loads(self.pickled)(model)
        except (KeyboardInterrupt, Seq2AttnError):
            raise
        except BaseException as error:  # a loop may also call `exit()`
            *_, frame = traceback.extract_tb(error.__traceback__)  # the innermost call
            where = f"{short_path(frame.filename)}:{frame.lineno}"
            message = f"train: {where}: {error_text(error)}"
            raise Seq2AttnError(message, exit_code=1) from error


def read_loops(train: Train | Mapping[str, Train] | None) -> dict[str, Loop]:
    """Return the loops by name: those of a mapping, a single function by its own name, or of None
    no loop.

    Raises `Seq2AttnError` for what cannot be called with a model, and for a function that cannot be
    sent to another process.
    """
    if train is None:
        return {}
    # (a `functools.partial` has no name of its own: it is called "")
    functions = train if isinstance(train, Mapping) else {getattr(train, "__name__", ""): train}
    loops = {}
    for name, function in functions.items():
        if not _takes_a_model(function):
            raise Seq2AttnError(
                f"train: expected a function of a model, or a mapping of names to such functions; "
                f"found {quoted(function)}"
            )
        loops[str(name)] = Loop(f"{name} {fingerprint(function)}", _pickled(function))
    return loops


def _takes_a_model(function: Any) -> bool:
    """Return True if it can be called with one argument."""
    try:
        inspect.signature(function).bind(None)
    except (TypeError, ValueError):
        return False
    return True


def _pickled(function: Train) -> bytes:
    """Return a function as bytes for other processes: its name if they can import it, otherwise its
    code itself, which needs the package cloudpickle.

    Without that package, a function of a script goes by its name, too. Raises `Seq2AttnError` for
    one that then cannot be sent: of a notebook, a lambda, or inside another function.
    """
    is_of_main = getattr(function, "__module__", "") == "__main__"  # a notebook, or a script
    by_name = b""
    # a script has a file, which workers of this machine import, too; a notebook has none
    if not is_of_main or hasattr(sys.modules["__main__"], "__file__"):
        # a function inside a function, or a lambda, cannot be imported
        with contextlib.suppress(pickle.PicklingError, AttributeError, TypeError):
            by_name = pickle.dumps(function)
    if by_name and not is_of_main:
        return by_name
    # the code itself, of a script's function too: workers of other machines cannot import a script
    try:
        import cloudpickle
    except ImportError:
        if by_name:
            return by_name
        raise Seq2AttnError(
            f"train: {getattr(function, '__name__', function)} can only be given to other "
            "processes with the package cloudpickle",
            hint="pip install cloudpickle, or put the function into a file and import it.",
        ) from None
    return bytes(cloudpickle.dumps(function))
