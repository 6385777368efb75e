"""`seq2attn analyze ...`: what attention does before any training, measured and by theory."""

from __future__ import annotations

from typing import Annotated

import typer

from seq2attn import parts
from seq2attn.cli import analyze_shared as shared
from seq2attn.cli import options
from seq2attn.cli.commands import Command, group
from seq2attn.errors import Seq2AttnError

analyze = group(
    "analyze",
    help="Measure attention before training; compare with theory.",
    epilog="Start with:  seq2attn analyze variance",
)


@analyze.command(cls=Command)
def variance(
    scores: shared.Scores = None,
    widths: shared.Widths = None,
    query_mean: Annotated[float, typer.Option(metavar="X", help="Mean of each component of s.")] = 0.0,
    query_sd: Annotated[
        float, typer.Option(metavar="X", min=0, help="Standard deviation of each component of s.")
    ] = 1.0,
    key_mean: Annotated[float, typer.Option(metavar="X", help="Mean of each component of h.")] = 0.0,
    key_sd: Annotated[float, typer.Option(metavar="X", min=0, help="Standard deviation of each component of h.")] = 1.0,
    samples: shared.Samples = 20_000,
    seed: shared.Seed = 0,
    as_json: options.AsJson = False,
    plot: options.Plot = None,
    plugin: options.Plugins = None,
) -> None:
    """Variance of a score over random queries s and keys h, against its formula.

    Components are normal and independent. The variance of a dot product is D (ss^2 sh^2 + ss^2 mh^2 + sh^2 ms^2), with
    means m and standard deviations s; scaling divides it by D. "off by" is the distance from the formula in standard
    errors: chance exceeds 3 once in 370 times.

    Examples:

      seq2attn analyze variance

      seq2attn analyze variance --scores dot general additive --widths 64 256 --plot variance.svg

      seq2attn analyze variance --query-mean 0.5 --key-mean 0.5
    """
    names, sizes = shared.read_scores_and_widths(scores, widths, plugin, "dot scaled", "16 64 256 1024")
    from seq2attn.analysis.variance import Components, score_variance

    components = Components(query_mean, query_sd, key_mean, key_sd)
    result = score_variance(names, sizes, samples=samples, seed=seed, components=components)
    columns = {"score": "", "width": "d", "mean": ".4g", "mean_theory": ".4g", "variance": ".5g"}
    columns |= {"variance_error": ".2g", "variance_theory": ".5g", "deviation": "+.1f"}
    headings = ("score", "D", "mean", "expected mean", "variance", "±", "expected variance", "off by")
    draws = f"s ~ N({query_mean:g}, {query_sd:g}^2), h ~ N({key_mean:g}, {key_sd:g}^2)"
    shared.print_result(
        result, columns, headings, f"{samples:,} pairs, {draws}, seed {seed}", as_json=as_json, plot=plot
    )


@analyze.command(cls=Command)
def saturation(
    scores: shared.Scores = None,
    widths: shared.Widths = None,
    keys: shared.Keys = 8,
    samples: shared.Samples = 2_000,
    seed: shared.Seed = 0,
    as_json: options.AsJson = False,
    plot: options.Plot = None,
    plugin: options.Plugins = None,
) -> None:
    """Attention weights over random keys as the width grows: raw scores saturate, scaled scores do not.

    "saturated" is the share of queries that give one key a weight above 0.99.

    Examples:

      seq2attn analyze saturation

      seq2attn analyze saturation --scores dot scaled cosine --keys 32 --plot saturation.png
    """
    names, sizes = shared.read_scores_and_widths(scores, widths, plugin, "dot scaled", "16 64 256 1024")
    from seq2attn.analysis.saturation import weight_saturation

    result = weight_saturation(names, sizes, keys=keys, samples=samples, seed=seed)
    columns = {"score": "", "width": "d"}
    columns |= dict.fromkeys(("largest", "largest_error", "saturated", "weights"), ".3f")
    headings = ("score", "D", "largest weight", "±", "saturated", "weights by rank")
    about = f"{samples:,} queries, {keys} keys each, components N(0, 1), seed {seed}"
    shared.print_result(result, columns, headings, about, as_json=as_json, plot=plot)


@analyze.command(cls=Command)
def gradient(
    scales: Annotated[
        list[str] | None, typer.Option("--scales", metavar="C...", help="Standard deviations of the scores.")
    ] = None,
    keys: Annotated[
        int, typer.Option("--keys", "-S", metavar="N", min=2, max=shared.MAX_KEYS, help="S, number of keys.")
    ] = 8,
    samples: shared.Samples = 10_000,
    seed: shared.Seed = 0,
    as_json: options.AsJson = False,
    plot: options.Plot = None,
) -> None:
    """Norm of the gradient of the largest attention weight against the scale of the scores.

    Scores are c e with e ~ N(0, 1): c = 1 is a scaled dot product, c = sqrt(D) a raw one. The gradient is with respect to
    the scores. It peaks slightly above c = 1; at c = 10 it almost vanishes for half of all draws.

    Examples:

      seq2attn analyze gradient

      seq2attn analyze gradient --scales 0.5 1 2 4 8 16 --keys 64 --plot gradient.svg
    """
    factors = shared.real_numbers("--scales", scales, "0.01 0.1 0.3 0.5 0.7 1 1.5 2 3 5 7 10 20 50")
    shared.use_one_thread()
    from seq2attn.analysis.saturation import gradient_by_scale

    result = gradient_by_scale(factors, keys=keys, samples=samples, seed=seed)
    columns = {"scale": "g", "mean": ".4f", "mean_error": ".4f", "formula": ".4f", "median": ".4f", "largest": ".3f"}
    headings = ("scale c", "mean norm", "±", "by formula", "median norm", "largest weight")
    about = f"the peak is at c = {result.peak:g}; {samples:,} draws of {keys} scores, seed {seed}"
    shared.print_result(result, columns, headings, about, as_json=as_json, plot=plot)


@analyze.command(cls=Command)
def entropy(
    scores: shared.Scores = None,
    widths: shared.Widths = None,
    keys: Annotated[list[str] | None, typer.Option("--keys", metavar="S...", help="Numbers of keys.")] = None,
    samples: shared.Samples = 500,
    seed: shared.Seed = 0,
    as_json: options.AsJson = False,
    plot: options.Plot = None,
    plugin: options.Plugins = None,
) -> None:
    """Entropy of attention over random keys against the width, in nats: scaled scores keep it, raw scores lose it.

    "expected" is the entropy for independent normal scores of the same variance, the limit for large widths: for scaled
    scores a plateau, slightly below log S, the entropy of uniform weights.

    Examples:

      seq2attn analyze entropy

      seq2attn analyze entropy --keys 8 --widths 16 64 256 --samples 5000 --plot entropy.svg
    """
    names, sizes = shared.read_scores_and_widths(scores, widths, plugin, "dot scaled", "4 16 64 256 1024 4096")
    counts = shared.whole_numbers("--keys", keys, "16 64", shared.MAX_KEYS)
    from seq2attn.analysis.entropy import entropy_by_width

    result = entropy_by_width(names, sizes, keys=counts, samples=samples, seed=seed)
    columns = {"keys": "d", "score": "", "width": "d", "entropy": ".4f", "entropy_error": ".4f", "limit": ".4f"}
    headings = ("S", "score", "D", "entropy", "±", "expected")
    about = [
        f"S = {count}: uniform {result.uniform[count]:.4f}, expected for scaled {result.plateau[count]:.4f}"
        for count in counts
    ]
    shared.print_result(result, columns, headings, "\n".join(about), as_json=as_json, plot=plot)


@analyze.command(cls=Command)
def ledger(
    scores: shared.Scores = None,
    batch: shared.Batch = 64,
    source: shared.Source = 12,
    target: shared.Target = 13,
    width: shared.Width = 96,
    embedding: Annotated[
        int, typer.Option("--embedding", "-E", metavar="N", min=1, max=shared.MAX_WIDTH, help="E, of characters.")
    ] = 32,
    vocabulary: Annotated[
        int, typer.Option("--vocabulary", "-V", metavar="N", min=4, max=10**6, help="V, tokens.")
    ] = 29,
    as_json: options.AsJson = False,
    plot: options.Plot = None,
) -> None:
    """What each score costs: parameters, operations per query, bytes of intermediates.

    Parameters are counted for the whole model (one direction, arrangement bahdanau) and for its attention alone. A
    multiplication and an addition count as two operations; projecting the keys happens once per sequence and is divided
    among its queries. Bytes are those of projected keys, hidden layer, scores and weights in float32, with all queries
    scored at once and with one at a time. In a pipe and with --json the operations are also split into scoring,
    projecting and the rest.

    Examples:

      seq2attn analyze ledger

      seq2attn analyze ledger --source 800 --target 801 --width 256 --plot ledger.svg
    """
    from seq2attn.analysis.costs import Sizes, formulas, score_costs

    sizes = Sizes(batch, source, target, width, embedding, vocabulary)
    names = shared.score_names(scores, " ".join(name for name in parts.SCORES.names() if name in formulas(sizes)))
    result = score_costs(names, sizes)
    shown = {
        "score": "score",
        "total_parameters": "parameters",
        "attention_parameters": "of attention",
        **dict.fromkeys(("flops_scoring", "flops_projecting", "flops_rest"), ""),
        "flops_query": "operations per query",
        "bytes_at_once": "bytes at once",
        "bytes_by_step": "by step",
    }
    columns = {field: "" if field == "score" else ",d" for field in shown}
    about = f"B = {batch:,}, S = {source:,}, L = {target:,}, D = {width:,}, E = {embedding:,}, V = {vocabulary:,}"
    shared.print_result(result, columns, tuple(shown.values()), about, as_json=as_json, plot=plot)


@analyze.command(cls=Command)
def masks(
    source: Annotated[
        int, typer.Option("--source", "-S", metavar="N", min=1, max=200, help="S, source positions.")
    ] = 12,
    target: Annotated[
        int, typer.Option("--target", "-L", metavar="N", min=1, max=200, help="L, output positions.")
    ] = 12,
    radius: Annotated[
        int, typer.Option("--radius", "-R", metavar="N", min=0, max=200, help="R; windows hold 2R+1.")
    ] = 2,
    as_json: options.AsJson = False,
    plot: options.Plot = None,
) -> None:
    """Windows of attention as pictures: the source positions that each output position may attend to.

    global: all. monotonic and reversed (local_m): [p_t - R, p_t + R] with p_t = t and p_t = S-1-t. local_p: the same
    window around a learned centre, its weights multiplied by a Gaussian of standard deviation R/2; the centres drawn
    sweep from the last position to the first.

    Examples:

      seq2attn analyze masks

      seq2attn analyze masks --source 20 --target 20 --radius 4 --plot masks.svg
    """
    from seq2attn.analysis.masks import window_masks

    result = window_masks(source, target, radius)
    shared.print_masks(result, as_json=as_json)
    shared.save_figure(result, plot)


@analyze.command(cls=Command)
def forms(
    scores: shared.Scores = None,
    batch: Annotated[int, typer.Option("--batch", "-B", metavar="N", min=1, max=64, help="B, sequences.")] = 3,
    source: Annotated[int, typer.Option("--source", "-S", metavar="N", min=1, max=64, help="S, keys of each.")] = 8,
    target: Annotated[int, typer.Option("--target", "-L", metavar="N", min=1, max=64, help="L, queries of each.")] = 6,
    width: Annotated[
        int, typer.Option("--width", "-D", metavar="N", min=1, max=4096, help="D, of queries and keys.")
    ] = 96,
    seed: shared.Seed = 0,
    as_json: options.AsJson = False,
    plot: options.Plot = None,
    plugin: options.Plugins = None,
) -> None:
    """Attention as loops over batch, queries and keys against attention as products of matrices.

    The two agree if no weight and no context differs by more than rounding explains.

    Examples:

      seq2attn analyze forms

      seq2attn analyze forms --scores dot additive --width 256
    """
    default = " ".join(name for name in parts.SCORES.names() if name != "none")
    names, _ = shared.read_scores_and_widths(scores, None, plugin, default, "1")
    from seq2attn.analysis.forms import compare_forms

    result = compare_forms(names, batch=batch, source=source, target=target, width=width, seed=seed)
    columns = {"score": "", "precision": "", "weights": ".1e", "contexts": ".1e", "rounding": ".1e", "agree": "yes"}
    headings = ("score", "precision", "in weights", "in contexts", "rounding", "agree")
    shared.print_result(result, columns, headings, as_json=as_json, plot=plot)
    if not all(row.agree for row in result.rows):
        raise Seq2AttnError("the two forms differ by more than rounding", exit_code=1)
