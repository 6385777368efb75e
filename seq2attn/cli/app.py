"""The application: its commands, and the place where errors become messages and exit codes."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from seq2attn import __version__
from seq2attn.cli.analyze import analyze
from seq2attn.cli.check import check
from seq2attn.cli.commands import ClosedPipe, Command, UsageError, group
from seq2attn.cli.compare import compare
from seq2attn.cli.evaluate import evaluate
from seq2attn.cli.inspect import inspect
from seq2attn.cli.list import list_names
from seq2attn.cli.output import drop_closed_streams, prepare_streams, print_error, write_line
from seq2attn.cli.pages import export, page, report
from seq2attn.cli.plot import plot
from seq2attn.cli.predict import predict
from seq2attn.cli.runs import runs
from seq2attn.cli.train import train
from seq2attn.errors import Seq2AttnError, is_out_of_memory

app = group("seq2attn", epilog="Start with:  seq2attn train --config configs/scaled.yaml")


def _version(requested: bool) -> None:
    if requested:
        typer.echo(f"seq2attn {__version__}")
        raise typer.Exit


@app.callback()
def seq2attn(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """A laboratory bench for attention in recurrent sequence-to-sequence models.

    Train an encoder-decoder on string tasks, choose its score function with one word of YAML, measure accuracy by
    string length, and plot its attention.
    """


app.command(cls=Command)(train)
app.command("eval", cls=Command)(evaluate)
app.command(cls=Command)(predict)
app.command(cls=Command)(compare)
app.command(cls=Command)(runs)
app.command(cls=Command)(inspect)
app.command("list", cls=Command)(list_names)
app.command(cls=Command)(check)
app.command(cls=Command)(report)
app.command(cls=Command)(page)
app.command(cls=Command)(export)
app.add_typer(analyze)
app.add_typer(plot)


def main() -> None:
    """Run the command line. A user's mistake gives one message, never a traceback."""
    prepare_streams()
    try:
        try:
            code = app(prog_name="seq2attn", standalone_mode=False)
        finally:
            sys.stdout.flush()  # here, where an error can still be reported
        sys.exit(code if isinstance(code, int) else 0)
    except UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # its message is the help
            write_line(error.format_message())
        else:
            command = error.ctx.command_path if error.ctx else "seq2attn"
            print_error(Seq2AttnError(error.format_message(), hint=f"See: {command} --help"))
        sys.exit(2)
    except Seq2AttnError as error:
        print_error(error)
        sys.exit(error.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        sys.exit(130)
    except (ClosedPipe, BrokenPipeError):  # the reader closed the pipe, as `| head` does
        sys.exit(141)
    except OSError as error:
        where = error.filename or "reading or writing failed"
        print_error(Seq2AttnError(f"{where}: {error.strerror or error}"))
        sys.exit(1)
    except Exception as error:
        explained = _explain(error)
        if explained is None:
            raise
        print_error(explained)
        sys.exit(1)
    finally:
        drop_closed_streams()


def _explain(error: Exception) -> Seq2AttnError | None:
    """What a user can do about an exception that is not a mistake in the command; None: it is our own, with a traceback."""
    if is_out_of_memory(error):
        reason = (str(error) or "the system has none left").splitlines()[0]
        hint = "Make model.hidden, training.batch_size or the strings smaller, or use a machine with more."
        return Seq2AttnError(f"out of memory: {reason}", hint=hint)
    from seq2attn.config.plugins import plugin_error

    return plugin_error(error)
