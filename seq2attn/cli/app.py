"""The application: its commands, and the place where errors become messages and exit codes."""

import contextlib
import inspect
import io
import os
import re
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from typing import Annotated, Any

import typer
from pydantic import ValidationError
from typer.core import TyperCommand

from seq2attn import __version__
from seq2attn.cli import analyze, check, configs, evaluate, pages, predict, runs
from seq2attn.display.console import escape_streams, print_error, say
from seq2attn.errors import Seq2AttnError, memory_error, sentence

# ---- what commands are made of ----

VARIADIC = {"--lengths": "[0-9][0-9,-]*", "--families": "[a-z_,]+"}
VARIADIC |= dict.fromkeys(("--scores", "--widths", "--keys", "--scales"), "[^-].*")
"""options that take several values -> what a value after the first looks like: after the lengths of
`eval`, the name of a run may follow"""


class Command(TyperCommand):
    """A command whose options in `VARIADIC` take several words."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words after the command, and return what the base class returns. An error of
        Typer's gets the context `ctx`, which says of which command it is.
        """
        # Only options that take several values here (`multiple`): `--keys` takes one in another
        # command. One name of each option is enough: those in VARIADIC have no other.
        flags = {option.opts[-1] for option in self.params if getattr(option, "multiple", False)}
        try:
            return super().parse_args(ctx, repeat_flags(args, flags & VARIADIC.keys()))
        except typer.TyperException as error:
            error.ctx = ctx  # type: ignore[attr-defined]  # some errors lack it
            raise


def repeat_flags(args: list[str], flags: set[str]) -> list[str]:
    """Turn `["--lengths", "3", "5", "--json"]` into `["--lengths", "3", "--lengths", "5",
    "--json"]`, which Typer can parse.

    The word after a flag is its value; later words are values only if they look like one.
    """
    result: list[str] = []
    flag = ""  # the flag of `flags` whose values are being read
    for index, word in enumerate(args):
        name = word.partition("=")[0]  # of `--lengths=3`, too
        if word == "--":  # what follows are arguments, whatever they look like
            return result + args[index:]
        if flag and result[-1] == flag:
            pass  # its value, whatever it looks like
        elif flag and re.fullmatch(VARIADIC[flag], word, re.DOTALL):
            result.append(flag)
        else:
            flag = name if name in flags else ""
        result.append(word)
    return result


def group(name: str, **settings: Any) -> typer.Typer:
    """Make a group of commands with plain help: with Rich's panels, help would take half as long
    again to appear. settings: further ones of `typer.Typer`.
    """
    return typer.Typer(
        name=name,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
        **settings,
    )


def command(application: typer.Typer, function: Callable[..., None], name: str = "") -> None:
    """Make a function a command of a group. A dataclass among its parameters stands for its fields,
    an option each.

    name: of the command; by default that of the function.
    """
    application.command(name or None, cls=Command)(_with_fields(function))


def _with_fields(function: Callable[..., None]) -> Callable[..., None]:
    """Return a function for Typer, which makes an option of each parameter: in place of a parameter
    whose type is a dataclass it has the fields of that class. Called with these, it makes the
    dataclass, and calls the command's `function` with it.
    """
    parameters: list[inspect.Parameter] = []
    dataclasses: dict[str, Any] = {}  # parameter -> class
    for name, parameter in inspect.signature(function, eval_str=True).parameters.items():
        kind = parameter.annotation
        if is_dataclass(kind):
            dataclasses[name] = kind
            parameters += inspect.signature(dataclasses[name], eval_str=True).parameters.values()
        else:
            parameters.append(parameter)

    def run(**values: Any) -> None:
        for name, kind in dataclasses.items():
            values[name] = kind(**{field.name: values.pop(field.name) for field in fields(kind)})
        function(**values)

    run.__name__, run.__doc__ = function.__name__, function.__doc__
    # keyword-only, since no other parameter without a default may follow one that has a default
    keywords = [parameter.replace(kind=parameter.KEYWORD_ONLY) for parameter in parameters]
    run.__signature__ = inspect.Signature(keywords)  # type: ignore[attr-defined]
    return run


# ---- the commands ----

app = group("seq2attn", epilog="Start with:  seq2attn train --config configs/scaled.yaml")
analysis = group(
    "analyze",
    help="Measure attention before training, and whether it matters after.",
    epilog="Start with:  seq2attn analyze variance",
)
plot = group("plot", help="Draw a run's accuracy or attention through training.")
COMMANDS: dict[str, Callable[..., None]] = {
    "train": runs.train,
    "eval": evaluate.evaluate,
    "predict": predict.predict,
    "compare": evaluate.compare,
    "split": runs.split,
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
    command(app, function, name)
for function in (
    analyze.variance,
    analyze.saturation,
    analyze.gradient,
    analyze.entropy,
    analyze.ledger,
    analyze.masks,
    analyze.importance,
):
    command(analysis, function)
for function in (pages.accuracy, pages.attention):
    command(plot, function)
app.add_typer(analysis)
app.add_typer(plot)


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
        if explained is None:  # a bug of ours: Python shows its traceback
            raise
        code = explained.exit_code
        print_error(explained)
        _suggest_settings(explained.settings)
    finally:
        _drop_closed_streams()
    sys.exit(code)


def _run(application: Any) -> None:
    """Run the command that the command line names. Typer's own way to do this would print errors
    itself, a closed pipe among them; here they are raised, a mistake in the command line as a
    `Seq2AttnError`.
    """
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
    """Print the command line with the settings, each KEY=VALUE, that would mend an error. Commands
    without --set, such as `eval`, read files as their run read its training files.
    """
    if settings and sys.argv[1] not in ("eval", "analyze"):
        words = [word for setting in settings for word in ("--set", setting)]
        say(f"Try: {shlex.join(['seq2attn', *sys.argv[1:], *words])}")


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
