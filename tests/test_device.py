"""A GPU, simulated: `on_simulated_device.py`, in a process of its own, since the device stays."""

import subprocess
import sys

import pytest
from inline import ROOT
from torch.utils import backend_registration


@pytest.mark.skipif(
    not hasattr(backend_registration, "_setup_privateuseone_for_python_backend"),
    reason="this PyTorch has no slot for a device in Python",
)
def test_on_a_simulated_device():
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-x"]
    done = subprocess.run(
        [*command, "tests/on_simulated_device.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
