"""The vocabulary of fuzzed configs and command lines: mostly words that have a meaning."""

KEYS = [
    "seed", "task", "model", "training", "evaluation", "name", "alphabet", "min_length", "max_length", "attention",
    "score", "options", "mask_padding", "architecture", "embedding", "hidden", "bidirectional", "initial_state",
    "decoder", "source_eos", "steps", "batch_size", "word_dropout", "learning_rate", "weight_decay", "clip_norm",
    "schedule", "warmup", "log_every", "evaluate_every", "validation_samples", "target", "lengths", "samples",
    "hiden", "<<", "", "a.b", "__class__", "width", "initial_std", "encoder_reset",
]  # fmt: skip
VALUES = [
    "0", "1", "3", "-1", "1e3", "3e-3", ".inf", ".nan", "1_000", "0x10", "true", "no", "null", "~", "''", "abc", "aab",
    "reverse", "copy", "dot", "scaled", "additive", "none", "general", "zeros", "last", "bridge", "cosine", "1-12",
    "[3, 5]", "[]", "{}", "[[]]", "&a [1]", "*a", "!!python/name:os.system", "!!str 1", "2024-01-01", "999999999999",
    "9" * 400, "[3-1]", "'\\0'", '"\\u0000"', '"\\ud800"', "|", ">", "? a", "- a", "%YAML 1.1", "---", "...", "\t", "é",
]  # fmt: skip
COMMANDS = ["train", "eval", "predict", "runs", "inspect", "list", "check", "trian", "--help", "--version"]
WORDS = [
    *COMMANDS, "--config", "-c", "--set", "-s", "--name", "--resume", "--device", "--threads", "--plugin", "--runs-dir",
    "--lengths", "--samples", "--seed", "--json", "--plot", "--checkpoint", "--run", "-r", "--limit", "-n", "--", "-",
    "--help", "-h", "tiny", "tiny.yaml", "bad.yaml", "none.yaml", "../tiny", "runs/tiny", "/etc", ".", "..", "ab", "cab",
    "3", "0", "-1", "1-3", "3,5", "5-1", "best", "last", "cpu", "cuda", "gpu", "auto", "dot", "scores", "tasks",
    "training.steps=1", "seed=2", "seed=x", "model.hidden=4", "=", "a=b", "map.png", "map.gif", "no/map.png", "score.py",
    "bad.py", "--lengths=3", "--threads=2", "--json=1", "-c=", "--no-json", "--runs-dir=other", "",
]  # fmt: skip
