"""Trials of a comparison in the process of the test."""

from __future__ import annotations

from concurrent.futures import Executor, Future


class Inline(Executor):
    """Runs each call immediately in this process; the part of the Executor interface that is needed."""

    def __init__(self):
        self.shut = []

    def submit(self, call, /, *arguments, **keywords):
        future = Future()
        future.set_result(call(*arguments, **keywords))
        return future

    def shutdown(self, wait=True, *, cancel_futures=False):
        self.shut.append(cancel_futures)
