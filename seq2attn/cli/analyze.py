"""`seq2attn analyze ...`: what attention does before any training, measured and by theory, and what
it is good for after.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, fields, replace
from inspect import Parameter, Signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from seq2attn import parts
from seq2attn.cli import options
from seq2attn.cli.commands import Command, group
from seq2attn.cli.options import option
from seq2attn.display.console import write_json
from seq2attn.display.table import Column, Table
from seq2attn.errors import Seq2AttnError
from seq2attn.runs.run import DEFAULT_ROOT, find_run

if TYPE_CHECKING:
    from seq2attn.analysis.result import Analysis
    from seq2attn.inference.predictor import Predictor
    from seq2attn.inference.results import Evaluation

analyze = group(
    "analyze",
    help="Measure attention before training, and whether it matters after.",
    epilog="Start with:  seq2attn analyze variance",
)
WITH_SCORE = [name for name in parts.SCORES.names() if name != "none"]
SCALES = [0.01, 0.1, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 7, 10, 20, 50]

Ask = TypeVar("Ask", bound="Callable[..., Analysis[Any]]")
Seed = Annotated[int, option("N", "Random seed.", min=0, max=2**63 - 1)]
OPTIONS: dict[str, Any] = {
    "scores": Annotated[
        list[str],
        option(
            "NAME...",
            "Score functions; `seq2attn list scores` shows them.",
            autocompletion=parts.SCORES.names,
        ),
    ],
    "widths": Annotated[
        list[int], option("D...", "Widths of queries and keys.", min=1, max=65_536)
    ],
    "scales": Annotated[
        list[float], option("C...", "Standard deviations of the scores.", min=1e-6, max=1e6)
    ],
    "keys": Annotated[int, option("N", "S, number of keys.", "--keys", "-S", min=2, max=4_096)],
    "counts": Annotated[list[int], option("S...", "Numbers of keys.", "--keys", min=1, max=4_096)],
    **dict.fromkeys(
        ("query_mean", "key_mean"), Annotated[float, option("X", "Mean of each component.")]
    ),
    **dict.fromkeys(
        ("query_sd", "key_sd"),
        Annotated[float, option("X", "Standard deviation of each component.", min=0)],
    ),
    "batch": Annotated[int, option("N", "B, sequences.", "--batch", "-B", min=1)],
    "source": Annotated[int, option("N", "S, source positions.", "--source", "-S", min=1)],
    "target": Annotated[int, option("N", "L, output positions.", "--target", "-L", min=1)],
    "width": Annotated[int, option("N", "D, of queries and keys.", "--width", "-D", min=1)],
    "radius": Annotated[int, option("N", "R; windows hold 2R+1.", "--radius", "-R", min=1)],
    "samples": Annotated[int, option("N", "Random draws.", min=2, max=10**7)],
    "seed": Seed,
    "as_json": options.AsJson,
    "plot": options.Plot,
    "plugin": options.Plugins,
}


def command(**defaults: Any) -> Callable[[Ask], Ask]:
    """The command of a function that asks for an analysis: these `OPTIONS`, with their defaults,
    and the analysis shown.
    """

    def decorate(ask: Ask) -> Ask:
        def show(as_json: bool, plot: Path | None, plugin: object = None, **asked: Any) -> None:
            import torch

            torch.set_num_threads(
                1
            )  # the tensors are small, and sums are reproducible on machines of the same kind
            if "scores" in asked:
                asked["scores"] = _names(asked["scores"])
            _present(ask.__name__, ask(**asked), as_json, plot)

        chosen = {
            **defaults,
            "as_json": False,
            "plot": None,
            **({"plugin": None} if "scores" in defaults else {}),
        }
        parameters = [
            Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=OPTIONS[name])
            for name, default in chosen.items()
        ]
        show.__signature__, show.__doc__ = Signature(parameters), ask.__doc__  # type: ignore[attr-defined]
        analyze.command(ask.__name__, cls=Command)(show)
        return ask

    return decorate


@command(
    scores=["dot", "scaled"],
    widths=[16, 64, 256, 1024],
    query_mean=0.0,
    query_sd=1.0,
    key_mean=0.0,
    key_sd=1.0,
    samples=20_000,
    seed=0,
)
def variance(
    scores: list[str], widths: list[int], samples: int, seed: int, **components: float
) -> Analysis[Any]:
    """Variance of a score over random queries s and keys h, against its formula.

    Components are normal and independent. The variance of a dot product is D (ss^2 sh^2 + ss^2 mh^2
    + sh^2 ms^2), with means m and standard deviations s; scaling divides it by D. "off by" is the
    distance from the formula in standard errors: chance exceeds 3 once in 370 times.

    Examples:

      seq2attn analyze variance --scores dot general additive --widths 64 256 --plot variance.svg
    """
    from seq2attn.analysis.variance import Components, score_variance

    return score_variance(
        scores, widths, samples=samples, seed=seed, components=Components(**components)
    )


@command(scores=["dot", "scaled"], widths=[16, 64, 256, 1024], keys=8, samples=2_000, seed=0)
def saturation(**asked: Any) -> Analysis[Any]:
    """Attention weights over random keys as the width grows: raw scores saturate, scaled scores do
    not.

    "saturated" is the share of queries that give one key a weight above 0.99.

    Examples:

      seq2attn analyze saturation --scores dot scaled cosine --keys 32 --plot saturation.png
    """
    from seq2attn.analysis.saturation import weight_saturation

    return weight_saturation(**asked)


@command(scales=SCALES, keys=8, samples=10_000, seed=0)
def gradient(**asked: Any) -> Analysis[Any]:
    """Norm of the gradient of the largest attention weight against the scale of the scores.

    Scores are c e with e ~ N(0, 1): c = 1 is a scaled dot product, c = sqrt(D) a raw one. The
    gradient is with respect to the scores. It peaks slightly above c = 1; at c = 10 it almost
    vanishes for half of all draws.

    Examples:

      seq2attn analyze gradient --scales 0.5 1 2 4 8 16 --keys 64 --plot gradient.svg
    """
    from seq2attn.analysis.saturation import gradient_by_scale

    return gradient_by_scale(**asked)


@command(
    scores=["dot", "scaled"],
    widths=[4, 16, 64, 256, 1024, 4096],
    counts=[16, 64],
    samples=500,
    seed=0,
)
def entropy(counts: list[int], **asked: Any) -> Analysis[Any]:
    """Entropy of attention over random keys against the width, in nats: scaled scores keep it, raw
    scores lose it.

    "expected" is the entropy for independent normal scores of the same variance, the limit for
    large widths: for scaled scores a plateau, slightly below log S, the entropy of uniform weights.

    Examples:

      seq2attn analyze entropy --keys 8 --widths 16 64 256 --samples 5000
    """
    from seq2attn.analysis.saturation import entropy_by_width

    return entropy_by_width(keys=counts, **asked)


@command(scores=WITH_SCORE, batch=64, source=12, target=13, width=96)
def ledger(scores: list[str], width: int, **sizes: int) -> Analysis[Any]:
    """What each score costs: parameters, operations per query, bytes of intermediates.

    A multiplication and an addition count as two operations; projecting the keys happens once per
    sequence and is divided among its queries. Bytes are those of projected keys, hidden layer,
    scores and weights in float32, with all queries scored at once and with one at a time. In a pipe
    and with --json the operations are also split.

    Examples:

      seq2attn analyze ledger --source 800 --target 801 --width 256
    """
    from seq2attn.analysis.costs import Sizes, score_costs

    return score_costs(scores, Sizes(hidden=width, **sizes))


@command(source=12, target=12, radius=2)
def masks(**asked: Any) -> Analysis[Any]:
    """Windows of attention as pictures: the source positions that each output position may attend
    to.

    global: all. monotonic and reversed (local_m): [p_t - R, p_t + R] with p_t = t and p_t = S-1-t.
    local_p: the same window around a learned centre, its weights multiplied by a Gaussian of
    standard deviation R/2; the centres drawn sweep from the last position to the first.

    Examples:

      seq2attn analyze masks --source 20 --target 20 --radius 4 --plot masks.svg
    """
    from seq2attn.analysis.masks import window_masks

    return window_masks(**asked)


@analyze.command(cls=Command)
def importance(
    name: options.RunArgument = None,
    frozen: Annotated[
        str | None,
        option(
            "RUN",
            "Also use the weights of this run, such as another seed's.",
            autocompletion=options.runs,
        ),
    ] = None,
    lengths: options.Lengths = None,
    samples: options.Samples = None,
    data: Annotated[
        Path | None, option("FILE", "Of a run on pairs of strings: the file to measure on.")
    ] = None,
    seed: Seed = 0,
    as_json: options.AsJson = False,
    plot: options.Plot = None,
    checkpoint: options.CheckpointName = "best",
    plugin: options.Plugins = None,
    runs_dir: options.RunsDir = DEFAULT_ROOT,
) -> None:
    """Whether attention matters to a trained model: exact match by length with other weights than
    its own.

    permuted: the weights of each step are shuffled over the source (Jain & Wallace 2019). uniform:
    each position gets the same. frozen: the weights with which another run decodes the same string
    (Wiegreffe & Pinter 2019).

    Examples:

      seq2attn analyze importance scaled-001 --frozen scaled-002 --plot importance.png
    """
    (run,) = options.find_runs(runs_dir, name and [name])
    runs = [run, *([find_run(runs_dir, frozen)] if frozen else [])]
    from seq2attn.config.schema import parse_lengths

    wanted = None if lengths is None else options.parsed("--lengths", parse_lengths, lengths)
    from seq2attn.analysis.importance import attention_importance
    from seq2attn.inference.trained_model import load_run

    trained, *others = (load_run(one, checkpoint, "cpu") for one in runs)

    def measure(predictor: Predictor) -> Evaluation:
        return replace(trained, predictor=predictor).evaluate(
            wanted, samples=samples, seed=seed, data=data
        )

    result = attention_importance(
        trained.predictor, measure, other=others[0].predictor if others else None, seed=seed
    )
    settings = {"run": run.name, **({"frozen_to": frozen} if frozen else {}), **result.settings}
    _present("importance", replace(result, settings=settings), as_json, plot)


def _names(words: Sequence[str]) -> list[str]:
    """The distinct names of `--scores`, with synonyms resolved."""
    names = [parts.SCORES.get(word).name for word in words]
    if "none" in names:
        raise Seq2AttnError("--scores: 'none' has no score function; leave it out")
    return list(dict.fromkeys(names))


def _present(name: str, result: Analysis[Any], as_json: bool, plot: Path | None) -> None:
    """Print the rows, as a table with the columns that their fields name or as JSON, and draw the
    command's figure.
    """
    if as_json:
        write_json({**result.settings, "rows": list(map(asdict, result.rows))})
    else:
        columns = []
        for field in fields(result.rows[0]):
            form = field.metadata.get("form", "")
            columns.append(
                Column(
                    field.metadata.get("heading", field.name), bool(form), key=field.name, form=form
                )
            )
        texts = {
            name: value if isinstance(value, str) else f"{value:,}"
            for name, value in result.settings.items()
        }
        settings = ", ".join(f"{name.replace('_', ' ')} {text}" for name, text in texts.items())
        Table.of_records(list(map(vars, result.rows)), columns, notes=[settings]).show()
    if plot is not None:
        from seq2attn.plotting import analysis

        options.save_figure(getattr(analysis, f"{name}_figure")(result), plot)
