"""Files of pairs: what is read, what is refused and how, and what the task learns from them."""

import hashlib
import json
import os

import pytest
import torch

from seq2attn.data import pairs
from seq2attn.data.pairs import Format, read_pairs
from seq2attn.data.tasks.pairs import Pairs
from seq2attn.data.vocabulary import Vocabulary
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
    assert read_pairs(written(tmp_path / "a.tsv", content), Format()).pairs == (("ab", "x y"), ("b", "y"))


def test_columns_are_chosen_by_number(tmp_path):
    file = written(tmp_path / "a.tsv", "walked\tV;PST\twalk\tnote\n")
    chosen = Format(source_column=3, target_column=1, features_column=2, columns=4)
    assert read_pairs(file, chosen).pairs == (("walk\tV;PST", "walked"),)


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
        (b"abc", "found 1 column, expected 2 (source in column 1, target in column 2)"),
        (b"a\tb\tc", "found 3 columns, expected 2"),
        (b"", "it is empty"),
        (b"\tb", "the source (column 1) is empty"),
        (b"a\t ", "the target (column 2) is empty"),
        (b"a\tx\0y", "it contains '\\x00' (character 4)"),
        (b"a\tx\ry", "it contains '\\r' (character 4)"),
        ("é\tx".encode("latin-1"), "it is not UTF-8 text (byte 1 is 0xe9)"),
        (b"a\tx  y", "the target 'x  y' has an empty part; expected one ' ' between parts"),
        (b"a\t" + b"x" * 10_000_000, "it has 10,000,002 bytes; at most 10,000 are allowed"),
    ],
    ids=lambda value: ascii(value)[:30],
)
def test_a_malformed_line_is_named(tmp_path, line, says):
    message = refused(tmp_path / "a.tsv", b"a\tb\n" + line + b"\nc\td\n", target_separator=" ")
    assert "1 of 3 lines cannot be read\n  line 2: " + says in message
    assert len(message) < 400


def test_all_malformed_lines_are_reported_together(tmp_path):
    message = refused(tmp_path / "a.tsv", "a\tb\n" + "c\n" * 14).splitlines()
    assert message[0].endswith("14 of 15 lines cannot be read")
    assert [line.partition(":")[0] for line in message[1:11]] == [f"  line {number}" for number in range(2, 12)]
    assert message[11:] == ["  and 4 more"]


def test_features_need_a_name_each(tmp_path):
    message = refused(tmp_path / "a.tsv", "walk\twalked\tV;;PST\n", features_column=3)
    assert "the features 'V;;PST' has an empty part; expected one ';' between parts" in message


@pytest.mark.parametrize("content", ["", "\ufeff"])
def test_an_empty_file_is_refused(tmp_path, content):
    assert "the file is empty" in refused(tmp_path / "a.tsv", content)


def test_a_missing_file_a_directory_and_a_pipe_are_refused_and_not_waited_for(tmp_path):
    written(tmp_path / "train.tsv", TRAIN)
    os.mkfifo(tmp_path / "pipe")
    for name, says in (("", "a directory, not a file of pairs"), ("pipe", "not a regular file")):
        with pytest.raises(Seq2AttnError, match=says):
            read_pairs(tmp_path / name, Format())
    with pytest.raises(Seq2AttnError, match="no such file") as missing:
        read_pairs(tmp_path / "trian.tsv", Format())
    assert missing.value.hint == f"Did you mean {tmp_path / 'train.tsv'}?"
    with pytest.raises(Seq2AttnError, match=r"Did you mean .*train\.tsv\? Name your own with --set task.train=FILE"):
        Pairs(train=str(tmp_path / "trian.tsv"), dev=str(tmp_path / "train.tsv"))


def test_a_file_of_the_largest_size_is_read_and_a_larger_one_refused(tmp_path, monkeypatch):
    file = written(tmp_path / "a.tsv", "ab\tx\n")
    monkeypatch.setitem(pairs.LARGEST_FILE, "pairs", 5)
    assert len(read_pairs(file, Format()).pairs) == 1
    monkeypatch.setitem(pairs.LARGEST_FILE, "pairs", 4)
    with pytest.raises(Seq2AttnError, match="larger than 4 bytes"):
        read_pairs(file, Format())


def test_the_record_of_a_file_is_that_of_its_bytes(tmp_path):
    record = read_pairs(written(tmp_path / "a.tsv", "a\tb\n"), Format()).record
    assert record == {"name": "a.tsv", "bytes": 4, "pairs": 1, "sha256": hashlib.sha256(b"a\tb\n").hexdigest()}


# ---- vocabularies ----


def test_symbols_of_several_characters():
    vocabulary = Vocabulary(["a", "t͡ʃ"], separator=" ", unknown=True)
    assert (vocabulary.encode("t͡ʃ a b"), vocabulary.symbols_of("t͡ʃ a b")) == ([5, 4, 3], ("t͡ʃ", "a", "b"))
    assert (vocabulary.unseen("t͡ʃ a b b"), vocabulary.decode([5, 4, 3])) == (["b"], "t͡ʃ a <unk>")
    assert len(vocabulary) == 6


def test_split_symbols_are_characters_and_are_put_together_again():
    vocabulary = Vocabulary(["a", "t", "◌͡", "◌ʃ"], separator=" ", unknown=True, split=True)
    assert vocabulary.symbols_of("t͡ʃ at") == ("t", "◌͡", "◌ʃ", "a", "◌t")
    assert vocabulary.unseen("t͡ʃ at") == ["◌t"]
    assert vocabulary.encode("t͡ʃ at") == [5, 6, 7, 4, 3]
    assert vocabulary.decode([5, 6, 7, 4, 5]) == "t͡ʃ a t"
    assert vocabulary.joined(["t", "◌͡", "◌ʃ", "a", "<eos>"]) == ("t͡ʃ", "a", "<eos>")
    assert vocabulary.joined(["◌ʃ", "◌͡"]) == ("◌ʃ͡",), "the first has nothing to continue"
    for form in ("nfc", "nfd", "none"):
        accents = Vocabulary(["e", "é", "◌\u0301"], separator=" ", split=True, normalise=form)
        assert accents.symbols_of("é e") == (("é", "e") if form == "none" else ("e", "◌\u0301", "e"))
        assert accents.decode(accents.encode("é e")) == "é e"
    apart = Vocabulary(["c", "e", "\u0301"], normalise="nfd")
    assert apart.joined([*apart.symbols_of("éc"), "\u0301", "<eos>"]) == ("é", "ć", "<eos>"), "letters are counted"
    assert apart.joined(["\u0301", "<eos>", "\u0301"]) == ("\u0301", "<eos>", "\u0301")
    alone = Vocabulary("◌t", separator=" ", split=True)
    assert alone.decode(alone.encode("◌ t")) == "◌ t", "a dotted circle of its own is one character"
    with pytest.raises(Seq2AttnError, match="there is an empty one"):
        vocabulary.encode("t  a")


def test_features_follow_the_word_and_are_not_its_letters():
    vocabulary = Vocabulary("VW", unknown=True, features=["PST", "V"])
    assert vocabulary.encode("WV\tV;PST") == [5, 4, 7, 6] and vocabulary.decode([5, 4, 7, 6]) == "WV\tV;PST"
    assert (vocabulary.encode("W\tFUT"), vocabulary.unseen("x\tFUT;V")) == ([5, 3], ["FUT", "x"])


@pytest.mark.parametrize(
    ("vocabulary", "text", "says"),
    [
        (Vocabulary("ab", separator=" "), "a  b", "there is an empty one"),
        (Vocabulary("ab", unknown=True, features=["V"]), "ab", "lacks features"),
        (Vocabulary("ab", unknown=True, features=["V"]), "ab\tV;", "lacks features, or has an empty one"),
        (Vocabulary("ab", unknown=True, features=["V"]), "\tV", "there is an empty one"),
        (Vocabulary("ab", unknown=True), "", "the string is empty"),
        (Vocabulary(["a", "bc"], separator=" "), "a b", "has symbols the model never saw: 'b'; its alphabet is a bc"),
    ],
)
def test_texts_that_are_not_series_of_symbols_are_refused(vocabulary, text, says):
    with pytest.raises(Seq2AttnError, match=says):
        vocabulary.encode(text)


def test_predictions_are_normalised_like_files():
    assert Vocabulary("é", unknown=True).encode("e\u0301") == [4]
    apart = Vocabulary("e\u0301", unknown=True, normalise="nfd")
    assert (apart.encode("é"), apart.decode([4, 5])) == ([4, 5], "é")
    assert (apart.check("e\u0301"), apart.symbols_of("é")) == ("é", ("e", "\u0301"))
    assert Vocabulary("é", unknown=True, normalise="none").encode("e\u0301") == [3, 3]


# ---- the task ----


def test_vocabularies_and_lengths_are_those_of_the_training_file(tmp_path):
    task = make(tmp_path)
    assert (task.source_vocabulary.symbols, task.target_vocabulary.symbols) == (("a", "b", "c"), ("x", "y", "z"))
    assert (task.min_length, task.max_length) == (1, 3)
    assert [task.target_length(length) for length in (1, 3, 4, 6)] == [3, 3, 4, 6]
    assert task.training_set == (("ab", "x y"), ("cab", "z x y"), ("b", "y")) and task.dev_set == (("ba", "y x"),)


def test_split_targets_have_characters_as_symbols(tmp_path):
    task = make(tmp_path, "ab\tx yz\nb\tzyx\n", split_targets=True)
    assert task.target_vocabulary.symbols == ("x", "y", "z", "◌x", "◌y", "◌z")
    assert (task.target_length(2), task.target_vocabulary.encode("x yz")) == (3, [4, 5, 9])


def test_features_count_as_symbols_of_the_source(tmp_path):
    task = make(tmp_path, "ab\tb\tV\nb\tb\tN;PL\n", "a\ta\tV\n", features_column=3, target_separator="")
    assert task.source_vocabulary.features == ("N", "PL", "V")
    assert (task.min_length, task.max_length) == (3, 3)


def test_a_task_is_rebuilt_from_what_it_learned_without_files(tmp_path):
    task = make(tmp_path, split_targets=True)
    learned = json.loads(json.dumps(task.learned()))
    again = Pairs(train="nowhere", dev="nowhere", target_separator=" ", split_targets=True, learned=learned)
    assert (again.learned(), again.training_set) == (task.learned(), None)
    for one, other in zip(*([t.source_vocabulary, t.target_vocabulary] for t in (task, again)), strict=True):
        assert vars(one) == vars(other)
    with pytest.raises(Seq2AttnError, match="a run keeps no pairs"):
        again.examples(torch.Generator(), 1)


def test_a_damaged_record_is_refused(tmp_path):
    learned = make(tmp_path).learned()
    damages = {"source": [None, ["a", "a"]], "target": [[1]], "features": [["V"]], "source_lengths": [[3, 1], [0, 1]]}
    damages |= {"longest_target": ["many", 0], "files": [{"train": {}}, []]}
    for key, values in damages.items():
        for value in values:
            with pytest.raises(Seq2AttnError, match="is damaged"):
                Pairs(target_separator=" ", learned={**learned, key: value})


def test_examples_are_pairs_of_the_training_file(tmp_path):
    task = make(tmp_path)
    drawn = task.examples(torch.Generator().manual_seed(1), 20)
    rows = zip(drawn.source.tolist(), drawn.target.tolist(), strict=True)
    decoded = {
        (task.source_vocabulary.decode(filter(None, s)), task.target_vocabulary.decode(filter(None, t)))
        for s, t in rows
    }
    assert decoded == set(task.training_set)
    assert task.examples(torch.Generator(), 4, length=3).source_lengths.tolist() == [3] * 4
    with pytest.raises(Seq2AttnError, match="no source in the training file has 7 symbols"):
        task.examples(torch.Generator(), 1, length=7)


def notes(tmp_path, *files, **options):
    return " | ".join(make(tmp_path, *files, **options).notes)


def test_notes_say_what_a_user_should_know(tmp_path):
    few = f"{tmp_path / 'train.tsv'}: 3 pairs are very few to learn from; expect wrong or empty answers"
    assert notes(tmp_path) == few
    assert notes(tmp_path, TRAIN + "".join(f"{count * chr(97)}\tx\n" for count in range(4, 101))) == ""
    assert "train.tsv: 1 line repeating an earlier one exactly" in notes(tmp_path, TRAIN + "b\ty\n")
    assert "1 source with more than one target" in notes(tmp_path, TRAIN + "b\tz\n")
    assert "have the same contents: dev figures will show memorisation" in notes(tmp_path, TRAIN, TRAIN)
    assert "dev.tsv: 1 of 2 pairs are also in the training file" in notes(tmp_path, TRAIN, "b\ty\na\tx\n")
    unseen = notes(tmp_path, TRAIN, "bd\ty\nda\tw x\n")
    assert "source symbols that the training file lacks: 'd'; read as <unk>" in unseen
    assert "target symbols that the training file lacks: 'w'; the model cannot write them" in unseen
    assert "set task.target_separator to ' '" in notes(tmp_path, "ab\tx y\n", "a\tx y\n", target_separator="")
    whole = "no target contains the separator ' ', so that each target is one symbol"
    assert whole in notes(tmp_path, "ab\txy\n", "a\txy\n", target_separator=" ")
    for targets in ("x", "x y"):  # of one character, and separated
        assert whole not in notes(tmp_path, f"ab\t{targets}\n", "a\tx\n", target_separator=" ")
