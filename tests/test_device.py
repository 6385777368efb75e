"""A GPU: `on_device.py`, in a process of its own, since the simulated device stays."""

import os
import subprocess
import sys

import pytest
import torch
from inline import ROOT
from torch.utils import backend_registration

DEVICES = {
    "simulated": hasattr(backend_registration, "_setup_privateuseone_for_python_backend"),
    "cuda": torch.cuda.is_available(),
}


@pytest.mark.parametrize("device", DEVICES)
def test_on_a_device(device):
    if not DEVICES[device]:
        pytest.skip("this machine, or its PyTorch, does not have it")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-x"]
    done = subprocess.run(
        [*command, "tests/on_device.py"],
        cwd=ROOT,
        env={**os.environ, "DEVICE": device},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
