"""Same seed, same machine, same bytes, on several threads too."""

from outcomes import same_outcome

from seq2attn.runs.run import Run

WIDE = ("--set", "model.hidden=64", "--set", "training.batch_size=256", "--set", "training.steps=8")


def test_training_is_deterministic_with_threads(server, work):
    runs = []
    for name in ("one", "two"):
        status, _, err = server.call(work, "train", "-c", "tiny.yaml", "--name", name, *WIDE, "--threads", "2")
        assert status == 0, err
        runs.append(Run(work / "runs" / name))
        assert runs[-1].environment().threads == 2
    same_outcome(*runs)
