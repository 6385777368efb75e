"""A trained model in Python: what `seq2attn.load` returns."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, overload

from seq2attn.api.answer import Answer, Answers, make_answer
from seq2attn.config import Config
from seq2attn.config.words import parse_families, parse_lengths
from seq2attn.data.tasks import Task
from seq2attn.display.progress import make_display
from seq2attn.errors import Seq2AttnError, shown
from seq2attn.inference.decoding import BeamSearch
from seq2attn.inference.interventions import Changes
from seq2attn.inference.predictor import Predictor
from seq2attn.inference.results import Evaluation
from seq2attn.model.interface import Model
from seq2attn.runs.evaluations import save_evaluation
from seq2attn.runs.loading import Trained, measure, measure_on_file
from seq2attn.runs.run import Run


class TrainedModel:
    """A run's model with the weights of one of its checkpoints: strings in, answers with their attention out."""

    def __init__(self, run: Run, trained: Trained) -> None:
        self.run = run
        self.config: Config = trained.config
        self.checkpoint = trained.checkpoint
        """best, last or step-N"""
        self.step = trained.step
        """optimiser steps that its weights were trained for"""
        self.predictor: Predictor = trained.predictor
        self._trained = trained

    @property
    def module(self) -> Model:
        """The PyTorch module."""
        return self.predictor.model

    @property
    def task(self) -> Task:
        """The task, with its vocabularies."""
        return self.predictor.task

    @overload
    def predict(self, text: str, **options: Any) -> Answer: ...

    @overload
    def predict(self, text: Iterable[str], **options: Any) -> Answers: ...

    def predict(  # type: ignore[misc]  # the overloads leave out the options
        self,
        text: str | Iterable[str],
        *,
        weights: bool = True,
        beam: int | None = None,
        length_penalty: float = 0.0,
        force: Mapping[tuple[int, int], float] | None = None,
        ban: Collection[int | tuple[int, int]] = (),
        temperature: float = 1.0,
        write: Mapping[int, str] | None = None,
        padding: int = 0,
        mask_padding: bool | None = None,
    ) -> Answer | Answers:
        """The answer to one string, or the answers to several, in order.

        weights: whether to keep the attention weights. beam: search with so many hypotheses instead of greedily;
        length_penalty: the exponent of its length normalisation, 0 for none.

        The others intervene while a string is decoded; steps of the output and positions of the source count from 0:

        force: (step, position) -> the attention weight there, 0 to 1; the others of the step are scaled to sum to the rest.
        ban: positions, or (step, position), that get no attention. temperature: the scores are divided by it.
        write: step -> the symbol that the output gets there, and the next step reads, instead of the model's own.
        padding: so many empty positions after the source; mask_padding: whether attention is kept from them, by default as
        in training.

        Raises `Seq2AttnError` for an empty string, symbols outside the vocabulary, and interventions that do not fit.
        """
        changes = Changes(
            force={} if force is None else force,
            ban=ban,
            temperature=temperature,
            write={} if write is None else write,
            padding=padding,
            mask_padding=mask_padding,
        )
        texts = [text] if isinstance(text, str) else list(text) if isinstance(text, Iterable) else [text]
        for one in texts:
            if not isinstance(one, str):
                raise Seq2AttnError(f"predict takes a string, or several; found {shown(one)}")
        predictor = self.predictor
        if beam is not None:
            search = BeamSearch(beam, length_penalty)
            predictor = Predictor(
                self.module, self.task, source_eos=predictor.source_eos, device=predictor.device, search=search
            )
        if changes == Changes():
            blocks = predictor.predict_blocks(texts, keep_weights=weights)
            found = [prediction for block in blocks for prediction in block]
        else:
            found = predictor.predict(texts, changes=changes)
        answers = Answers(make_answer(prediction, self.task) for prediction in found)
        return answers[0] if isinstance(text, str) else answers

    def evaluate(
        self,
        lengths: Sequence[object] | None = None,
        *,
        samples: int | None = None,
        families: Sequence[object] | None = None,
        seed: int = 0,
        data: str | Path | None = None,
        save: bool = False,
        progress: bool | None = None,
    ) -> Evaluation:
        """Accuracy on new strings of each length, such as `[3, 5]` or `["1-12"]`; the config has the defaults.

        data: of a model trained on pairs of strings, the file of pairs to measure it on. save: keep the results with the
        run, as `seq2attn eval` does. progress: whether to show it; by default in a terminal or a notebook.
        """
        on_pairs = self.config.task.name == "pairs"
        if on_pairs and data is None:
            raise Seq2AttnError(
                f"run {self.run.name!r} is on pairs of strings: name the file to measure on",
                hint='seq2attn.evaluate(run, data="test.tsv")',
            )
        if data is not None:
            if not on_pairs:
                raise Seq2AttnError(
                    f"data: run {self.run.name!r} is on task {self.config.task.name!r}, which draws its own strings"
                )
            for name, value in {
                "lengths": lengths,
                "samples": samples,
                "families": families,
                "seed": seed or None,
            }.items():
                if value is not None:
                    raise Seq2AttnError(f"{name}: all pairs of a file are measured", hint=f"Leave out {name}.")
            evaluation = measure_on_file(self._trained, Path(data))
        else:
            numbers = None if lengths is None else parse_lengths(lengths)
            kinds = None if families is None else parse_families(families)
            count = itertools.count(1)
            with make_display(progress) as display:
                display.begin(self.run.name, None)

                def measured() -> None:
                    done = next(count)
                    display.step(self.run.name, done, f"evaluating {self.run.name}: {done} lengths measured")

                evaluation = measure(
                    self._trained, numbers, families=kinds, samples=samples, seed=seed, progress=measured
                )
        if save:
            save_evaluation(evaluation, self.run)
        return evaluation

    def __repr__(self) -> str:
        parameters = sum(one.numel() for one in self.module.parameters())
        attention = "no attention" if self.config.score_name == "none" else f"{self.config.score_name} attention"
        return (
            f"TrainedModel({self.run.name!r}: {self.config.task.name}, {attention}, {parameters:,} parameters, "
            f"checkpoint {self.checkpoint} of step {self.step:,})"
        )
