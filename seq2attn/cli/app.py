"""The application: its commands, and the place where errors become messages and exit codes."""

import contextlib
import io
import os
import re
import shlex
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from pydantic import ValidationError

from seq2attn import __version__
from seq2attn.cli import check, compare, configs, evaluate, pages, predict, runs, split, train
from seq2attn.cli.analyze import analyze
from seq2attn.cli.options import command, group
from seq2attn.display.console import escape_streams, print_error, say
from seq2attn.errors import Seq2AttnError, memory_error
from seq2attn.text import sentence

app = group("seq2attn", epilog="Start with:  seq2attn train --config configs/scaled.yaml")
COMMANDS: dict[str, Any] = {
    "train": train.train,
    "eval": evaluate.evaluate,
    "predict": predict.predict,
    "compare": compare.compare,
    "split": split.split,
    "runs": runs.runs,
    "inspect": configs.inspect,
    "config": configs.config,
    "list": configs.list_names,
    "check": check.check,
    "report": pages.report,
    "page": pages.page,
    "export": pages.export,
}
for name, function in COMMANDS.items():
    command(app, name)(function)
app.add_typer(analyze)
app.add_typer(pages.plot)


def _print_version(requested: bool) -> None:
    """Print the version and exit, before a command is looked for."""
    if requested:
        print(f"seq2attn {__version__}")
        raise typer.Exit


@app.callback()
def seq2attn(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,  # its callback does what it asks for
) -> None:
    """A laboratory bench for attention in recurrent sequence-to-sequence models.

    Train an encoder-decoder on string tasks, choose its score function with one word of YAML,
    measure accuracy by string length, and plot its attention.
    """


def main() -> None:
    """Run the command line and exit, with code 0 if all went well. A user's mistake gives one
    message, never a traceback; only a bug of ours shows one.
    """
    _prepare_streams()
    code = 0
    try:
        try:
            _run(typer.main.get_command(app))
        finally:
            sys.stdout.flush()  # here, where an error can still be reported
    except typer.Exit as stop:  # so a command ends early, or with a code of its own
        code = stop.exit_code
    except (KeyboardInterrupt, typer.Abort):
        code = 130  # 128 + the number of SIGINT, as shells say it
    except BrokenPipeError:  # the reader closed the pipe, as `| head` does
        code = 141  # 128 + the number of SIGPIPE
    except BaseException as error:  # a plug-in may raise SystemExit, or worse
        explained = _explain(error)
        if explained is None:
            raise
        code = explained.exit_code
        print_error(explained)
        if explained.settings:
            _suggest_settings(explained.settings)
    finally:
        _drop_closed_streams()
    sys.exit(code)


def _run(application: Any) -> None:
    """Run the command that the command line names. Typer's own way to do this would print errors
    itself, a closed pipe among them; here they are raised, a mistake in the command line as a
    `Seq2AttnError`.
    """
    if "_SEQ2ATTN_COMPLETE" in os.environ:  # the shell asks for completions; Typer exits
        application(prog_name="seq2attn")
    try:
        with application.make_context("seq2attn", sys.argv[1:]) as context:
            application.invoke(context)
    except typer.TyperException as error:
        # a group was called without a command; Typer does not export the class of this error,
        # whose message is the help
        if type(error).__name__ == "NoArgsIsHelpError":
            print(error.format_message())
            raise typer.Exit(2) from None
        raise _usage_error(error) from None


def _usage_error(error: Any) -> Seq2AttnError:
    """Return an error of Typer's, such as an unknown option, as one of this package, with a hint:
    the commands that there are, or an example from the command's help.
    """
    command = error.ctx.command
    if isinstance(error.__cause__, ValidationError):  # pydantic refused the value of an option
        error.message = sentence(error.__cause__.errors()[0])
    if hasattr(command, "commands"):  # it is a group
        hint = f"Commands: {', '.join(command.commands)}\n"
    else:
        example, *_ = re.findall(r"^ *(seq2attn .*)", command.help, re.MULTILINE)
        hint = f"For example: {example}\n"
    # `command_path`: such as `seq2attn plot accuracy`
    return Seq2AttnError(error.format_message(), hint=f"{hint}See: {error.ctx.command_path} --help")


def _suggest_settings(settings: Sequence[str]) -> None:
    """Suggest the settings, each KEY=VALUE, that would mend an error: if the command that was
    called takes --set, print it with them added. A command without --set, such as `eval`, reads
    files as its run read its training files: then only say what such files need.
    """
    application: Any = typer.main.get_command(app)
    words: list[str] = []
    for setting in settings:
        words += ["--set", setting]
    # No error of a group, such as `plot`, has settings. So the first word names the command.
    if any("--set" in option.opts for option in application.commands[sys.argv[1]].params):
        say(f"Try: {shlex.join(['seq2attn', *sys.argv[1:], *words])}")
    else:
        say(f"A run reads files as it read its training files; such files need {shlex.join(words)}")


def _prepare_streams() -> None:
    """Replace closed output streams by one to nowhere, and escape what could control a terminal or
    what a stream's encoding lacks. Bytes of standard input that are not UTF-8 become surrogates.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by the shell: `>&-`
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if isinstance(sys.stdin, io.TextIOWrapper):
        # so that only the line with such bytes is refused, not all input
        sys.stdin.reconfigure(errors="surrogateescape")
    escape_streams()


def _drop_closed_streams() -> None:
    """Drop output that nobody reads any more, by pointing its stream to nowhere. Otherwise the
    interpreter would try to write it as it ends, fail, and exit with a code of its own.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):  # ValueError: the stream was closed in this process
            with contextlib.suppress(OSError, ValueError):  # the stream may have no file at all
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _explain(error: BaseException) -> Seq2AttnError | None:
    """Return an exception as an error with a message for the user: an error of this package, a lack
    of memory, an error of the operating system, or one of a plug-in. None for a bug of ours.
    """
    if isinstance(error, Seq2AttnError):
        return error
    if out_of_memory := memory_error(error):
        return out_of_memory
    if isinstance(error, OSError):
        what = error.filename or "reading or writing failed"
        return Seq2AttnError(f"{what}: {error.strerror or error}", exit_code=1)
    from seq2attn.plugins import plugin_error

    return plugin_error(error)
