"""`seq2attn analyze ...`: attention before any training, measured and by formula, and whether it
matters after training.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from seq2attn import parts
from seq2attn.cli.options import (
    CheckpointName,
    Data,
    Lengths,
    LoadedPlugins,
    RunArgument,
    RunsDir,
    Samples,
    Shown,
    find_runs,
    option,
    save_figure,
)
from seq2attn.display.console import write_json
from seq2attn.display.table import text_of
from seq2attn.errors import Seq2AttnError
from seq2attn.runs.run import DEFAULT_ROOT, find_run

if TYPE_CHECKING:
    from seq2attn.analysis import Analysis

RAW_AND_SCALED = ["dot", "scaled"]
ALL_SCORES = [name for name in parts.SCORES.names() if name != "none"]
WIDTHS = [16, 64, 256, 1024]
ENTROPY_WIDTHS = [4, *WIDTHS, 4096]
NUMBERS_OF_KEYS = [16, 64]
SCALES = [0.01, 0.1, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 7, 10, 20, 50]

Scores = Annotated[
    list[str],
    option(
        "NAME...",
        "Score functions; `seq2attn list scores` shows them.",
    ),
]
Widths = Annotated[list[int], option("D...", "Widths of queries and keys.", min=1, max=65_536)]
Keys = Annotated[int, option("N", "Number of keys, S.", "--keys", "-S", min=2, max=4_096)]
Mean = Annotated[float, option("X", "Mean of each component.")]
Source = Annotated[int, option("N", "Number of source positions, S.", "--source", "-S", min=1)]
Target = Annotated[int, option("N", "Number of output positions, L.", "--target", "-L", min=1)]
Draws = Annotated[int, option("N", "Number of random draws.", min=2, max=10**7)]
Seed = Annotated[int, option("N", "Random seed.", min=0, max=2**63 - 1)]


def variance(
    scores: Scores = RAW_AND_SCALED,
    widths: Widths = WIDTHS,
    query_mean: Mean = 0.0,
    key_mean: Mean = 0.0,
    samples: Draws = 20_000,
    seed: Seed = 0,
    plugin: LoadedPlugins = None,
    *,
    shown: Shown,
) -> None:
    """Compare the variance of random scores with its formula.

    Components of queries s and keys h are normal and independent, with variance 1. The variance of
    a dot product is D (1 + mh^2 + ms^2), with means ms and mh; scaling divides it by D. "off by" is
    the distance from the formula in standard errors: it exceeds 3 by chance once in 370 times.

    Examples:

      seq2attn analyze variance --scores dot additive --plot variance.svg
    """
    from seq2attn.analysis.before_training import score_variance

    result = score_variance(
        _names(scores),
        widths,
        samples=samples,
        seed=seed,
        query_mean=query_mean,
        key_mean=key_mean,
    )
    _present("variance", result, shown)


def saturation(
    scores: Scores = RAW_AND_SCALED,
    widths: Widths = WIDTHS,
    keys: Keys = 8,
    samples: Draws = 2_000,
    seed: Seed = 0,
    plugin: LoadedPlugins = None,
    *,
    shown: Shown,
) -> None:
    """Show that weights saturate with the width under raw scores.

    Under scaled scores they do not. "saturated" is the share of queries that give one key a weight
    above 0.99.

    Examples:

      seq2attn analyze saturation --scores dot cosine --plot saturation.png
    """
    from seq2attn.analysis.before_training import weight_saturation

    result = weight_saturation(_names(scores), widths, keys=keys, samples=samples, seed=seed)
    _present("saturation", result, shown)


def gradient(
    scales: Annotated[
        list[float], option("C...", "Standard deviations of the scores.", min=1e-6, max=1e6)
    ] = SCALES,
    keys: Keys = 8,
    samples: Draws = 10_000,
    seed: Seed = 0,
    *,
    shown: Shown,
) -> None:
    """Measure the gradient of the largest weight by scale.

    Scores are c e with e ~ N(0, 1): c = 1 is a scaled dot product, c = sqrt(D) a raw one. The
    gradient is with respect to the scores. Its norm peaks slightly above c = 1; at c = 10 it almost
    vanishes for half of all draws.

    Examples:

      seq2attn analyze gradient --scales 0.5 1 2 4 --plot gradient.svg
    """
    from seq2attn.analysis.before_training import gradient_by_scale

    result = gradient_by_scale(scales, keys=keys, samples=samples, seed=seed)
    _present("gradient", result, shown)


def entropy(
    scores: Scores = RAW_AND_SCALED,
    widths: Widths = ENTROPY_WIDTHS,
    keys: Annotated[
        list[int], option("S...", "Numbers of keys.", min=1, max=4_096)
    ] = NUMBERS_OF_KEYS,
    samples: Draws = 500,
    seed: Seed = 0,
    plugin: LoadedPlugins = None,
    *,
    shown: Shown,
) -> None:
    """Measure the entropy of attention, in nats, against the width.

    Over random keys: scaled scores keep it, raw scores lose it. "expected" is the entropy for
    independent normal scores of the same variance, the limit for large widths: for scaled scores a
    plateau slightly below log S, the entropy of uniform weights.

    Examples:

      seq2attn analyze entropy --keys 8 --widths 16 64 256 --samples 5000
    """
    from seq2attn.analysis.before_training import entropy_by_width

    result = entropy_by_width(_names(scores), widths, keys=keys, samples=samples, seed=seed)
    _present("entropy", result, shown)


def ledger(
    scores: Scores = ALL_SCORES,
    batch: Annotated[int, option("N", "Number of sequences, B.", "--batch", "-B", min=1)] = 64,
    source: Source = 12,
    target: Target = 13,
    width: Annotated[
        int, option("N", "Width of queries and keys, D.", "--width", "-D", min=1)
    ] = 96,
    *,
    shown: Shown,
) -> None:
    """Count what each score costs: parameters, operations, bytes.

    A multiplication and an addition count as two operations; projecting the keys happens once per
    sequence and is divided among its queries. Bytes are those of projected keys, hidden layer,
    scores and weights in float32, with all queries scored at once and with one at a time. In a pipe
    and with --json the operations are also split.

    Examples:

      seq2attn analyze ledger --source 800 --target 801 --width 256
    """
    from seq2attn.analysis.costs import score_costs

    result = score_costs(_names(scores), batch, source, target, width)
    _present("ledger", result, shown)


def masks(
    source: Source = 12,
    target: Target = 12,
    radius: Annotated[int, option("N", "R; a window holds 2R+1.", "--radius", "-R", min=1)] = 2,
    *,
    shown: Shown,
) -> None:
    """Draw windows: where each output position may attend to.

    global: all. monotonic and reversed (local_m): [p_t - R, p_t + R] with p_t = t and p_t = S-1-t.
    local_p: the same window around a learned centre, its weights multiplied by a Gaussian of
    standard deviation R/2; the centres drawn sweep from the last position to the first.

    Examples:

      seq2attn analyze masks --source 20 --target 20 --radius 4 --plot masks.svg
    """
    from seq2attn.analysis.before_training import window_masks

    _present("masks", window_masks(source, target, radius), shown)


def importance(
    name: RunArgument = None,
    frozen: Annotated[
        str | None,
        option(
            "RUN", "Also try the weights of this run, such as the same config with another seed."
        ),
    ] = None,
    lengths: Lengths = None,
    samples: Samples = None,
    data: Data = None,
    seed: Seed = 0,
    checkpoint: CheckpointName = "best",
    plugin: LoadedPlugins = None,
    runs_dir: RunsDir = DEFAULT_ROOT,
    *,
    shown: Shown,
) -> None:
    """Test whether attention matters, by replacing its weights.

    Prints exact match of a trained model by length. permuted: the weights of each step are shuffled
    over the source (Jain & Wallace 2019). uniform: all positions get the same weight. frozen: the
    weights with which another run decodes the same string (Wiegreffe & Pinter 2019).

    Examples:

      seq2attn analyze importance scaled-001 --frozen scaled-002
    """
    (run,) = find_runs(runs_dir, name)
    other_run = find_run(runs_dir, frozen) if frozen else None
    from seq2attn.analysis.importance import attention_importance
    from seq2attn.inference.trained_model import load_run

    trained = load_run(run, checkpoint, "cpu")
    other = load_run(other_run, checkpoint, "cpu") if other_run else None
    result = attention_importance(
        trained, other, seed=seed, lengths=lengths, samples=samples, data=data
    )
    _present("importance", result, shown)


def _names(scores: Sequence[str]) -> list[str]:
    """Return the names of `--scores`, with synonyms resolved."""
    names = [parts.SCORES.get(score).name for score in scores]
    if "none" in names:
        raise Seq2AttnError("--scores: 'none' has no score function; leave it out")
    return names


def _present(name: str, result: Analysis, shown: Shown) -> None:
    """Print the rows of an analysis as a table, with its settings in a note below, or as JSON. Save
    its figure, too, if --plot names a file for it.

    name: of the analysis; `NAME_figure` draws it. shown: the options --json and --plot.
    """
    if shown.as_json:
        write_json({**result.settings, "rows": result.table.records()})
    else:
        settings = ", ".join(
            f"{setting.replace('_', ' ')} {text_of(value, ',')}"
            for setting, value in result.settings.items()
        )
        replace(result.table, notes=[settings]).show()
    if shown.plot:
        from seq2attn.analysis import figures

        draw = getattr(figures, f"{name}_figure")
        save_figure(draw(result), shown.plot)
