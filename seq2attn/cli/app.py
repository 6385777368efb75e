"""The application: its commands, and the place where errors become messages and exit codes."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from typing import Annotated, Any

import typer

from seq2attn import __version__
from seq2attn.cli.analyze import analyze
from seq2attn.cli.check import check
from seq2attn.cli.commands import Command, UsageError, group
from seq2attn.cli.compare import compare
from seq2attn.cli.evaluate import evaluate
from seq2attn.cli.list import config, inspect, list_names
from seq2attn.cli.pages import export, page, report
from seq2attn.cli.plot import plot
from seq2attn.cli.predict import predict
from seq2attn.cli.runs import runs
from seq2attn.cli.train import train
from seq2attn.display.console import escape_streams, print_error, write_line
from seq2attn.errors import Seq2AttnError, is_out_of_memory

app = group("seq2attn", epilog="Start with:  seq2attn train --config configs/scaled.yaml")


def _version(requested: bool) -> None:
    if requested:
        typer.echo(f"seq2attn {__version__}")
        raise typer.Exit


@app.callback()
def seq2attn(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """A laboratory bench for attention in recurrent sequence-to-sequence models.

    Train an encoder-decoder on string tasks, choose its score function with one word of YAML,
    measure accuracy by string length, and plot its attention.
    """


for name, command in (
    ("train", train), ("eval", evaluate), ("predict", predict), ("compare", compare), ("runs", runs), ("inspect", inspect),
    ("config", config), ("list", list_names), ("check", check), ("report", report), ("page", page), ("export", export),
):  # fmt: skip
    app.command(name, cls=Command)(command)
app.add_typer(analyze)
app.add_typer(plot)


def main() -> None:
    """Run the command line. A user's mistake gives one message, never a traceback."""
    _prepare_streams()
    code = 0
    try:
        try:
            _run(typer.main.get_command(app))
        finally:
            sys.stdout.flush()  # here, where an error can still be reported
    except typer.Exit as stop:
        code = stop.exit_code
    except UsageError as error:
        code = 2
        if type(error).__name__ == "NoArgsIsHelpError":  # its message is the help
            write_line(error.format_message())
        else:
            command = error.ctx.command_path if error.ctx else "seq2attn"
            names = getattr(error.ctx and error.ctx.command, "commands", ())
            allowed = f"Commands: {', '.join(names)}\n" if names else ""
            message = error.format_message().replace("Value error, ", "")
            print_error(Seq2AttnError(message, hint=f"{allowed}See: {command} --help"))
    except (KeyboardInterrupt, typer.Abort):
        code = 130
    except BrokenPipeError:  # the reader closed the pipe, as `| head` does
        code = 141
    except Exception as error:
        explained = _explain(error)
        if explained is None:
            raise
        code = explained.exit_code
        print_error(explained)
    finally:
        _drop_closed_streams()
    sys.exit(code)


def _run(command: Any) -> None:
    """Without Typer's own handling of errors, for which a closed pipe is one like any other."""
    if (
        "_SEQ2ATTN_COMPLETE" in os.environ
    ):  # set by the scripts that `--install-completion` installs
        command(prog_name="seq2attn")
    with command.make_context("seq2attn", sys.argv[1:]) as context:
        command.invoke(context)


def _prepare_streams() -> None:
    """Replace closed standard streams, and escape what a stream's encoding lacks and what people
    should not get.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by the shell: `>&-`
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(
            errors="surrogateescape"
        )  # a line that is not text is refused, and the others are read
    escape_streams()


def _drop_closed_streams() -> None:
    """Discard output that its reader no longer takes; otherwise the interpreter would exit with its
    own code.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            with contextlib.suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _explain(error: Exception) -> Seq2AttnError | None:
    """What a user can do about an exception; None: it is a mistake of our own, with a traceback."""
    if isinstance(error, Seq2AttnError):
        return error
    if is_out_of_memory(error):
        reason = (str(error) or "the system has none left").splitlines()[0]
        hint = "Make model.hidden, training.batch_size or the strings smaller, or use a machine with more."
        return Seq2AttnError(f"out of memory: {reason}", hint=hint, exit_code=1)
    if isinstance(error, OSError):
        what = error.filename or "reading or writing failed"
        return Seq2AttnError(f"{what}: {error.strerror or error}", exit_code=1)
    from seq2attn.plugins import plugin_error

    return plugin_error(error)
