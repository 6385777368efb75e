"""A trained model: the answers that it gives, and what is measured of it; and how it is loaded from
a run's files.
"""

from __future__ import annotations

import datetime
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Unpack, overload

from seq2attn.build import build_model, build_task, build_training_data, load_task
from seq2attn.config import Config, load_config
from seq2attn.config.load import Overrides
from seq2attn.config.schema import parse_families, parse_lengths
from seq2attn.data.batches import Batch
from seq2attn.data.tasks import Task
from seq2attn.data.tasks.pairs import Pairs
from seq2attn.errors import Seq2AttnError, need_count
from seq2attn.inference.answer import Answer
from seq2attn.inference.cache import Cache, only
from seq2attn.inference.changes import AttentionChanges, Changes, DecodingChanges
from seq2attn.inference.decoding import BeamSearch
from seq2attn.inference.ensemble import ensemble
from seq2attn.inference.evaluation import evaluate, evaluate_pairs
from seq2attn.inference.predictor import Predictor
from seq2attn.inference.results import Evaluation
from seq2attn.model.interface import Model
from seq2attn.plugins import load_plugins
from seq2attn.runs.checkpoint import load_checkpoint, load_weights
from seq2attn.runs.machine import choose_device
from seq2attn.runs.run import Run, need_checkpoint
from seq2attn.text import quoted


class PredictOptions(DecodingChanges, total=False):
    """The keywords of `TrainedModel.predict`."""

    weights: bool
    beam: int | None
    length_penalty: float


@dataclass(frozen=True, repr=False)
class TrainedModel:
    """The model of a run with the weights of one of its checkpoints."""

    run: Run
    config: Config
    predictor: Predictor
    """has the PyTorch module and the task"""
    checkpoint: str
    """best, last or step-N: whichever was loaded"""
    step: int
    """optimiser steps that its weights were trained for"""

    @property
    def module(self) -> Model:
        """The PyTorch module."""
        return self.predictor.model

    @property
    def task(self) -> Task:
        """The task, with its vocabularies."""
        return self.predictor.task

    @overload
    def predict(self, text: str, **options: Unpack[PredictOptions]) -> Answer: ...  # type: ignore[overload-overlap]

    @overload
    def predict(self, text: Iterable[str], **options: Unpack[PredictOptions]) -> list[Answer]: ...

    def predict(
        self,
        text: str | Iterable[str],
        *,
        weights: bool = True,
        beam: int | None = None,
        length_penalty: float = 0.0,
        **changes: Unpack[DecodingChanges],
    ) -> Answer | list[Answer]:
        """The answer to one string, or the answers to several, in order.

        weights: whether to keep the attention weights. beam: search with so many hypotheses instead
        of greedily; length_penalty: the exponent of its length normalisation, 0 for none.

        The others intervene while a string is decoded; steps of the output and positions of the
        source count from 0:

        force: (step, position) -> the attention weight there, 0 to 1; the others of the step are
        scaled to sum to the rest. ban: positions, or (step, position), that get no attention.
        temperature: the scores are divided by it. write: step -> the symbol that the output gets
        there, and the next step reads, instead of the model's own. padding: so many empty positions
        after the source; mask_padding: whether attention is kept from them, by default as in
        training. patch: (name, step) -> an array in place of what the model computes there
        (activation patching): a row of decoder.state, attention.weights or attention.context as
        `run_with_cache` returns them, or with a position in place of the step, of encoder.states.

        Raises `Seq2AttnError` for an empty string, symbols outside the vocabulary, and
        interventions that do not fit.
        """
        texts = text if isinstance(text, Iterable) and not isinstance(text, str) else [text]
        if length_penalty and beam is None:
            raise Seq2AttnError(
                "length_penalty ranks the outputs of a beam", hint="Add a beam, such as beam=5."
            )
        search = self.predictor.search if beam is None else BeamSearch(beam, length_penalty)
        made = Changes.of("predict", DecodingChanges, changes)
        predictor = replace(self.predictor, search=search, changes=made)
        answers = list(predictor.predict(texts, keep_weights=weights))
        return answers[0] if isinstance(text, str) else answers

    @overload
    def run_with_cache(  # type: ignore[overload-overlap]
        self, text: str, **changes: Unpack[DecodingChanges]
    ) -> tuple[Answer, Cache]: ...

    @overload
    def run_with_cache(
        self, text: Iterable[str], **changes: Unpack[DecodingChanges]
    ) -> tuple[list[Answer], Cache]: ...

    def run_with_cache(
        self, text: str | Iterable[str], **changes: Unpack[DecodingChanges]
    ) -> tuple[Answer | list[Answer], Cache]:
        """Answer a string, or several, greedily, with the changes of `predict`, and return what the
        model computed, too.
        """
        made = Changes.of("run_with_cache", DecodingChanges, changes)
        predictor = replace(self.predictor, search=None, changes=made)
        texts = [text] if isinstance(text, str) else list(text)
        answers, cache = predictor.look_inside(texts)
        return (answers[0], only(cache)) if isinstance(text, str) else (answers, cache)

    def evaluate(
        self,
        lengths: Sequence[object] | None = None,
        *,
        samples: int | None = None,
        families: Sequence[object] | None = None,
        seed: int = 0,
        data: str | Path | None = None,
        errors: bool = False,
        watch: Callable[[], None] | None = None,
        **changes: Unpack[AttentionChanges],
    ) -> Evaluation:
        """Accuracy on new strings of each length, such as `[3, 5]` or `["1-12"]`; the config has
        the defaults.

        data: of a model trained on pairs of strings, the file of pairs to measure it on; nothing
        else is then chosen. errors: keep the wrong answers to strings that the task draws; those to
        pairs are always kept. watch: called after each length of a family. changes: `force`, `ban`
        and `temperature`, as for `predict`, in every string. Nothing is saved.
        """
        made = Changes.of("evaluate", AttentionChanges, changes)
        predictor = replace(self.predictor, changes=made) if changes else self.predictor
        config, task, name = self.config, self.task, self.run.name
        need_count("seed", seed, 0)
        need_count("samples", 1 if samples is None else samples)
        if isinstance(task, Pairs):
            given = {
                "lengths": lengths,
                "samples": samples,
                "families": families,
                "seed": seed or None,
            }
            for option in (option for option, value in given.items() if value is not None):
                raise Seq2AttnError(
                    f"{option}: run {name!r} is measured on all pairs of a file; leave it out"
                )
            if data is None:
                dev = shlex.quote(config.data_files.get("dev", "FILE"))
                raise Seq2AttnError(
                    f"run {name!r} is measured on a file of pairs, which a run's own config never opens",
                    hint=f'Name the file: seq2attn eval {name} --data {dev}; in Python, data="{dev}"',
                )
            file = task.read(data)
            results = replace(evaluate_pairs(predictor, file.pairs), data=file.record)
        elif data is not None:
            raise Seq2AttnError(
                f"data: run {name!r} is on task {config.task.name!r}, which draws its own strings"
            )
        else:
            trained = config.evaluation.lengths or task.trained_lengths
            results = evaluate(
                predictor,
                parse_lengths(trained if lengths is None else lengths),
                samples=samples or config.evaluation.samples,
                seed=seed,
                families=parse_families(
                    config.evaluation.families if families is None else families
                ),
                errors=errors,
                watch=watch,
            )
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds")
        return replace(results, checkpoint=self.checkpoint, seed=seed, step=self.step, created=now)

    def __repr__(self) -> str:
        return (
            f"TrainedModel({self.run.name!r}, checkpoint {self.checkpoint} of step {self.step:,})"
        )


# ---- from a run's files ----


def load_run(run: Run, checkpoint: str = "best", device: str = "auto") -> TrainedModel:
    """The model of `run` with the weights of its checkpoint `best`, `last` or `step-N` (`last` if
    there is no `best`).

    Raises `Seq2AttnError` for a run without a checkpoint, or one that is damaged or does not fit
    the config.
    """
    names = ["best", "last", *(f"step-{step}" for step in run.kept_steps())]
    if checkpoint not in names:
        hint = "To keep weights through training: --set training.snapshot_weights=true"
        raise Seq2AttnError(
            f"unknown checkpoint {quoted(checkpoint)}; allowed: {', '.join(names)}", hint=hint
        )
    config = need_checkpoint(run).config()
    if checkpoint == "best" and not run.checkpoint("best").exists():
        checkpoint = "last"
    path = run.checkpoint(checkpoint)
    task = build_task(config, run.learned_task(config))
    model = build_model(config, task)
    saved = load_checkpoint(path, model)
    load_weights(path, saved, model)
    predictor = Predictor(model, task, config.model.source_eos, choose_device(device))
    return TrainedModel(run, config, predictor, checkpoint, saved.state["step"])


def new_model(
    config: str | Path | Mapping[str, Any] | Config,
    overrides: Overrides = (),
    *,
    device: str = "cpu",
    plugins: str | Path | Sequence[str | Path] = (),
) -> tuple[TrainedModel, Iterator[Batch]]:
    """A model with its first weights, and an endless stream of its training batches, for a training
    loop of your own.

    The model has no run: nothing is saved. The arguments are those of `train`.
    """
    load_plugins(plugins)
    chosen, place = load_config(config, overrides), choose_device(device)
    task = load_task(chosen)
    predictor = Predictor(build_model(chosen, task), task, chosen.model.source_eos, place)
    model = TrainedModel(Run(Path("unsaved")), chosen, predictor, "none", 0)
    return model, build_training_data(chosen, place, task).batches()


def load_ensemble(
    runs: Sequence[Run], checkpoint: str = "best", device: str = "auto"
) -> TrainedModel:
    """The models of several runs as one, which averages their probabilities; of a single run, its
    own model.

    The rest is the first run's. Raises as `load_run` does, and for runs whose models cannot decode
    together.
    """
    loaded = [load_run(run, checkpoint, device) for run in runs]
    if len(loaded) == 1:
        return loaded[0]
    return replace(
        loaded[0], predictor=ensemble({trained.run.name: trained.predictor for trained in loaded})
    )
