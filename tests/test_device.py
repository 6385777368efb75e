"""A GPU: `on_device.py`, in a process of its own, since the simulated device stays."""

import pytest
import torch
from inline import ROOT, process
from torch.utils import backend_registration

DEVICES = {
    "simulated": hasattr(backend_registration, "_setup_privateuseone_for_python_backend"),
    "cuda": torch.cuda.is_available(),
}


@pytest.mark.parametrize("device", DEVICES)
def test_on_a_device(device):
    if not DEVICES[device]:
        pytest.skip("this machine, or its PyTorch, does not have it")
    done = process(ROOT, "-m pytest -p no:cacheprovider -x tests/on_device.py", DEVICE=device)
    assert done.code == 0, done.out
