import pytest
import torch

from seq2attn.catalogue import TASKS
from seq2attn.data.vocabulary import Vocabulary

VOCABULARY = Vocabulary("abcdefghijklmnopqrstuvwxyz")


def solve(name, *texts, width=None, vocabulary=VOCABULARY):
    """Targets as text (padding as `.`) and alignments as lists."""
    width = width or max(map(len, texts))
    source = torch.tensor([vocabulary.encode(text) + [0] * (width - len(text)) for text in texts])
    lengths = torch.tensor(list(map(len, texts)))
    before = source.clone(), lengths.clone()
    target, alignment = TASKS.get(name).load()().solve(source, lengths)
    assert torch.equal(source, before[0]) and torch.equal(lengths, before[1])
    return [vocabulary.decode(row).replace("<pad>", ".") for row in target.tolist()], alignment.tolist()


@pytest.mark.parametrize(
    ("name", "source", "target", "alignment"),
    [
        ("reverse", "hello", "olleh", [4, 3, 2, 1, 0]),
        ("reverse", "a", "a", [0]),
        ("copy", "hello", "hello", [0, 1, 2, 3, 4]),
        ("copy", "a", "a", [0]),
        ("sort", "hello", "ehllo", [1, 0, 2, 3, 4]),
        ("sort", "banana", "aaabnn", [1, 3, 5, 0, 2, 4]),  # equal letters in their order: stable
        ("sort", "zyxz", "xyzz", [2, 1, 0, 3]),
        ("sort", "a", "a", [0]),
        ("duplicate", "abc", "abcabc", [0, 1, 2, 0, 1, 2]),
        ("duplicate", "a", "aa", [0, 0]),
    ],
)
def test_worked_examples(name, source, target, alignment):
    assert solve(name, source) == ([target], [alignment])


@pytest.mark.parametrize(
    ("name", "targets", "alignments"),
    [
        ("reverse", ["ba....", "abac..", "z....."], [[1, 0], [3, 2, 1, 0], [0]]),
        ("copy", ["ab....", "caba..", "z....."], [[0, 1], [0, 1, 2, 3], [0]]),
        ("sort", ["ab....", "aabc..", "z....."], [[0, 1], [1, 3, 2, 0], [0]]),
        (
            "duplicate",
            ["abab........", "cabacaba....", "zz.........."],
            [[0, 1, 0, 1], [0, 1, 2, 3, 0, 1, 2, 3], [0, 0]],
        ),
    ],
)
def test_mixed_lengths_are_padded_right_with_pad_and_minus_one(name, targets, alignments):
    width = len(targets[0])
    padded = [row + [-1] * (width - len(row)) for row in alignments]
    assert solve(name, "ab", "caba", "z", width=6) == (targets, padded)


@pytest.mark.parametrize("length", [1, 2, 7])
def test_duplicate_has_2n_targets_and_the_others_n(length):
    text = "gfedcba"[:length]
    widths = {name: len(solve(name, text)[0][0]) for name in TASKS.names()}
    assert widths == {name: length * (2 if name == "duplicate" else 1) for name in widths}


def test_sort_goes_by_the_alphabets_order():
    assert solve("sort", "abcab", vocabulary=Vocabulary("cba")) == (["cbbaa"], [[2, 1, 4, 0, 3]])


@pytest.mark.parametrize("name", TASKS.names())
def test_the_target_is_the_source_read_along_the_alignment(name):
    texts = ["queue", "x", "mississippi"]
    for text, target, alignment in zip(texts, *solve(name, *texts), strict=True):
        read = "".join(text[index] for index in alignment if index >= 0)
        assert read == target.rstrip(".")
        assert set(alignment) - {-1} == set(range(len(text)))
