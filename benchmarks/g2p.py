"""Pronunciations of SIGMORPHON 2021, task 1: train every language with several seeds, and print
error rates as a table.

The folder has files such as low_ice_train.tsv, or low/ice_train.tsv as in
github.com/sigmorphon/2021-task1, `data/`. Rates are those of the test file, or of the dev file on
which the weights were chosen; a language without that file is left out. Trained runs are kept: the
same command continues after Ctrl-C or a kill. The first seed of all languages is trained first.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import seq2attn
from benchmarks.__main__ import machine, table
from seq2attn.config import Config, load_config
from seq2attn.errors import Seq2AttnError
from seq2attn.files import write_atomically
from seq2attn.inference.decoding import BeamSearch
from seq2attn.inference.trained_model import load_ensemble
from seq2attn.results.evaluation import Evaluation
from seq2attn.runs.run import Run

CONFIGS = Path(__file__).parents[1] / "configs" / "pairs"
RECIPES = {
    "low": (CONFIGS / "small.yaml", 5),
    "medium": (CONFIGS / "medium.yaml", 3),
}  # config, seeds
LANGUAGES = (
    ["ady", "gre", "ice", "ita", "khm", "lav", "mlt_latn", "rum", "slv", "wel_sw"],
    ["dut", "hun", "kor"],
)
CHOSEN = {"kor": ("task.normalise=nfd",)}  # settings that a language needs beside the recipe
# WER in % on dev and test, from that repository's README: an ensemble of neural transducers
BASELINE = {
    **{
        "ady": (22, 22),
        "gre": (5, 21),
        "ice": (11, 12),
        "ita": (22, 19),
        "khm": (34, 34),
        "lav": (41, 55),
    },
    **{"mlt_latn": (20, 19), "rum": (10, 10), "slv": (43, 49), "wel_sw": (16, 10)},
    **{"dut": (10.8, 14.7), "hun": (1.5, 1.8), "kor": (18.4, 16.3)},
}
# in the runs directory: a run's name and how long it was trained, a line for each session
SECONDS = "seconds.tsv"


@dataclass(frozen=True)
class Job:
    """One language with one seed."""

    folder: Path
    runs: Path
    size: str
    """low or medium"""
    language: str
    seed: int
    config_file: Path | None = None
    """of another recipe than `RECIPES`"""
    changed: tuple[str, ...] = ()
    """what differs from the recipe, as for --set"""

    @property
    def run(self) -> Run:
        return Run(self.runs / f"{self.language}-{self.seed}")

    def file(self, split: str) -> Path:
        """The file of a split; it may not exist."""
        together = self.folder / f"{self.size}_{self.language}_{split}.tsv"
        return (
            together
            if together.exists()
            else self.folder / self.size / f"{self.language}_{split}.tsv"
        )

    @property
    def config(self) -> Config:
        files = [f"task.{split}={self.file(split).resolve()}" for split in ("train", "dev")]
        return load_config(
            self.config_file or RECIPES[self.size][0], [*files, f"seed={self.seed}", *self.changed]
        )

    @property
    def is_trained(self) -> bool:
        """Raises `Seq2AttnError` for a run of another config."""
        if self.run.config_file.exists() and self.run.config != self.config:
            raise Seq2AttnError(
                f"{self.run.path} has another config", hint="Name another --runs-dir."
            )
        return self.run.status().state == "finished"

    def train(self) -> str:
        """Train it to the end, unless that is done. Returns a line about it."""
        if self.is_trained:
            return f"{self.run.name}: is trained"
        started = time.perf_counter()
        begun = self.run if self.run.checkpoint("last").exists() else None
        try:
            seq2attn.train(
                self.config, runs_dir=self.runs, name=None if begun else self.run.name, resume=begun
            )
        finally:  # Ctrl-C, which saves the run, is also the end of a session
            seconds = time.perf_counter() - started
            with (self.runs / SECONDS).open("a") as log:
                log.write(f"{self.run.name}\t{seconds:.1f}\n")
        error = 100 * (self.run.status().wer or 0)
        return f"{self.run.name}: dev WER {error:.1f} at the end, {seconds / 60:.1f} min"


def measure(jobs: list[Job], split: str, search: BeamSearch) -> dict[str, Any]:
    """A language's row: error rates in % of its runs on a file, alone and as an ensemble that
    averages probabilities.
    """

    def measured(members: list[Job]) -> Evaluation:
        trained = load_ensemble([job.run for job in members])
        trained = trained.searching(search if search.width > 1 else None)
        return trained.evaluate(data=jobs[0].file(split))

    def rates(evaluations: list[Evaluation], metric: str) -> list[float]:
        return [row.value for one in evaluations if (row := one.get(metric)) is not None]

    alone, together = [measured([job]) for job in jobs], measured(jobs)
    logged = [line.split("\t") for line in (jobs[0].runs / SECONDS).read_text().splitlines()]
    names = {job.run.name for job in jobs}
    row: dict[str, Any] = {"language": jobs[0].language, "split": split, "seeds": len(jobs)}
    for name in ("WER", "SER"):
        numbers, (ensemble,) = rates(alone, name.lower()), rates([together], name.lower())
        found = {"mean": statistics.fmean(numbers), "worst": max(numbers), "ensemble": ensemble}
        row |= {f"{name} {what}": round(100 * value, 1) for what, value in found.items()}
    known = BASELINE.get(jobs[0].language)
    row["baseline WER"] = "" if known is None else known[split == "test"]
    row["minutes"] = round(sum(float(seconds) for name, seconds in logged if name in names) / 60, 1)
    return row


def mean_row(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The mean over languages; minutes are added."""
    mean = {
        key: round(statistics.fmean(row[key] for row in rows), 2)
        for key in rows[0]
        if key[:3] in ("WER", "SER")
    }
    known = [row["baseline WER"] for row in rows if row["baseline WER"] != ""]
    ends = {
        "baseline WER": round(statistics.fmean(known), 2) if len(known) == len(rows) else "",
        "minutes": round(sum(row["minutes"] for row in rows), 1),
    }
    return {
        "language": "mean",
        "split": "",
        "seeds": min(row["seeds"] for row in rows),
        **mean,
        **ends,
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.g2p", description=__doc__)
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("--runs-dir", type=Path, default=Path("runs/g2p"), metavar="DIR")
    parser.add_argument("--size", choices=RECIPES, action="append", help="default: both")
    parser.add_argument(
        "--language", action="append", metavar="NAME", help="default: the 13 of the table"
    )
    parser.add_argument("--split", choices=("dev", "test"), default="test", help="default: test")
    parser.add_argument(
        "--beam",
        type=int,
        default=1,
        metavar="N",
        help="the beam's width; default: greedy decoding",
    )
    parser.add_argument(
        "--workers", type=int, default=1, metavar="N", help="trainings at the same time"
    )
    parser.add_argument("--seeds", type=int, metavar="N", help="default: 5 of low, 3 of medium")
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="default: configs/pairs/small.yaml or medium.yaml",
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="as for seq2attn train"
    )
    parser.add_argument(
        "--no-training", action="store_true", help="measure the runs that are there"
    )
    options = parser.parse_args()
    place = options.folder, options.runs_dir
    jobs = [
        Job(*place, size, language, seed, options.config, (*CHOSEN.get(language, ()), *options.set))
        for (size, (_, seeds)), languages in zip(RECIPES.items(), LANGUAGES, strict=True)
        for seed in range(1, (options.seeds or seeds) + 1)
        for language in languages
        if size in (options.size or RECIPES) and language in (options.language or languages)
    ]
    jobs = [
        job
        for job in jobs
        if all(job.file(split).exists() for split in ("train", "dev", options.split))
    ]
    if not jobs:
        parser.error(
            f"{options.folder}: expected files such as low_ice_train.tsv, low_ice_dev.tsv and "
            "low_ice_test.tsv"
        )
    options.runs_dir.mkdir(parents=True, exist_ok=True)
    by_language: dict[str, list[Job]] = {}
    try:
        search = BeamSearch(options.beam)
        if not options.no_training:
            train(jobs, options.workers)
        for job in jobs:
            if job.is_trained:
                by_language.setdefault(job.language, []).append(job)
    except Seq2AttnError as error:
        parser.error(str(error))
    rows = [measure(members, options.split, search) for members in by_language.values()]
    for languages in LANGUAGES:
        group = [row for row in rows if row["language"] in languages]
        rows += [mean_row(group)] if len(group) > 1 else []
    text = json.dumps({"machine": machine(), "rows": rows}, indent=1)
    write_atomically(options.runs_dir / "table.json", f"{text}\n".encode())
    print(table(rows))


def train(jobs: list[Job], workers: int) -> None:
    """Train all of them, `workers` at a time."""
    if workers == 1:
        for job in jobs:
            print(job.train(), flush=True)
        return
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        for line in pool.map(Job.train, jobs):
            print(line, flush=True)


if __name__ == "__main__":
    main()
