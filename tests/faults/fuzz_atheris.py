"""Coverage-guided fuzzing of configs and of the checkpoint reader. Needs `pip install atheris`; not part of the tests.

    python tests/faults/fuzz_atheris.py config -runs=100000
    python tests/faults/fuzz_atheris.py checkpoint -runs=100000

Any exception but `Seq2AttnError` stops it, and so does an input that takes longer than 20 seconds.
"""

import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["seq2attn", "yaml"]):
    from grammar import KEYS, VALUES

    from seq2attn.config import check_config, load_config
    from seq2attn.errors import Seq2AttnError
    from seq2attn.runs.checkpoint import load_checkpoint, load_weights, save_checkpoint

FOLDER = Path(tempfile.mkdtemp())


def config_text(data):
    """Half of the inputs as they are, half as lines of keys and values."""
    provider = atheris.FuzzedDataProvider(data)
    if provider.ConsumeBool():
        return provider.ConsumeBytes(10_000)
    lines = []
    while provider.remaining_bytes() and len(lines) < 30:
        key = KEYS[provider.ConsumeIntInRange(0, len(KEYS) - 1)]
        value = VALUES[provider.ConsumeIntInRange(0, len(VALUES) - 1)]
        if provider.ConsumeBool():
            value = provider.ConsumeUnicode(12)
        lines.append(f"{'  ' * provider.ConsumeIntInRange(0, 3)}{key}: {value}")
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def try_config(data):
    path = FOLDER / "any.yaml"
    path.write_bytes(config_text(data))
    try:
        load_config(path)
    except Seq2AttnError:
        pass


def checkpoint_reader():
    from seq2attn.build import build_model

    model = build_model(check_config({"model": {"hidden": 2, "embedding": 2}, "task": {"alphabet": "ab"}}))
    path = FOLDER / "any.safetensors"
    save_checkpoint(path, {f"model.{name}": tensor for name, tensor in model.state_dict().items()}, {"step": 1})
    whole = path.read_bytes()

    def try_checkpoint(data):
        """The whole file with some bytes replaced, or the input itself."""
        provider = atheris.FuzzedDataProvider(data)
        changed = bytearray(whole if provider.ConsumeBool() else provider.ConsumeBytes(2_000))
        while provider.remaining_bytes() and changed:
            changed[provider.ConsumeIntInRange(0, len(changed) - 1)] = provider.ConsumeIntInRange(0, 255)
        path.write_bytes(changed)
        try:
            load_weights(path, load_checkpoint(path), model)
        except Seq2AttnError:
            return
        assert bytes(changed) == whole, "a damaged checkpoint was accepted"

    return try_checkpoint


if __name__ == "__main__":
    what = sys.argv.pop(1)
    target = try_config if what == "config" else checkpoint_reader()
    atheris.Setup([*sys.argv, "-timeout=20"], target)
    atheris.Fuzz()
