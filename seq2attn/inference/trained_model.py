"""A trained model: its answers, its evaluation, and how it is loaded from a run's files."""

import datetime
import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from seq2attn.build import build_model, build_task
from seq2attn.config import Config
from seq2attn.config.schema import parse_families, parse_lengths
from seq2attn.data.pairs import left_out_of, load_pairs
from seq2attn.data.tasks import Task
from seq2attn.data.tasks.pairs import Pairs
from seq2attn.errors import Seq2AttnError, need_count, quoted
from seq2attn.inference.answer import Cache, PatchMap
from seq2attn.inference.changes import Changes
from seq2attn.inference.decoding import BeamSearch, Ensemble
from seq2attn.inference.evaluation import evaluate, evaluate_pairs
from seq2attn.inference.predictor import Predictor, symbols_of
from seq2attn.model.interface import Model
from seq2attn.results.evaluation import Evaluation
from seq2attn.runs.checkpoint import MODEL, load_checkpoint
from seq2attn.runs.create import choose_device, default_dtype
from seq2attn.runs.run import Run, need_checkpoint

PER = ("type", "token")
"""what is a word of a file of pairs: a different source, or a line"""


@dataclass(repr=False, eq=False)
class TrainedModel:
    """The model of a run with the weights of one of its checkpoints."""

    run: Run
    config: Config
    predictor: Predictor
    """the PyTorch module with the task"""
    checkpoint: str
    """best, last or step-N: whichever was loaded"""
    step: int
    """optimiser steps that its weights were trained for"""
    ensemble: tuple[Run, ...] = ()
    """the runs whose probabilities it averages, if it is several models; the rest is the first's"""

    @property
    def name(self) -> str:
        """The name of its run, or those of its ensemble, such as `a + b`."""
        return " + ".join(run.name for run in self.ensemble or [self.run])

    @property
    def module(self) -> Model:
        """The PyTorch module."""
        return self.predictor.model

    @property
    def task(self) -> Task:
        """The task, with its vocabularies."""
        return self.predictor.task

    def searching(self, search: BeamSearch | None) -> Self:
        """Return this model with another way to decode: a beam search, or None for greedily."""
        return replace(self, predictor=replace(self.predictor, search=search))

    def predict(
        self,
        text: str | Iterable[str],
        *,
        weights: bool = True,
        beam: int | None = None,
        length_penalty: float = 0.0,
        **changes: Any,
    ) -> Any:
        """Return the `Answer` to one string, or a list of those to several, in order.

        weights: True to keep the attention weights.
        beam: search with so many hypotheses; None: greedily, or as `searching` has chosen.
        length_penalty: the exponent of the beam's length normalisation, 0 for none.

        The others change what is computed while a string is decoded; steps of the output and
        positions of the source count from 0:

        force: (step, position) -> the attention weight there, 0 to 1; the others of the step are
            scaled to sum to the rest.
        ban: positions, or (step, position), that get no attention.
        temperature: the scores are divided by it.
        write: step -> the symbol that the output gets there, and the next step reads, instead of
            the model's own.
        padding: so many empty positions after the source.
        mask_padding: True to hide the padding from attention, False to show it; by default as in
            training.
        patch: (name, step) -> an array in place of what the model computes there (activation
            patching): a row of decoder.state, attention.weights or attention.context as
            `run_with_cache` returns them, or with a position in place of the step, of
            encoder.states.

        Raises `Seq2AttnError` for an empty string, symbols outside the vocabulary, and changes that
        do not fit.
        """
        if length_penalty and beam is None:
            raise Seq2AttnError(
                "length_penalty ranks the outputs of a beam", hint="Add a beam, such as beam=5."
            )
        search = self.predictor.search if beam is None else BeamSearch(beam, length_penalty)
        predictor = replace(self.predictor, search=search, changes=Changes(**changes))
        answers = list(predictor.predict(_listed(text), keep_weights=weights))
        return answers[0] if isinstance(text, str) else answers

    def run_with_cache(self, text: str | Iterable[str], **changes: Any) -> tuple[Any, Cache]:
        """Answer a string, or several, greedily, with the changes of `predict`. Return an `Answer`,
        or a list of them, and a `Cache` of what the model computed.
        """
        for name in ("beam", "length_penalty"):
            if name in changes:
                raise Seq2AttnError(
                    f"run_with_cache answers greedily, without {name}: a beam has several "
                    "hypotheses at a step, and a cache one value",
                    hint="predict(beam=K) answers with a beam.",
                )
        predictor = replace(self.predictor, search=None, changes=Changes(**changes))
        answers, cache = predictor.run_with_cache(_listed(text))
        return (answers[0], cache.string(0)) if isinstance(text, str) else (answers, cache)

    def evaluate(
        self,
        lengths: Sequence[object] | None = None,
        *,
        samples: int | None = None,
        families: Sequence[object] | None = None,
        seed: int = 0,
        data: str | Path | None = None,
        per: str = "type",
        errors: bool = False,
        watch: Callable[[], None] | None = None,
        **changes: Any,
    ) -> Evaluation:
        """Measure accuracy on new strings of each length, such as `[3, 5]` or `["1-12"]`; the
        config has the defaults.

        samples: how many strings of each length.
        families: the families of strings, such as `["random", "palindrome"]`, or `["all"]`.
        seed: another seed draws other strings.
        data: of a model trained on pairs of strings, the file of pairs to measure it on; nothing
            else is then chosen but `per`.
        per: of pairs, "type" to count each different source once, "token" to count each line.
        errors: True to keep the wrong answers to strings that the task draws; those to pairs are
            always kept.
        watch: called after each length of a family.
        changes: as for `predict`, in every string.

        Nothing is saved.
        """
        predictor = self.predictor
        if changes:
            predictor = replace(predictor, changes=Changes(**changes))
        need_count("seed", seed, 0)
        if samples is not None:
            need_count("samples", samples)
        if isinstance(self.task, Pairs):
            drawn = {"lengths": lengths, "samples": samples, "families": families, "seed": seed}
            # (a seed of 0 is the default, so nobody has asked for it)
            if asked := [name for name, value in drawn.items() if value]:
                raise Seq2AttnError(
                    f"run {self.run.name!r} is measured on all pairs of a file; leave out "
                    f"{' and '.join(asked)}"
                )
            results = self._evaluate_pairs(predictor, self.task, data, per)
        elif data is not None:
            raise Seq2AttnError(
                f"data: run {self.run.name!r} is on task {self.config.task.name!r}, which draws "
                "its own strings"
            )
        else:
            config = self.config.evaluation
            if lengths is None:
                lengths = config.lengths or self.task.trained_lengths
            results = evaluate(
                predictor,
                parse_lengths(lengths),
                samples=samples or config.samples,
                seed=seed,
                families=parse_families(config.families if families is None else families),
                errors=errors,
                watch=watch,
            )
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds")
        return replace(results, checkpoint=self.checkpoint, seed=seed, step=self.step, created=now)

    def _evaluate_pairs(
        self, predictor: Predictor, task: Pairs, data: str | Path | None, per: str
    ) -> Evaluation:
        """Measure accuracy on the pairs of the file `data`, as `evaluate` does.

        per: what counts as a word: `type`, each different source, or `token`, each line. Raises
        `Seq2AttnError` without a file (None), or for another `per`.
        """
        if data is None:
            name, dev = self.run.name, shlex.quote(self.config.data_files.get("dev", "FILE"))
            raise Seq2AttnError(
                f"run {name!r} is measured on a file of pairs, which a run's own config never "
                "opens",
                hint=f'Name the file: seq2attn eval {name} --data {dev}; in Python, data="{dev}"',
            )
        file = load_pairs(Path(data), task.form)
        if per not in PER:
            raise Seq2AttnError(f"per: {quoted(per)}; allowed: {', '.join(PER)}")
        results = evaluate_pairs(predictor, file.pairs, tokens=per == "token")
        # how many malformed lines each file has: those of training, and this one
        left_out = {**task.left_out, **left_out_of([file.record])}
        return replace(results, data={**file.record, "per": per}, left_out=left_out or None)

    def __repr__(self) -> str:
        kind = "ensemble of " if self.ensemble else ""
        return (
            f"TrainedModel({kind}{self.name!r}, checkpoint {self.checkpoint} of step {self.step:,})"
        )


def _listed(text: str | Iterable[str]) -> Iterable[str]:
    return text if isinstance(text, Iterable) and not isinstance(text, str) else [text]


def patch_map(
    model: TrainedModel, text: str | Iterable[str], other: str | Iterable[str], quantity: str
) -> Any:
    """Measure how much each row of `quantity` matters to the answer to a string: one row at a time
    is replaced by that which the model computes for another string (Meng et al. 2022). Returns a
    `PatchMap`, or of many pairs of strings a list of them.

    quantity: a name as in `patch` of `TrainedModel.predict`, such as `encoder.states`.

    Every step reads what the unpatched model wrote. Rows that one of the two strings lacks are left
    out. Raises `Seq2AttnError` for an ensemble.
    """
    if model.ensemble:
        raise Seq2AttnError(
            f"patch_map looks into one model, and {model.name} is an ensemble",
            hint=f"Load one run: seq2attn.load({model.run.name!r})",
        )
    texts, others = list(_listed(text)), list(_listed(other))
    if len(texts) != len(others):
        raise Seq2AttnError(f"patch_map takes pairs; found {len(texts)} and {len(others)} strings")
    # N pairs of strings, all at once
    answers, cache = model.run_with_cache(texts)
    other_answers, donors = model.run_with_cache(others)
    rows = donors[quantity]  # (N, rows, ...)
    axis = donors.names()[quantity][1]  # of the rows: step, or source
    ends = np.minimum(cache.lengths[axis], donors.lengths[axis])  # (N,) how many rows both have

    unpatched = model.predictor.losses(answers)  # (N, T) -ln p of what the model wrote
    effects = []  # of each row (N, T): by how much it raises -ln p of the same symbols
    for index in range(ends.max()):
        # (what is patched past an end of one of the two strings is left out below)
        changes = Changes(patch={(quantity, index): rows[:, index]})
        patched = replace(model.predictor, changes=changes)
        effects.append(patched.losses(answers) - unpatched)

    maps = []
    for number, answer in enumerate(answers):
        steps = len(answer.output_ids)
        # (rows of this string, T); without the nan of longer ones
        effect = np.array([one[number, :steps] for one in effects[: ends[number]]])
        maps.append(PatchMap(quantity, axis, answer, other_answers[number], effect))
    return maps[0] if isinstance(text, str) else maps


# ---- from a run's files ----


def load_run(run: Run, checkpoint: str = "best", device: str = "auto") -> TrainedModel:
    """Load the model of `run` with the weights of its checkpoint `best`, `last` or `step-N` (`last`
    if there is no `best`).

    Raises `Seq2AttnError` for a run without a checkpoint, or one that is damaged or does not fit
    the config.
    """
    allowed = ["best", "last", *map("step-{}".format, run.kept_steps())]
    if checkpoint not in allowed:
        raise Seq2AttnError(
            f"unknown checkpoint {quoted(checkpoint)}; allowed: {', '.join(allowed)}",
            hint="To keep weights through training: --set training.snapshot_weights=true",
        )
    config = need_checkpoint(run).config
    if checkpoint == "best" and not run.checkpoint("best").exists():
        checkpoint = "last"
    # (the run has kept what its task once took from files, which are not opened again)
    task = build_task(config, run.learned_task(config))
    with default_dtype(run.environment.dtype):  # that of its training
        model = build_model(config, task)
    saved = load_checkpoint(run.checkpoint(checkpoint), model)
    model.load_state_dict(saved.part(MODEL))
    predictor = Predictor(model.eval(), task, config.model.source_eos, choose_device(device))
    return TrainedModel(run, config, predictor, checkpoint, saved.state["step"])


def load_ensemble(
    runs: Sequence[Run], checkpoint: str = "best", device: str = "auto"
) -> TrainedModel:
    """Load the models of several runs as one, which averages their probabilities; of a single run,
    its own model. A run that is given twice counts once.

    All else, such as config and task, is the first run's. Raises `Seq2AttnError` for a run that
    cannot be loaded, and for runs whose models cannot decode together.
    """
    runs = list({run.path: run for run in runs}.values())  # each once
    models = [load_run(run, checkpoint, device) for run in runs]
    if len(models) == 1:
        return models[0]
    first = models[0]
    for model in models:
        if symbols_of(model.predictor) != symbols_of(first.predictor):
            raise Seq2AttnError(
                f"{first.run.path} and {model.run.path} cannot form an ensemble: they read or "
                "write different symbols",
                hint="Train them on the same task and data, with the same model.source_eos.",
            )
    module = Ensemble([model.module for model in models])
    predictor = replace(first.predictor, model=module)
    return replace(first, predictor=predictor, ensemble=tuple(runs))
