"""`python -m seq2attn`, and the command `seq2attn`."""

import os
import signal


def main() -> None:
    """Run the command line.

    Ctrl-C raises `KeyboardInterrupt`, except during an import, where it ends the process at once:
    a module that is being imported might catch the exception and go on.
    """
    # not where it is ignored, as in what a script starts in the background, with `&`
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)
    from seq2attn.cli import main as run_command_line

    run_command_line()


# No imports for types before this is in place.
def _interrupt(number, frame):  # type: ignore[no-untyped-def]
    """Raise `KeyboardInterrupt`; end the process if one of the frames is an import."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            os._exit(130)
        frame = frame.f_back
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
