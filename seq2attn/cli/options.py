"""Commands and their groups, and the options that several commands share."""

from __future__ import annotations

import inspect
import re
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TypeVar

import typer
from typer.core import TyperArgument, TyperCommand

from seq2attn.display.console import say
from seq2attn.errors import Seq2AttnError
from seq2attn.parts import FAMILIES
from seq2attn.runs.run import DEFAULT_ROOT, Run, all_runs, find_run, is_training

if TYPE_CHECKING:
    from seq2attn.inference.decoding import BeamSearch
    from seq2attn.inference.trained_model import TrainedModel

VARIADIC = {"--lengths": "[0-9][0-9,-]*", "--families": "[a-z_,]+"}
VARIADIC |= dict.fromkeys(("--scores", "--widths", "--keys", "--scales"), "[^-].*")
"""options that take several values -> what a value after the first looks like: after the lengths of
`eval`, the name of a run may follow"""


class Command(TyperCommand):
    """A command whose options in `VARIADIC` take several words, and whose help names arguments as
    other programs do: `TEXT...` instead of `{TEXT}... <list[str]>`.
    """

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        for parameter in self.params:
            if isinstance(parameter, TyperArgument):
                parameter.display_type_rich = lambda ctx: None  # type: ignore[method-assign]

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the words of the usage line. What is not in brackets is required."""
        return [re.sub("[{}]", "", piece) for piece in super().collect_usage_pieces(ctx)]

    def get_short_help_str(self, limit: int = 0) -> str:
        """Return the first line of its help, which a list of commands wraps instead of cutting."""
        return (self.help or "").partition("\n")[0]

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
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
        **settings,
    )


Function = TypeVar("Function", bound=Callable[..., None])


def command(application: typer.Typer, name: str | None = None) -> Callable[[Function], Function]:
    """Make the decorated function a command of a group; the function itself stays as it is. A
    dataclass among its parameters stands for its fields, an option each.

    name: of the command; by default that of the function.
    """

    def decorate(function: Function) -> Function:
        application.command(name, cls=Command)(_with_fields(function))
        return function

    return decorate


def _with_fields(function: Callable[..., None]) -> Callable[..., None]:
    """Return a function for Typer, which makes an option of each parameter: in place of a parameter
    whose type is a dataclass it has the fields of that class. Called with these, it makes the
    dataclass, and calls the command's `function` with it.
    """
    parameters: dict[str, inspect.Parameter] = {}
    dataclasses: dict[str, Any] = {}  # parameter -> class
    for name, parameter in inspect.signature(function, eval_str=True).parameters.items():
        kind = parameter.annotation
        if isinstance(kind, type) and is_dataclass(kind):
            dataclasses[name] = kind
            parameters |= inspect.signature(kind, eval_str=True).parameters
        else:
            parameters[name] = parameter

    def run(**values: Any) -> None:
        for name, kind in dataclasses.items():
            of_fields = {field.name: values.pop(field.name) for field in fields(kind)}
            values[name] = kind(**of_fields)
        function(**values)

    run.__name__, run.__doc__ = function.__name__, function.__doc__
    # keyword-only, since among others none without a default may follow one that has a default
    keywords = [parameter.replace(kind=parameter.KEYWORD_ONLY) for parameter in parameters.values()]
    run.__signature__ = inspect.Signature(keywords)  # type: ignore[attr-defined]
    return run


# ---- options ----

Texts = list[str] | None  # of an option that may be repeated
NEWEST = "A run's name. Default: the newest run that is not part of a comparison."


def option(metavar: str, meaning: str, *names: str, **settings: Any) -> Any:
    """Make a `typer.Option` with this help, which calls the value `metavar`."""
    return typer.Option(*names, metavar=metavar, help=meaning, **settings)


def argument(metavar: str, meaning: str, **settings: Any) -> Any:
    """Make a `typer.Argument` with this help, which calls the value `metavar`."""
    return typer.Argument(metavar=metavar, help=meaning, **settings)


def run_names(context: typer.Context) -> list[str]:
    """List the names of runs that the shell offers when Tab is pressed."""
    return sorted(run.name for run in all_runs(context.params["runs_dir"]))


def _load_plugins(context: typer.Context, plugins: Texts) -> list[str]:
    """Register the parts in the files of --plugin, and return the files' names. Where the shell
    only completes a line, as `resilient_parsing` says, nothing is run.
    """
    if plugins and not context.resilient_parsing:
        from seq2attn.plugins import load_plugins

        load_plugins(plugins)
    return plugins or []


def _check(parameter: typer.CallbackParam, values: Texts) -> Texts:
    """Check the values of --lengths or --families, and return them as they are: the commands read
    them again. An error names the option.
    """
    from seq2attn.config import schema

    parse = getattr(schema, f"parse_{parameter.name}")  # parse_lengths or parse_families
    try:
        if values is not None:  # the option was given
            parse(values)
    except Seq2AttnError as error:
        raise Seq2AttnError(f"--{parameter.name}: {error.message}") from None
    return values


RunArgument = Annotated[str | None, argument("RUN", NEWEST, autocompletion=run_names)]
RunArguments = Annotated[
    Texts, argument("RUN", f"{NEWEST} May be repeated.", autocompletion=run_names)
]
RunOptions = Annotated[
    Texts,
    option(
        "RUN",
        f"{NEWEST} May be repeated.",
        "--run",
        "-r",
        autocompletion=run_names,
    ),
]
RunsDir = Annotated[
    Path, option("FOLDER", "The directory of the runs.", envvar="SEQ2ATTN_RUNS", file_okay=False)
]
CheckpointName = Annotated[
    str,
    option(
        "best|last|step-N",
        "best (by validation), last, or step-N if training kept those weights.",
        autocompletion=lambda: ["best", "last"],
    ),
]
LoadedPlugins = Annotated[
    Texts,
    option("FILE", "A Python file with your own parts. May be repeated.", callback=_load_plugins),
]
"""the files' names; their parts are registered while the command line is parsed"""
Overrides = Annotated[
    Texts,
    option("KEY=VALUE", "Override one key of the config. May be repeated.", "--set", "-s"),
]
Device = Annotated[str, option("NAME", "auto, cpu, cuda or mps.")]
Lengths = Annotated[
    Texts,
    option(
        "N...",
        "String lengths: 3 5 7 10, or 3,5,7, or 3-10. Default: those of the config.",
        callback=_check,
    ),
]
Samples = Annotated[
    int | None, option("N", "Number of strings per length. Default: that of the config.", min=1)
]
Families = Annotated[
    Texts,
    option(
        "NAME...",
        "Kinds of strings: all, or some of those that `seq2attn list families` shows. Default: "
        "those of the config; `random` unless set.",
        autocompletion=FAMILIES.names,
        callback=_check,
    ),
]
Data = Annotated[
    Path | None, option("FILE", "The file to measure on; only for a run on pairs of strings.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Ideal = Annotated[bool, typer.Option("--ideal", help="Outline the ideal alignment in the figure.")]


# ---- what they lead to ----


@dataclass(frozen=True)
class Models:
    """The options of commands that several models may answer, and how they decode."""

    as_ensemble: Annotated[
        bool,
        typer.Option("--ensemble", help="Average the probabilities of the runs, as one model."),
    ] = False
    beam: Annotated[
        int | None, option("K", "Beam search with K hypotheses. Default: greedy.", min=1, max=1000)
    ] = None
    length_penalty: Annotated[
        float | None,
        option(
            "A", "Exponent of the beam's length normalisation. Default: 0, none.", min=0, max=10
        ),
    ] = None
    checkpoint: CheckpointName = "best"
    plugin: LoadedPlugins = None
    runs_dir: RunsDir = DEFAULT_ROOT

    def load(self, runs: Sequence[Run], device: str, n_best: int = 0) -> list[TrainedModel]:
        """Load the models of runs, or with `--ensemble` one model of all, set how they decode, and
        say which checkpoint is used if it is not the wanted one or its run is still being trained.

        device: `auto`, `cpu`, `cuda` or `mps`.
        n_best: as for `search`.
        """
        from seq2attn.inference.trained_model import load_ensemble

        if self.as_ensemble and len(runs) < 2:
            raise Seq2AttnError(
                "--ensemble averages two runs or more", hint="Name them, or leave out --ensemble."
            )
        search = self.search(n_best)
        groups = [runs] if self.as_ensemble else [[run] for run in runs]
        models = []
        for group in groups:
            trained = load_ensemble(group, self.checkpoint, device)
            _note_checkpoint(trained, self.checkpoint)
            models.append(trained.searching(search))
        return models

    def search(self, n_best: int = 0) -> BeamSearch | None:
        """Return the beam search that the options ask for, or None for greedy decoding. Raises
        `Seq2AttnError` for a --length-penalty without a beam, and a --beam narrower than --n-best.

        n_best: how many outputs of each string --n-best of `predict` asks for. Without --beam, it
            asks for a beam, too: greedy decoding has a single output. 0: it was not given.
        """
        if not self.beam and not n_best:
            if self.length_penalty is not None:
                raise Seq2AttnError(
                    "--length-penalty ranks the outputs of a beam",
                    hint="Add --beam, such as --beam 5.",
                )
            return None
        from seq2attn.inference.decoding import BeamSearch

        # without --beam, the default width or wider
        width = self.beam or max(BeamSearch.width, n_best)
        if n_best > width:  # so --beam was given
            raise Seq2AttnError(
                f"--n-best {n_best} asks for more outputs than --beam {self.beam} keeps",
                hint="Widen the beam.",
            )
        return BeamSearch(width, self.length_penalty or 0.0)


def find_runs(root: Path, names: Sequence[str] | None) -> list[Run]:
    """Find the runs of these names. Without names, find the newest run, and say so."""
    if names:
        return [find_run(root, name) for name in dict.fromkeys(names)]
    run = find_run(root, None)
    say(f"run: {run.path} (the newest; to use another, name it)")
    return [run]


def _note_checkpoint(trained: TrainedModel, wanted: str) -> None:
    """Say which checkpoint is used if the wanted one is missing, or if the run is being trained."""
    used = f"using checkpoint {trained.checkpoint} of step {trained.step:,}"
    if trained.checkpoint != wanted:
        say(f"{trained.run.checkpoint(wanted)} is missing: {used}")
    elif is_training(trained.run):
        say(f"run {trained.run.name} is still being trained: {used}")


def stop(signal_number: int, progress: str, command: str) -> NoReturn:
    """Say which signal stopped a command, how far it came and how to continue, and exit."""
    say(f"stopped by {signal.Signals(signal_number).name} after {progress}")
    say(f"Continue with: {command}")
    raise typer.Exit(128 + signal_number)
