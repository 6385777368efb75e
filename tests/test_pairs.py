"""Files of pairs: what is read, what is refused and how, and what the task learns from them."""

import hashlib
import json
import os
import re
import shlex
from dataclasses import replace

import pytest
import torch
from models import make_config
from refusal import refused

from seq2attn.build import build_model
from seq2attn.data import pairs
from seq2attn.data.pairs import Format, load_pairs
from seq2attn.data.tasks.pairs import Pairs
from seq2attn.data.vocabulary import SOS, UNK, Vocabulary
from seq2attn.errors import Seq2AttnError
from seq2attn.inference.changes import Changes
from seq2attn.inference.decoding import BeamSearch, Ensemble
from seq2attn.inference.evaluation import evaluate_pairs
from seq2attn.inference.predictor import Predictor

TRAIN = "ab\tx y\ncab\tz x y\nb\ty\n"


def written(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def unreadable(path, content, **options):
    with pytest.raises(Seq2AttnError) as caught:
        load_pairs(written(path, content), Format(**options))
    assert caught.value.exit_code == 2
    assert str(path) in caught.value.message
    return caught.value.message


def make(tmp_path, train=TRAIN, dev="ba\ty x\n", **options):
    files = {
        name: str(written(tmp_path / f"{name}.tsv", text))
        for name, text in (("train", train), ("dev", dev))
    }
    return Pairs(**files, **{"target_separator": " ", **options})


# ---- reading ----


@pytest.mark.parametrize(
    "content, encoding",
    [
        *((f"ab\tx y\nb\ty{end}", "utf-8") for end in ("", "\n", "\n\n", "\n \t\r\n")),
        ("ab\tx y\r\nb\ty\r\n", "utf-8"),
        ("\nab\tx y\n\n \t\nb\ty\n", "utf-8"),  # blank lines between paradigms
        ("ab\tx y\nb\ty\n", "utf-8-sig"),
        ("ab\tx y\r\nb\ty\r\n", "utf-16"),
    ],
    ids=ascii,
)
def test_line_ends_byte_order_marks_and_blank_lines_are_understood(tmp_path, content, encoding):
    content = content.encode(encoding)
    file = load_pairs(written(tmp_path / "a.tsv", content), Format())
    assert file.pairs == (("ab", "x y"), ("b", "y"))
    size = len(content)
    sha256 = hashlib.sha256(content).hexdigest()
    assert file.record == {"name": "a.tsv", "bytes": size, "pairs": 2, "sha256": sha256}


def test_columns_are_chosen_by_number(tmp_path):
    file = written(tmp_path / "a.tsv", "walked\tV;PST\twalk\tnote\n")
    chosen = Format(source_column=3, target_column=1, features_column=2, columns=4)
    assert load_pairs(file, chosen).pairs == (("walk\tV;PST", "walked"),)
    assert Format(source_column=4).width == 4
    assert Format(features_column=3).width == 3
    assert Format().width == 2


def test_comments_inside_lines_and_numbers_of_variants_are_left_out(tmp_path):
    dictionary = "about AH0 B\nabout(2) AH0 # US\n# x\n  # y\na#b B\n(3) TH\na(2)b B\n"
    file = written(tmp_path / "a.txt", dictionary)
    chosen = Format(delimiter=" ", comment="#", variants=True)
    sources = ("about", "about", "a#b", "(3)", "a(2)b")
    targets = ("AH0 B", "AH0", "B", "TH", "B")
    assert load_pairs(file, chosen).pairs == tuple(zip(sources, targets, strict=True))
    task = make(tmp_path, variants=True, comment="#")
    assert list(task.sources(["about(2)", "b(1)\tx", "# x", "a # x"])) == [
        (1, "about"),
        (2, "b"),
        (4, "a"),
    ]


def test_texts_are_normalised_unless_asked_not_to(tmp_path):
    file = written(tmp_path / "a.tsv", "e\u0301\tx\né\ty\n한\tz\n")
    read = {
        form: [one for one, _ in load_pairs(file, Format(normalise=form)).pairs]
        for form in ("nfc", "nfd", "none")
    }
    assert read["none"] == ["e\u0301", "é", "한"]
    assert read["nfc"] == ["é", "é", "한"]
    assert read["nfd"] == ["é", "é", "한"], "the vocabulary takes them apart"
    task = make(tmp_path, "é\té\n한\ty\n", "é\té\n", normalise="nfd", target_separator="")
    assert task.source_vocabulary.symbols == (
        "e",
        "\u0301",
        "\u1112",
        "\u1161",
        "\u11ab",
    )  # h, a, n
    assert task.target_vocabulary.symbols == ("e", "y", "\u0301")


@pytest.mark.parametrize(
    "line, says",
    [
        (b"abc", "columns: found 1, expected 2"),
        (b"a\tb\tc", "columns: found 3, expected 2"),
        (b"\tb", "the source (column 1) is empty, has an empty part, or a blank at an end: '\\tb'"),
        (b"a\t ", "the target (column 2) is empty"),
        (b"a\tx ", "the target (column 2) is empty, has an empty part, or a blank at an end"),
        (b"a\tx\0y", "it contains '\\u0000': 'a\\tx\\u0000y'"),
        (b"a\tx\ry", "it contains '\\r'"),
        ("é\tx".encode("latin-1"), "not UTF-8 text; save it as UTF-8: '\\udce9\\tx'"),
        (b"a\tx  y", "the target (column 2) is empty, has an empty part"),
        (b"a\t" + b"x" * 9_999, "more than 10,000 characters"),
    ],
    ids=lambda value: ascii(value)[:30],
)
def test_a_malformed_line_is_named(tmp_path, line, says):
    longest = b"a\t" + b"x" * 9_998
    message = unreadable(
        tmp_path / "a.tsv", longest + b"\n" + line + b"\nc\td\n", target_separator=" "
    )
    assert "1 of 3 lines cannot be read\n  line 2: " + says in message
    assert len(message) < 400


def test_all_malformed_lines_are_reported_together_and_equal_ones_once(tmp_path):
    message = unreadable(tmp_path / "a.tsv", "a\tb\n" + "c\n" * 14 + "\td\n").splitlines()
    assert message[0].endswith("15 of 16 lines cannot be read")
    assert message[1:] == [
        "  14 lines (2, 3, 4, 5, 6, 7, 8, 9, 10, 11, ...): columns: found 1, expected 2: 'c'",
        (
            "  line 16: the source (column 1) is empty, has an empty part, or a blank at an "
            "end: '\\td'"
        ),
    ]
    many = unreadable(
        tmp_path / "a.tsv", "\n".join("x\t" * count for count in range(2, 30))
    ).splitlines()
    assert len(many) == 12
    assert many[-1] == "  ..."
    assert "1 of 1 lines" in unreadable(tmp_path / "a.tsv", "")
    assert "line 1: no pair follows: 'a\\tb'" in unreadable(
        tmp_path / "a.tsv", "a\tb\n", header=True
    )
    featured = unreadable(tmp_path / "a.tsv", "walk\twalked\tV;;PST\n", features_column=3)
    assert "the features (column 3) is empty, has an empty part" in featured


ONE = ("ab", "x y")
TWO = ("b", "y")


@pytest.mark.parametrize(
    "content, options, pairs",
    [
        ("ab,x y\nb,y\n", {"delimiter": ","}, [ONE, TWO]),
        (
            '"word","ipa"\r\n"ab","x y"\r\n"b","y"\r\n',
            {"delimiter": ","},
            [("word", "ipa"), ONE, TWO],
        ),
        ('ab;"x ; ""y"\nb;y\n', {"delimiter": ";"}, [("ab", 'x ; "y'), TWO]),
        ("ab | x y\nb | y\n", {"delimiter": "|", "strip": True}, [ONE, TWO]),
        ("ab, x y\nb, y\n", {"delimiter": ",", "strip": True}, [ONE, TWO]),
        ("ab   x y\nb y\n", {"delimiter": " "}, [ONE, TWO]),
        (
            "sep=;\r\nab;x y;;\r\nb;y;;\r\n",
            {"delimiter": ";", "columns": 4, "comment": "sep="},
            [ONE, TWO],
        ),
        ("ab\tx y\t\nb\ty\t\n", {"columns": 3}, [ONE, TWO]),
        ("ab\tx y \nb\ty \n", {"strip": True}, [ONE, TWO]),
        ("# a list\n# of words\nab\tx y\nb\ty\n", {"comment": "#"}, [ONE, TWO]),
        ("ab\tx y\nb\ty\n" * 600 + "b\ty \n", {"strip": True}, [ONE, TWO] * 600 + [TWO]),
    ],
    ids=lambda value: ascii(value)[:30],
)
def test_a_refused_file_names_the_options_that_read_it(tmp_path, content, options, pairs):
    with pytest.raises(Seq2AttnError) as caught:
        load_pairs(written(tmp_path / "a.csv", content), Format(target_separator=" "))
    first, _, header = caught.value.hint.partition("\n")
    words = [
        word.partition("=")
        for word in shlex.split(first.partition(": train --set ")[2])
        if word != "--set"
    ]
    assert {key.removeprefix("task."): json.loads(value) for key, _, value in words} == options
    assert first.startswith(f"{len(pairs):,} of ")
    assert " -> ".join(map(repr, pairs[0])) in first
    first_is_bad = re.search(r"line 1:|lines \(1,", caught.value.message)
    assert header == ("If line 1 is a header: --set task.header=true" if first_is_bad else "")
    assert load_pairs(tmp_path / "a.csv", Format(target_separator=" ", **options)).pairs == tuple(
        pairs
    )


def test_a_file_that_no_options_read_gets_the_rules(tmp_path):
    for content in ("ab\n", "\n\n\n", '"ab\n', "#\n#\n"):
        with pytest.raises(Seq2AttnError) as caught:
            load_pairs(written(tmp_path / "a.csv", content), Format())
        assert caught.value.hint.startswith(
            "Save it as UTF-8, one pair a line, a tab between columns."
        )
    assert "unmatched quotation marks: '\"ab,x'" in unreadable(
        tmp_path / "a.csv", 'b,y\n"ab,x\n', delimiter=","
    )
    assert "it contains '\\t'" in unreadable(tmp_path / "a.csv", "b,y\na\tb,x\n", delimiter=",")
    commented = written(tmp_path / "a.csv", "# c\nword,ipa\nab,x\n")
    assert load_pairs(commented, Format(delimiter=",", header=True, comment="#")).pairs == (
        ("ab", "x"),
    )
    assert load_pairs(written(tmp_path / "a.tsv", '"ab"\t"\n'), Format()).pairs == (
        ('"ab"', '"'),
    ), "as it is"


def test_a_missing_file_a_directory_a_pipe_and_a_large_file_are_refused_and_not_waited_for(
    tmp_path, monkeypatch
):
    os.mkfifo(tmp_path / "pipe")
    for name, says in (
        ("", "not a regular file"),
        ("pipe", "not a regular file"),
        ("train.tsv", "no such file"),
    ):
        with refused(says):
            load_pairs(tmp_path / name, Format())
    file = written(tmp_path / "a.tsv", "ab\tx\n")
    monkeypatch.setattr(pairs, "MAX_BYTES", 5)
    assert len(load_pairs(file, Format()).pairs) == 1
    monkeypatch.setattr(pairs, "MAX_BYTES", 4)
    with refused("larger than 4 bytes"):
        load_pairs(file, Format())


# ---- the task ----


def test_vocabularies_and_lengths_are_those_of_the_training_file(tmp_path):
    task = make(tmp_path)
    assert task.source_vocabulary.symbols == ("a", "b", "c")
    assert task.target_vocabulary.symbols == ("x", "y", "z")
    assert task.min_length == 1
    assert task.max_length == 3
    assert [task.target_length(length) for length in (1, 3, 4, 6)] == [3, 3, 4, 6]
    assert task.training_set == (("ab", "x y"), ("cab", "z x y"), ("b", "y"))
    assert task.dev_set == (("ba", "y x"),)
    featured = make(
        tmp_path, "ab\tb\tV\nb\tb\tN;PL\n", "a\ta\tV\n", features_column=3, target_separator=""
    )
    assert featured.source_vocabulary.features == ("N", "PL", "V")
    assert featured.min_length == 3, "features count as symbols of the source"
    assert featured.max_length == 3


def test_a_task_is_rebuilt_from_what_it_learned_without_files(tmp_path):
    task = make(tmp_path)
    learned = json.loads(json.dumps(task.learned()))
    again = Pairs(train="nowhere", dev="nowhere", target_separator=" ", learned=learned)
    assert again.learned() == task.learned()
    assert again.training_set is None
    for one, other in zip(
        *([t.source_vocabulary, t.target_vocabulary] for t in (task, again)), strict=True
    ):
        assert vars(one) == vars(other)
    with refused("no pair at hand has a source of any number of symbols"):
        again.examples(torch.Generator(), 1)
    damages = {
        "source": [None],
        "target": [[1]],
        "source_lengths": [[0, 1], [1], [1, 1, 1]],
        "files": [[]],
    }
    for key, values in {**damages, "longest_target": ["many", 0]}.items():
        for value in values:
            with refused("is damaged"):
                Pairs(target_separator=" ", learned={**learned, key: value})


def test_examples_are_pairs_of_the_training_file(tmp_path):
    task = make(tmp_path)
    drawn = task.examples(torch.Generator().manual_seed(1), 20)
    rows = zip(drawn.source.tolist(), drawn.target.tolist(), strict=True)
    vocabularies = task.source_vocabulary, task.target_vocabulary
    texts = {
        tuple(v.decode([*filter(None, ids)]) for v, ids in zip(vocabularies, row, strict=True))
        for row in rows
    }
    assert texts == set(task.training_set)
    assert task.examples(torch.Generator(), 4, length=3).source_lengths.tolist() == [3] * 4
    with refused("no pair at hand has a source of 7 symbols"):
        task.examples(torch.Generator(), 1, length=7)


def test_notes_say_what_spoils_a_training(tmp_path):
    def notes(*files, **options):
        return " | ".join(make(tmp_path, *files, **options).notes)

    assert notes() == ""
    assert "warning: 1 of 2 dev pairs are also in the training file" in notes(TRAIN, "b\ty\na\tx\n")
    whole = "no target contains the separator ' ', so that each target is one symbol"
    assert whole in notes("ab\txy\n", "a\txy\n")
    assert notes("ab\txy\n", "b\tx\n", target_separator="") == ""
    for targets in ("x", "x y"):  # of one character, and separated
        assert notes(f"ab\t{targets}\n", "a\tx\n") == ""
    header = (
        "warning: line 1, 'word' -> 'ipa', is read as a pair; if it is a header, add "
        "--set task.header=true"
    )
    assert header in notes(f"word\tipa\n{TRAIN}", "word\tipa\na\tx\n")
    assert notes(f"word\tipa\n{TRAIN}", "word\tipa\na\tx\n", header=True) == ""
    assert "warning: a pair has 2,000 characters, the median 4; mem" in notes(
        TRAIN + "ab" * 1000 + "\tx\n"
    )
    assert "warning: all targets are in quotation marks" in notes('ab\t"x y"\n', 'a\t"x"\n')
    raw = notes("ab\tx y\nab(2)\tx # z\n(3)\tx\n", "a\tx\n")
    assert "1 of the sources end in a number in parentheses, as 'ab(2)'; if it counts" in raw
    assert "1 of the targets contain ' #', as 'x # z'; if a comment begins there, add --set " in raw
    unseen = notes(TRAIN, "bé\tx\na\tq y\nb\tq\n")
    assert "1 of 3 dev sources have symbols that the training file lacks: 'é' (U+00E9)" in unseen
    assert "2 of 3 dev targets have symbols that the training file lacks: 'q'" in unseen


def test_the_note_on_composed_letters_that_training_lacks_names_the_option(tmp_path):
    option = "; --set task.normalise=nfd reads and writes a character's parts"
    for form, separator, named in (("nfc", "", 1), ("nfc", " ", 0), ("nfd", "", 0)):
        task = make(
            tmp_path, "a\t\ud55c\n", "a\t\uae00\n", normalise=form, target_separator=separator
        )
        assert [note.count(option) for note in task.notes] == [named]
    assert option not in make(tmp_path, "a\tb\n", "q\tb\n").notes[-1]


def test_a_pointer_copies_what_the_target_has_and_shows_what_it_lacks(tmp_path):
    config = make_config("model.decoder=pointer model.attention.score=general")
    task = make(tmp_path, train="ab\tb x\n")
    cpu = torch.device("cpu")  # the source has a and b, the target b and x
    source = torch.tensor([task.source_vocabulary.encode("abé")])
    lengths = torch.tensor([3])
    for vocabulary in (Vocabulary("bx"), task.target_vocabulary):
        task.target_vocabulary = vocabulary
        model = build_model(config, task)
        for parameter in model.parameters():
            parameter.data.zero_()  # so that g is 1/2, and softmax and attention are uniform
        memory, state = model.encode(source, lengths)
        found = model.step(torch.tensor([SOS]), state, memory)[0].logits.exp().squeeze()
        copied = {"b": 1 / 6, "<unk>": 1 / 3} if vocabulary.unknown else {"b": 1 / 6}
        size = len(vocabulary)
        rest = (1 - sum(copied.values())) / size
        expected = [copied.get(vocabulary.tokens[index], 0) + rest for index in range(size)]
        torch.testing.assert_close(found, torch.tensor(expected))
    searching = Predictor(Ensemble([model, model]), task, False, cpu, BeamSearch(2))
    (one,) = searching.predict(["abé"])
    assert one.output.startswith("a a")
    assert one.weights is None
    assert one.hypotheses[0].output == one.output
    (one,) = replace(searching, search=None, changes=Changes(force={(0, 2): 0.5})).predict(["abé"])
    assert one.output_symbols[:2] == ("é", "a")
    (one,) = replace(searching, search=None, changes=Changes(force={(0, 0): 0.5})).predict(["xa"])
    assert one.output_symbols[0] == "x"  # which the source's vocabulary lacks, not the target's
    greedy = replace(searching, search=None)
    (answer,) = evaluate_pairs(greedy, [("é", "é")]).answers
    assert set(answer.answer.split()) == {"é"}
    model.decoder.output.bias.data[UNK] = 50.0
    model.decoder.generate.bias.data[0] = 50.0  # `<unk>` has almost all probability
    sources = ["é", "b", "ab", "bb"]
    for pointer in (greedy, searching):
        written = [set(one.output.split()) for one in pointer.predict(sources)]
        assert written[0] == {"é"}
        assert written[2] == {"a"}
        assert not any("<unk>" in symbols for symbols in written)


def test_ids_decide_where_a_symbol_of_the_file_is_called_like_a_special_one(tmp_path):
    config = make_config("model.decoder=pointer model.attention.score=general")
    task = make(tmp_path, train="dab\tb <unk>\nb\tb <eos>\n")
    assert task.target_vocabulary.tokens[2:] == ("<eos>", "<unk>", "<eos>", "<unk>", "b")
    note = (
        "note: the targets contain <eos>, <unk>, read as a symbol of the file, beside the "
        "model's own of that name"
    )
    assert note in task.notes
    model = build_model(config, task)
    for parameter in model.parameters():
        parameter.data.zero_()
    model.decoder.output.bias.data[5] = 50.0  # the file's `<unk>`
    model.decoder.generate.bias.data[0] = 50.0
    predictor = Predictor(model, task, False, torch.device("cpu"))
    (one,) = predictor.predict(["dab"])
    assert set(one.output.split()) == {"<unk>"}
    assert set(one.output_ids) == {5}
    (one,) = replace(predictor, changes=Changes(write={0: 4, 1: 3, 2: 2})).predict(["dab"])
    assert one.output == "<eos> d"
    with refused("the targets have a symbol called like the model's own"):
        next(replace(predictor, changes=Changes(write={0: "<eos>"})).predict(["dab"]))


def test_inspect_shows_the_first_of_many_symbols(cli, tmp_path):
    symbols = [chr(0x4E00 + index) for index in range(300)]
    lines = "".join(f"{symbol}\t{symbol}\n" for symbol in symbols)
    (tmp_path / "many.tsv").write_text(lines)
    (tmp_path / "many.yaml").write_text("task: {name: pairs, train: many.tsv, dev: many.tsv}\n")
    shown = [
        line
        for line in cli("inspect many.yaml").out.splitlines()
        if line.startswith(("# source:", "# target:"))
    ]
    assert len(shown) == 2
    assert all(line.endswith('"] and 100 more (--json has them)') for line in shown)
    assert len(cli("inspect many.yaml --json").json["task"]["source"]) == 300
