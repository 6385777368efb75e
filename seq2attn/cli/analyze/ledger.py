"""`seq2attn analyze ledger`"""

from __future__ import annotations

from typing import Annotated

import typer

from seq2attn import catalogue
from seq2attn.cli import options
from seq2attn.cli.analyze.inputs import WIDEST, Batch, Scores, Source, Target, Width, check_plot, score_names
from seq2attn.cli.analyze.output import finish


def ledger(
    scores: Scores = None,
    batch: Batch = 64,
    source: Source = 12,
    target: Target = 13,
    width: Width = 96,
    embedding: Annotated[int, typer.Option("--embedding", "-E", min=1, max=WIDEST, help="E, of characters.")] = 32,
    vocabulary: Annotated[int, typer.Option("--vocabulary", "-V", min=4, max=10**6, help="V, tokens.")] = 29,
    as_json: options.AsJson = False,
    plot: options.Plot = None,
) -> None:
    """What each score costs: parameters, operations a query, bytes of intermediates.

    Parameters are those of the whole model (one direction, arrangement bahdanau) and of its attention alone. Operations
    count a multiplication and an addition as two; projecting the keys is done once a sequence and spread over its
    queries. Bytes are those of projected keys, hidden layer, scores and weights in float32: with all queries scored at
    once, and one at a time. In a pipe and with --json the operations are also split into scoring, projecting and the rest.

    Examples:

      seq2attn analyze ledger

      seq2attn analyze ledger --source 800 --target 801 --width 256 --plot ledger.svg
    """
    check_plot(plot)
    from seq2attn.analysis.costs import FORMULAS, Sizes, score_costs

    names = score_names(scores, " ".join(name for name in catalogue.SCORES.names() if name in FORMULAS))
    result = score_costs(names, Sizes(batch, source, target, width, embedding, vocabulary))
    columns = [
        ("score", "score", ""),
        ("total_parameters", "parameters", ",d"),
        ("attention_parameters", "of attention", ",d"),
        ("flops_scoring", "", ",d"),
        ("flops_projecting", "", ",d"),
        ("flops_rest", "", ",d"),
        ("flops_query", "operations a query", ",d"),
        ("bytes_at_once", "bytes at once", ",d"),
        ("bytes_by_step", "by step", ",d"),
    ]
    notes = [f"B = {batch:,}, S = {source:,}, L = {target:,}, D = {width:,}, E = {embedding:,}, V = {vocabulary:,}"]
    finish(result, columns, as_json=as_json, plot=plot, notes=notes)
