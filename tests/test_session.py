"""A training session: what is checked and built, in which order, and how often."""

from unittest import mock

import torch
from inline import contents
from models import make_config

from seq2attn.display.console import Display
from seq2attn.training.session import NewRun, train

CONFIG = make_config("""
model.hidden=8 model.embedding=4 task.max_length=2 training.steps=3 training.batch_size=4
training.evaluate_every=2 training.validation_samples=2 training.snapshots=0
""")


def calls(display):
    """What a display was told, but for the steps."""
    return [told for told in display.method_calls if told[0] != "step"]


def test_a_display_sees_the_start_and_every_evaluation(tmp_path):
    display = mock.create_autospec(Display, instance=True)
    again = mock.create_autospec(Display, instance=True)
    ended = train(CONFIG, NewRun(tmp_path, "a"), device="cpu", display=display)
    assert ended.step == 3
    assert ended.stopped_by is None
    *_, note, begin, second, third, end = calls(display)
    assert note == mock.call.say(f"training {tmp_path / 'a'} on cpu from step 0")
    assert begin == mock.call.begin("", 3, "step 0")
    assert end == mock.call.end("", mock.ANY)
    assert [one.args[0].partition(":")[0] for one in (second, third)] == ["step 2", "step 3"]
    before = contents(ended.run.path)
    assert train(CONFIG, ended.run, device="cpu", display=again) == ended
    assert contents(ended.run.path) == before
    note = mock.call.say(f"{tmp_path / 'a'} is finished: step 3 of 3")
    assert calls(again) == [note, mock.call.begin("", 3, "step 3"), mock.call.end("", mock.ANY)]


def test_a_resumed_run_keeps_its_number_of_threads(tmp_path):
    before = torch.get_num_threads()
    try:
        done = {"device": "cpu", "should_stop": lambda: True}  # before the first step
        run = train(CONFIG, NewRun(tmp_path, "a"), threads=2, **done).run
        torch.set_num_threads(1)
        train(CONFIG, run, **done)
        assert run.environment.threads == 2
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
