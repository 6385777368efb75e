"""Asks an attention for all that it can return."""

import contextlib
import inspect
from dataclasses import replace

import torch

from seq2attn.doctor.names import WORDS, function_of, words
from seq2attn.doctor.subject import Subject, observed

ASKS = {*WORDS["flags"]["asks"].split()}


def with_all(subject: Subject) -> Subject:
    """Return a subject that is asked for all it can return, such as weights if there is an argument
    `need_weights=False`, or a cache. It is left as it was if that changes its output.
    """
    given = dict(subject.call.given)
    for name, argument in inspect.signature(function_of(subject.call.attention)).parameters.items():
        if argument.default is False and words(name) & ASKS:
            given[name] = "True"
    if given != subject.call.given:
        with contextlib.suppress(Exception):
            asked = observed(replace(subject, call=replace(subject.call, given=given)))
            if torch.equal(asked.raw(subject.given)[0][0], subject.raw(subject.given)[0][0]):
                return asked
    return subject
