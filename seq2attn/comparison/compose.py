"""An experiment as a command or a call asks for it: from a file or from configs, with options laid over it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from seq2attn.comparison.experiment import (
    Experiment,
    check_checkpoint,
    check_metric,
    name_bases,
    read_experiment,
    run_word,
)
from seq2attn.comparison.grid import parse_vary
from seq2attn.config.lengths import parse_lengths
from seq2attn.config.yaml_files import read_file, read_text
from seq2attn.errors import Seq2AttnError
from seq2attn.runs.run import check_name


def compose_experiment(
    file: Path | None = None,
    configs: Sequence[Path] | None = None,
    vary: Sequence[str] = (),
    overrides: Sequence[str] = (),
    *,
    name: str | None = None,
    baseline: Sequence[str] = (),
    metric: str | None = None,
    lengths: Sequence[object] | None = None,
    samples: int | None = None,
    checkpoint: str | None = None,
) -> Experiment:
    """The experiment of `file`, or that of base `configs` and what to `vary`; everything else replaces what it says.

    `vary` and `baseline` are `KEY=A,B` and `KEY=VALUE`, `overrides` as `train --set` takes them. Raises `Seq2AttnError`.
    """
    if (file is None) == (not configs):
        hint = "See: seq2attn compare --help"
        raise Seq2AttnError("give either an experiment file, or --config FILE and --vary KEY=A,B,...", hint=hint)
    axes = [parse_vary(text) for text in vary]
    experiment = read_experiment(file) if file is not None else _from_configs(configs or ())
    for path in experiment.bases.values():
        if not path.is_file():
            read_file(path)  # raises the error that says what is wrong with it
    keys = [axis.key for axis in axes]
    repeated = {key for key in keys if keys.count(key) > 1}
    if repeated:
        raise Seq2AttnError(f"--vary names {', '.join(sorted(repeated))} twice; give all its values at once")
    if name is not None:
        check_name(name)
        experiment = replace(experiment, name=name)
    experiment = replace(experiment.varied(axes), fixed=(*experiment.fixed, *overrides))
    if not experiment.all_axes():
        words = [str(file)] if file is not None else ["-c", str(next(iter(experiment.bases.values())))]
        hint = f"Such as: {shlex.join(['seq2attn', 'compare', *words, '--vary', 'seed=1-5'])}"
        raise Seq2AttnError("nothing to compare: one config, and no --vary", hint=hint)
    if metric is not None:
        other = check_metric(metric) != experiment.metric
        experiment = replace(experiment, metric=metric, published=() if other else experiment.published)
    if checkpoint is not None:
        experiment = replace(experiment, checkpoint=check_checkpoint(checkpoint))
    if lengths is not None:
        try:
            experiment = replace(experiment, lengths=parse_lengths(lengths))
        except Seq2AttnError as error:
            raise Seq2AttnError(f"--lengths: {error.message}") from None
    if baseline:
        experiment = replace(experiment, baseline=dict(map(_baseline_value, baseline)))
    return replace(experiment, samples=samples or experiment.samples)


def _from_configs(configs: Sequence[Path]) -> Experiment:
    bases = name_bases(configs)
    name = run_word(f"compare-{next(iter(bases))}" if len(bases) == 1 else "compare")
    return Experiment(name=name, source="seq2attn compare", bases=bases)


def _baseline_value(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise Seq2AttnError(f"--baseline {text!r}: expected KEY=VALUE, such as model.attention.score=none")
    return key.strip(), read_text(value, "--baseline").value
