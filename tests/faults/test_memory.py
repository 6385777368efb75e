"""Too large a batch, width or length for this machine: one sentence, and no run or file that is half written."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (6 * 2**30, 6 * 2**30))
from seq2attn.cli import main
sys.argv = ["seq2attn", *sys.argv[1:]]
main()
"""


@pytest.mark.slow
def test_running_out_of_memory_is_reported_in_one_sentence(work):
    words = ["train", "-c", "tiny.yaml", "--set", "training.batch_size=1000000", "--set", "model.hidden=128"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, *words], cwd=work, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode in (1, 2)
    assert "error: out of memory: " in done.stderr
    assert "Make model.hidden, training.batch_size or the strings smaller" in done.stderr
    assert "Traceback" not in done.stderr
