"""Files of pairs: what is read, what is refused and how, and what the task learns from them."""

import hashlib
import json
import os

import pytest
import torch

from seq2attn.data import pairs
from seq2attn.data.pairs import Format, read_pairs
from seq2attn.data.tasks.pairs import Pairs
from seq2attn.errors import Seq2AttnError

TRAIN = "ab\tx y\ncab\tz x y\nb\ty\n"


def written(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def refused(path, content, **options):
    with pytest.raises(Seq2AttnError) as caught:
        read_pairs(written(path, content), Format(**options))
    assert caught.value.exit_code == 2
    assert str(path) in caught.value.message
    return caught.value.message


def make(tmp_path, train=TRAIN, dev="ba\ty x\n", **options):
    files = {name: str(written(tmp_path / f"{name}.tsv", text)) for name, text in (("train", train), ("dev", dev))}
    return Pairs(**files, **{"target_separator": " ", **options})


# ---- reading ----


@pytest.mark.parametrize(
    "content", ["ab\tx y\nb\ty\n", "ab\tx y\nb\ty", "ab\tx y\r\nb\ty\r\n", "\ufeffab\tx y\nb\ty\n"], ids=ascii
)
def test_line_ends_and_byte_order_marks_are_understood(tmp_path, content):
    file = read_pairs(written(tmp_path / "a.tsv", content), Format())
    assert file.pairs == (("ab", "x y"), ("b", "y"))
    size, sha256 = len(content.encode()), hashlib.sha256(content.encode()).hexdigest()
    assert file.record == {"name": "a.tsv", "bytes": size, "pairs": 2, "sha256": sha256}


def test_columns_are_chosen_by_number(tmp_path):
    file = written(tmp_path / "a.tsv", "walked\tV;PST\twalk\tnote\n")
    chosen = Format(source_column=3, target_column=1, features_column=2, columns=4)
    assert read_pairs(file, chosen).pairs == (("walk\tV;PST", "walked"),)
    assert [Format(source_column=4).width, Format(features_column=3).width, Format().width] == [4, 3, 2]


def test_texts_are_normalised_unless_asked_not_to(tmp_path):
    file = written(tmp_path / "a.tsv", "e\u0301\tx\né\ty\n한\tz\n")
    read = {
        form: [source for source, _ in read_pairs(file, Format(normalise=form)).pairs]
        for form in ("nfc", "nfd", "none")
    }
    assert read["none"] == ["e\u0301", "é", "한"]
    assert read["nfc"] == ["é", "é", "한"]
    assert read["nfd"] == ["é", "é", "한"], "the vocabulary takes them apart"
    task = make(tmp_path, "é\té\n한\ty\n", "é\té\n", normalise="nfd", target_separator="")
    assert task.source_vocabulary.symbols == ("e", "\u0301", "\u1112", "\u1161", "\u11ab")  # h, a, n
    assert task.target_vocabulary.symbols == ("e", "y", "\u0301")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b"abc", "columns: found 1, expected 2"),
        (b"a\tb\tc", "columns: found 3, expected 2"),
        (b"", "columns: found 1, expected 2"),
        (b"\tb", "the source '' (column 1) is empty, or a part of it is"),
        (b"a\t ", "the target ' ' (column 2) is empty"),
        (b"a\tx\0y", "it contains '\\x00' (character 4)"),
        (b"a\tx\ry", "it contains '\\r' (character 4)"),
        ("é\tx".encode("latin-1"), "'utf-8' codec can't decode byte 0xe9 in position 0"),
        (b"a\tx  y", "the target 'x  y' (column 2) is empty, or a part of it is"),
        (b"a\t" + b"x" * 9_999, "it has 10,001 bytes; at most 10,000 are allowed"),
    ],
    ids=lambda value: ascii(value)[:30],
)
def test_a_malformed_line_is_named(tmp_path, line, says):
    longest = b"a\t" + b"x" * 9_998
    message = refused(tmp_path / "a.tsv", longest + b"\n" + line + b"\nc\td\n", target_separator=" ")
    assert "1 of 3 lines cannot be read\n  line 2: " + says in message
    assert len(message) < 400


def test_all_malformed_lines_are_reported_together(tmp_path):
    message = refused(tmp_path / "a.tsv", "a\tb\n" + "c\n" * 14).splitlines()
    assert message[0].endswith("14 of 15 lines cannot be read")
    assert [line.partition(":")[0] for line in message[1:11]] == [f"  line {number}" for number in range(2, 12)]
    assert message[11:] == ["  and 4 more"]
    assert "more" not in refused(tmp_path / "a.tsv", "c\n" * 10)
    assert "1 of 1 lines" in refused(tmp_path / "a.tsv", "")
    featured = refused(tmp_path / "a.tsv", "walk\twalked\tV;;PST\n", features_column=3)
    assert "the features 'V;;PST' (column 3) is empty, or a part of it is" in featured


def test_a_missing_file_a_directory_a_pipe_and_a_large_file_are_refused_and_not_waited_for(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "pipe")
    for name, says in (("", "not a regular file"), ("pipe", "not a regular file"), ("train.tsv", "no such file")):
        with pytest.raises(Seq2AttnError, match=says):
            read_pairs(tmp_path / name, Format())
    file = written(tmp_path / "a.tsv", "ab\tx\n")
    monkeypatch.setitem(pairs.LARGEST_FILE, "pairs", 5)
    assert len(read_pairs(file, Format()).pairs) == 1
    monkeypatch.setitem(pairs.LARGEST_FILE, "pairs", 4)
    with pytest.raises(Seq2AttnError, match="larger than 4 bytes"):
        read_pairs(file, Format())


# ---- the task ----


def test_vocabularies_and_lengths_are_those_of_the_training_file(tmp_path):
    task = make(tmp_path)
    assert (task.source_vocabulary.symbols, task.target_vocabulary.symbols) == (("a", "b", "c"), ("x", "y", "z"))
    assert (task.min_length, task.max_length) == (1, 3)
    assert [task.target_length(length) for length in (1, 3, 4, 6)] == [3, 3, 4, 6]
    assert task.training_set == (("ab", "x y"), ("cab", "z x y"), ("b", "y")) and task.dev_set == (("ba", "y x"),)
    split = make(tmp_path, "ab\tx yz\nb\tzyx\n", split_targets=True)
    assert split.target_vocabulary.symbols == ("x", "y", "z", "◌x", "◌y", "◌z")
    assert (split.target_length(2), split.target_vocabulary.encode("x yz")) == (3, [4, 5, 9])
    featured = make(tmp_path, "ab\tb\tV\nb\tb\tN;PL\n", "a\ta\tV\n", features_column=3, target_separator="")
    assert featured.source_vocabulary.features == ("N", "PL", "V")
    assert (featured.min_length, featured.max_length) == (3, 3), "features count as symbols of the source"


def test_a_task_is_rebuilt_from_what_it_learned_without_files(tmp_path):
    task = make(tmp_path, split_targets=True)
    learned = json.loads(json.dumps(task.learned()))
    again = Pairs(train="nowhere", dev="nowhere", target_separator=" ", split_targets=True, learned=learned)
    assert (again.learned(), again.training_set) == (task.learned(), None)
    for one, other in zip(*([t.source_vocabulary, t.target_vocabulary] for t in (task, again)), strict=True):
        assert vars(one) == vars(other)
    with pytest.raises(Seq2AttnError, match="no pair at hand has a source of any number of symbols"):
        again.examples(torch.Generator(), 1)
    damages = {"source": [None], "target": [[1]], "source_lengths": [[0, 1], [1], [1, 1, 1]], "files": [[]]}
    for key, values in {**damages, "longest_target": ["many", 0]}.items():
        for value in values:
            with pytest.raises(Seq2AttnError, match="is damaged"):
                Pairs(target_separator=" ", learned={**learned, key: value})


def test_examples_are_pairs_of_the_training_file(tmp_path):
    task = make(tmp_path)
    drawn = task.examples(torch.Generator().manual_seed(1), 20)
    rows = zip(drawn.source.tolist(), drawn.target.tolist(), strict=True)
    vocabularies = task.source_vocabulary, task.target_vocabulary
    texts = {tuple(v.decode([*filter(None, ids)]) for v, ids in zip(vocabularies, row, strict=True)) for row in rows}
    assert texts == set(task.training_set)
    assert task.examples(torch.Generator(), 4, length=3).source_lengths.tolist() == [3] * 4
    with pytest.raises(Seq2AttnError, match="no pair at hand has a source of 7 symbols"):
        task.examples(torch.Generator(), 1, length=7)


def test_notes_say_what_spoils_a_training(tmp_path):
    def notes(*files, **options):
        return " | ".join(make(tmp_path, *files, **options).notes)

    assert notes() == ""
    assert "warning: 1 of 2 dev pairs are also in the training file" in notes(TRAIN, "b\ty\na\tx\n")
    whole = "no target contains the separator ' ', so that each target is one symbol"
    assert whole in notes("ab\txy\n", "a\txy\n")
    assert notes("ab\txy\n", "a\tx\n", target_separator="") == ""
    for targets in ("x", "x y"):  # of one character, and separated
        assert notes(f"ab\t{targets}\n", "a\tx\n") == ""
