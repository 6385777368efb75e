"""The Python interface: what `import seq2attn` offers beside the base classes of parts."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from seq2attn.config import Config
from seq2attn.config.load import Overrides
from seq2attn.config.plugins import load_plugins
from seq2attn.config.schema import parse_families, parse_lengths
from seq2attn.data.tasks import Task
from seq2attn.display.progress import make_display
from seq2attn.errors import Seq2AttnError, shown
from seq2attn.inference.decoding import BeamSearch
from seq2attn.inference.interventions import Changes
from seq2attn.inference.maps import AttentionMap
from seq2attn.inference.predictor import Prediction, Predictor
from seq2attn.inference.results import Evaluation
from seq2attn.model.interface import Model
from seq2attn.runs.create import prepare_training
from seq2attn.runs.load import Trained, load_run, measure
from seq2attn.runs.logs import save_evaluation
from seq2attn.runs.run import Run, find_run

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from seq2attn.comparison.results import Comparison

MOST_SHOWN = 50  # answers of a list in a notebook


def train(
    config: str | Path | Mapping[str, Any] | Config | Run,
    overrides: Overrides = (),
    *,
    runs_dir: str | Path = "runs",
    name: str | None = None,
    device: str = "auto",
    threads: int | None = None,
    plugins: Sequence[str | Path] = (),
    resume: str | Run | None = None,
    progress: bool | None = None,
) -> Run:
    """Train a model, as `seq2attn train` does, and return its run.

    config: a YAML file, its keys and values, or a `Config`; or a run, to continue it. overrides: `KEY=VALUE`, several of
    them, or a mapping.
    resume: a run on files to continue, or its name, with its config; a run alone never opens a file.
    name: of the run; by default derived from the config's file name. plugins: files with parts of your own.
    progress: whether to show it; by default in a notebook and on a terminal.
    The first Ctrl-C saves and raises `KeyboardInterrupt`.
    """
    from seq2attn.training import session

    loaded = load_plugins(plugins)
    given, resume = (None, config) if isinstance(config, Run) else (config, resume)
    settings, where = prepare_training(given, overrides, root=Path(runs_dir), name=name, resume=resume, plugins=loaded)
    with make_display(progress) as display:
        ended = session.train(settings, where, device=device, threads=threads, display=display)
    if ended.stopped_by is not None:
        raise KeyboardInterrupt(f"stopped after step {ended.step:,}; everything is saved in {ended.run.path}")
    return ended.run


def load(
    run: str | Run | None = None, *, runs_dir: str | Path = "runs", checkpoint: str = "best", device: str = "cpu"
) -> TrainedModel:
    """The trained model of a run, given by its name, by default the newest: `load().predict("hello")`.

    checkpoint: best, last, or `step-64`, one of those that `training.snapshot_weights` keeps.
    """
    chosen = _find(run, runs_dir)
    return TrainedModel(chosen, load_run(chosen, checkpoint, device))


def evaluate(
    run: str | Run | None = None,
    lengths: Sequence[object] | None = None,
    *,
    runs_dir: str | Path = "runs",
    checkpoint: str = "best",
    device: str = "cpu",
    **options: Any,
) -> Evaluation:
    """Measure a run and save the results with it, as `seq2attn eval` does. options: those of `TrainedModel.evaluate`."""
    model = load(run, runs_dir=runs_dir, checkpoint=checkpoint, device=device)
    return model.evaluate(lengths, save=True, **options)


def compare(
    experiment: str | Path | None = None,
    *,
    configs: Sequence[str | Path] = (),
    vary: str | Sequence[str] = (),
    overrides: Overrides = (),
    runs_dir: str | Path = "runs",
    device: str = "auto",
    workers: int | None = None,
    executor: str | Callable[[], Executor] | None = None,
    plugins: Sequence[str | Path] = (),
    progress: bool | None = None,
    **options: Any,
) -> Comparison:
    """Train and measure every trial of an experiment file, or of base `configs` and what to `vary`, as `seq2attn compare`.

    executor: where trials run: by default processes of this machine; `dask:ADDRESS`, or a function that makes any standard
    Executor whose workers are processes that see `runs_dir`.
    options: `name`, `baseline`, `metric`, `lengths`, `families`, `samples` and `checkpoint`, as on the command line.
    Trials run in their own processes, so a script must call this below `if __name__ == "__main__":`. The result's
    `failed` has the reasons of failed trials, `busy` the trials that another process trains. The first Ctrl-C saves and
    raises `KeyboardInterrupt`.
    """
    from seq2attn.comparison.experiment import compose_experiment
    from seq2attn.comparison.plan import make_plan
    from seq2attn.comparison.run import run_comparison

    loaded = load_plugins(plugins)
    file = None if experiment is None else Path(experiment)
    varied = [vary] if isinstance(vary, str) else vary
    plan = make_plan(compose_experiment(file, list(map(Path, configs)), varied, overrides, **options), Path(runs_dir))
    with make_display(progress) as display:
        found = run_comparison(plan, device=device, plugins=loaded, workers=workers, executor=executor, display=display)
    if found.stopped_by is not None:
        raise KeyboardInterrupt("stopped; the same call continues")
    return found


def _find(run: str | Run | None, runs_dir: str | Path) -> Run:
    return run if isinstance(run, Run) else find_run(Path(runs_dir), run)


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
        changes = Changes(force or {}, ban, temperature, write or {}, padding, mask_padding)
        texts = [text] if isinstance(text, str) else list(text) if isinstance(text, Iterable) else [text]
        for one in texts:
            if not isinstance(one, str):
                raise Seq2AttnError(f"predict takes a string, or several; found {shown(one)}")
        predictor = self.predictor
        if beam is not None:
            search = BeamSearch(beam, length_penalty)
            eos, device = predictor.source_eos, predictor.device
            predictor = Predictor(self.module, self.task, source_eos=eos, device=device, search=search)
        if changes == Changes():
            blocks = predictor.predict_blocks(texts, keep_weights=weights)
            found = [prediction for block in blocks for prediction in block]
        else:
            found = predictor.predict(texts, changes=changes)
        answers = Answers(Answer.of(prediction, self.task) for prediction in found)
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
        numbers = None if lengths is None else parse_lengths(lengths)
        kinds = None if families is None else parse_families(families)
        file, count = None if data is None else Path(data), itertools.count(1)
        with make_display(progress) as display:
            display.begin(self.run.name, None)

            def measured() -> None:
                done = next(count)
                display.step(self.run.name, done, f"evaluating {self.run.name}: {done} lengths measured")

            evaluation = measure(
                self._trained, numbers, samples=samples, seed=seed, families=kinds, data=file, progress=measured
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


@dataclass(frozen=True, eq=False, repr=False)
class Answer(Prediction):
    """The output for one string. `str(answer)` is the output alone; a notebook shows the attention map.

    `weights` is None without attention, and for sources of more than 1,000 characters.
    """

    expected: str | None = None  # the right answer, if the task knows it
    ideal: tuple[int, ...] = ()  # the source position that each character of the right answer copies; empty if unknown

    @classmethod
    def of(cls, prediction: Prediction, task: Task) -> Answer:
        """The answer for a prediction, with what `task` knows about it."""
        known = task.answer(prediction.source)
        ideal = tuple(known.alignment or ()) if known else ()
        return cls(**vars(prediction), expected=known.text if known else None, ideal=ideal)

    @property
    def correct(self) -> bool | None:
        """Whether the output is the right answer; None if the task does not know that."""
        return None if self.expected is None else self.finished and self.output == self.expected

    @property
    def map(self) -> AttentionMap:
        """The attention as a record that `seq2attn.plotting` draws. Raises `Seq2AttnError` without weights."""
        drawn = self.attention_map(self.ideal)
        if drawn is None:
            reason = "the model has no attention, the string is too long, or weights=False was given"
            raise Seq2AttnError(f"there is no attention to draw for {shown(self.source)}: {reason}")
        return drawn

    def plot(self, ax: Axes | None = None, *, ideal: bool = False) -> Axes:
        """Draw the attention map into `ax`, by default a new figure's, and return it. ideal: outline the ideal alignment."""
        from seq2attn.plotting.attention import draw_map

        one = self.map
        if ax is None:
            from matplotlib import pyplot

            _, ax = pyplot.subplots(layout="constrained")
        draw_map(ax, one, ideal=ideal)
        return ax

    def __str__(self) -> str:
        return self.output

    def __repr__(self) -> str:
        return f"Answer({self.source!r} -> {self.output!r}{self._remark})"

    def _repr_html_(self) -> str:
        if self.weights is None:
            return f"<div>{escape(f'{self.source} → {self.output}{self._remark}')}</div>"
        from seq2attn.plotting.html import html_map

        return html_map(self.map, self._remark)

    @property
    def _remark(self) -> str:
        wrong = f", expected {self.expected!r}" if self.correct is False and self.output != self.expected else ""
        return wrong if self.finished else f"{wrong}, cut off"


class Answers(list[Answer]):
    """The answers to several strings, in order. A notebook shows their maps side by side."""

    def _repr_html_(self) -> str:
        more = f"<div>and {len(self) - MOST_SHOWN:,} more</div>" if len(self) > MOST_SHOWN else ""
        return f"<div>{''.join(one._repr_html_() for one in self[:MOST_SHOWN])}{more}</div>"
