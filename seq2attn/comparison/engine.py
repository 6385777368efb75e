"""What a comparison needs of the place where its trials run: a standard Executor, and a little more."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any

from seq2attn.comparison.trial import Job, Outcome
from seq2attn.errors import Seq2AttnError
from seq2attn.runs.machine import available_cores
from seq2attn.runs.records import steps_done

Bundle = tuple[Job, ...]
"""The jobs of one call: one, or those that are trained together"""
RunBundle = Callable[[Bundle], Sequence[Outcome]]


class EngineLost(Seq2AttnError):
    """The place where the trials run cannot be reached any more."""


class Engine(Executor):
    """An Executor for trials. Its workers are processes that run one call at a time.

    `shutdown(cancel_futures=True)` also makes running trials save and stop, where the Executor has a way to tell them.
    """

    def steps(self, job: Job) -> int:
        """How many steps of the job, which is running, are done."""
        return steps_done(job.run)

    def capacity(self) -> int:
        """How many calls can run at a time now."""
        return available_cores()

    def check(self) -> None:
        """Raise `EngineLost` if no result can be expected any more."""


class AnyExecutor(Engine):
    """Any standard Executor, such as ProcessPoolExecutor, loky's or Dask's `client.get_executor()`.

    Its workers are processes that see the runs directory. After a stop request, running trials are waited for.
    """

    def __init__(self, executor: Executor) -> None:
        if isinstance(executor, ThreadPoolExecutor):
            raise Seq2AttnError(
                "trials cannot run in the threads of one process: they share torch's random generator and its number of "
                f"threads, so that results would depend on chance; found {type(executor).__name__}",
                hint="Use processes: ProcessPoolExecutor, loky, or Dask workers of one thread each.",
            )
        self.executor = executor

    def submit(self, call: Callable[..., Any], /, *arguments: Any, **keywords: Any) -> Future[Any]:
        return self.executor.submit(call, *arguments, **keywords)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        known = inspect.signature(self.executor.shutdown).parameters
        options = {"cancel_futures": cancel_futures} if "cancel_futures" in known else {}  # loky and Dask have none
        self.executor.shutdown(wait=wait, **options)


def engine_of(executor: Executor) -> Engine:
    """The engine of any Executor. Raises `Seq2AttnError` for one whose workers are threads."""
    return executor if isinstance(executor, Engine) else AnyExecutor(executor)
