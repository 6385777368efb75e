"""Tracing some training steps, for `seq2attn train --profile`."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from seq2attn.runs.files import write_atomically

WARM_UP, TRACED = 10, 20  # steps


@contextmanager
def profiled_steps(file: Path | None) -> Iterator[Callable[[], None]]:
    """Yield a function to call after each step: steps 11 to 30 are traced into `file`, which Chrome and Perfetto can open.

    If `file` is None or training ends before step 11, nothing is traced.
    """
    if file is None:
        yield lambda: None
        return

    def write(profiler: torch.profiler.profile) -> None:
        if profiler.step_num <= WARM_UP:  # no step was traced yet
            return
        with tempfile.TemporaryDirectory() as folder:
            trace = Path(folder) / file.name  # torch compresses files named .gz
            profiler.export_chrome_trace(str(trace))
            write_atomically(file, trace.read_bytes())

    activities = [torch.profiler.ProfilerActivity.CPU]
    if torch.cuda.is_available():
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    schedule = torch.profiler.schedule(skip_first=WARM_UP - 1, wait=0, warmup=1, active=TRACED, repeat=1)
    with torch.profiler.profile(
        activities=activities, schedule=schedule, record_shapes=True, on_trace_ready=write
    ) as profiler:
        yield profiler.step
