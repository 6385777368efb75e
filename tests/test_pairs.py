"""Files of pairs: what is read, what is refused and how, and what the task learns from them."""

import hashlib
import json
import os
import re
from dataclasses import replace

import torch
from inline import write
from models import assert_close, make_config, predictor_of
from refusal import refusal, refused
from tables import table
from test_attention_changes import changed
from test_tasks import drawn

from seq2attn.build import build_model
from seq2attn.data.format import Format
from seq2attn.data.pairs import load_pairs
from seq2attn.data.tasks.pairs import Pairs
from seq2attn.data.vocabulary import SOS, UNK, Vocabulary
from seq2attn.inference.decoding import BeamSearch, Ensemble
from seq2attn.inference.evaluation import evaluate_pairs

TRAIN = "ab\tx y\ncab\tz x y\nb\ty\n"


def written(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def unreadable(folder, content, **options):
    path = written(folder / "a.tsv", content)
    message = refusal(load_pairs, path, Format(**options)).message
    assert str(path) in message
    return message


def make(tmp_path, train=TRAIN, dev="ba\ty x\n", **options):
    files = {
        name: str(written(tmp_path / f"{name}.tsv", text))
        for name, text in (("train", train), ("dev", dev))
    }
    return Pairs(**files, **{"target_separator": " ", **options})


# ---- reading ----


@table(
    "content, encoding",
    r"""
"ab\tx y\nb\ty" | utf-8
"ab\tx y\nb\ty\n" | utf-8
"ab\tx y\nb\ty\n\n" | utf-8
"ab\tx y\nb\ty\n \t\r\n" | utf-8
"ab\tx y\r\nb\ty\r\n" | utf-8
"\nab\tx y\n\n \t\nb\ty\n" | utf-8  # blank lines between paradigms
"ab\tx y\nb\ty\n" | utf-8-sig
"ab\tx y\r\nb\ty\r\n" | utf-16
""",
    "content",
)
def test_line_ends_byte_order_marks_and_blank_lines_are_understood(tmp_path, content, encoding):
    content = content.encode(encoding)
    file = load_pairs(written(tmp_path / "a.tsv", content), Format())
    assert file.pairs == (("ab", "x y"), ("b", "y"))
    size = len(content)
    sha256 = hashlib.sha256(content).hexdigest()
    assert file.record == {
        "name": "a.tsv", "bytes": size, "pairs": 2, "left_out": 0, "sha256": sha256,
    }  # fmt: skip


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


@table(
    "content, options, pairs",
    r"""
"a\t/x/, /y z/, /x/\n" | {target_alternatives: ', ', target_quotes: /} | [[a, x], [a, y z]]
"a\t[x]~[ y ]\n" | {target_alternatives: '~', target_quotes: '[]'} | [[a, x], [a, y]]
" a \tx \n" | {} | [[a, x]]
"a\tx, y,x\n" | {target_alternatives: ','} | [[a, x], [a, y]]  # x is one answer
"a\t/x/, / x /\n" | {target_alternatives: ',', target_quotes: /} | [[a, x]]
"walk\tx\tV; PST\n" | {features_column: 3} | [["walk\tV;PST", x]]
"w\tx\tV|PST\n" | {features_column: 3} | [["w\tV;PST", x]]
"IPA\tno\tword\nx\t1\ta\n" | {source_column: word, target_column: IPA} | [[a, x]]
"no,word,ipa,note\n1,a,x,\n" | {delimiter: ',', source_column: word, target_column: 3} | [[a, x]]
"a,b,c\na,x,1\n" | {delimiter: ',', header: true} | [[a, x]]  # three columns, as named
"a,\"x\n" | {delimiter: ',', quotation: false} | [[a, '"x']]
"\"a\"\t\"\n" | {} | [['"a"', '"']]
"# c\nword,ipa\na,x\n" | {delimiter: ',', header: true, comment: '#'} | [[a, x]]
"walked\tV;PST\twalk\tnote\n"
  | {source_column: 3, target_column: 1, features_column: 2, columns: 4}
  | [["walk\tV;PST", walked]]
"\"a\"\t\"x y\"\n" | {quotation: true} | [[a, x y]]
"a\tx\nb\n\ufeffc\tz\nd\ty\ufeffz\n" | {skip_bad: 2} | [[a, x], [c, z]]  # joined files
""",
    "content options pairs",
)
def test_a_cell_may_hold_more_than_a_value(tmp_path, content, options, pairs):
    file = load_pairs(written(tmp_path / "a.tsv", content), Format(**options))
    assert [*map(list, file.pairs)] == pairs


@table(
    "content, options, says",
    r"""
"a\tx\n" | {target_quotes: /} | "line 1: an answer is not between / and /: 'a\\tx'"
"a\t/x/, y\n" | {target_alternatives: ',', target_quotes: /} | not between / and /
"a\tx,\n" | {target_alternatives: ','} | "line 1: the target (column 2) is empty"
"a\ty\ufeffz\n" | {} | "line 1: it contains '\\ufeff'"
"WORD\tIPA\na\tx\n" | {source_column: word}
  | "task.source_column: 'word' names 0 columns; the header has 'WORD', 'IPA'"
"x\tx\na\tx\n" | {target_column: x} | "'x' names 2 columns; the header has"
"a\tx\nb\nc\n" | {skip_bad: 1} | "2 of 3 lines cannot be read\n  2 lines (2, 3): columns"
"x\ty\na\tx\n" | {source_column: y} | "one column is used twice: source, target"
"b\nc\n" | {skip_bad: 2} | 2 of 2 lines cannot be read
"b,y\n\"ab,x\n" | {delimiter: ','} | "unmatched quotation marks: '\"ab,x'"
"b,y\na\tb,x\n" | {delimiter: ','} | "it contains '\\t'"
"\"a\"\t\"x\ty\"\n" | {quotation: true} | "it contains '\\t'"
""",
    "content options says",
)
def test_what_a_cell_may_not_hold(tmp_path, content, options, says):
    assert says in unreadable(tmp_path, content, **options)


def test_texts_are_normalised(tmp_path):
    file = written(tmp_path / "a.tsv", "e\u0301\tx\né\ty\n한\tz\n")
    read = {
        form: [one for one, _ in load_pairs(file, Format(normalise=form)).pairs]
        for form in ("nfc", "nfd")
    }
    assert read["nfc"] == ["é", "é", "한"]
    assert read["nfd"] == ["é", "é", "한"], "the vocabulary takes them apart"
    task = make(tmp_path, "é\té\n한\ty\n", "é\té\n", normalise="nfd", target_separator="")
    assert task.source_vocabulary.symbols == tuple("e\u0301\u1112\u1161\u11ab")  # h, a, n
    assert task.target_vocabulary.symbols == tuple("ey\u0301")


@table(
    "line, says",
    r"""
abc | columns: found 1, expected 2
"a\tb\tc" | columns: found 3, expected 2
"\tb" | the source (column 1) is empty, or has an empty part: '\tb'
"a\t " | the target (column 2) is empty
"a\tx\0y" | it contains '\x00': 'a\tx\x00y'
"a\tx\ry" | it contains '\r'
"\xE9\tx" | not UTF-8 text; save it as UTF-8: '\udce9\tx'
"a\tx  y" | the target (column 2) is empty, or has an empty part
""",
    "line",
)
def test_a_malformed_line_is_named(tmp_path, line, says):
    longest = b"a\t" + b"x" * 9_998
    message = unreadable(
        tmp_path, longest + b"\n" + line.encode("latin-1") + b"\nc\td\n", target_separator=" "
    )
    assert "1 of 3 lines cannot be read\n  line 2: " + says in message
    assert len(message) < 400


def test_all_malformed_lines_are_reported_together_and_equal_ones_once(tmp_path):
    message = unreadable(tmp_path, "a\tb\n" + "c\n" * 14 + "\td\n").splitlines()
    assert message[0].endswith("15 of 16 lines cannot be read")
    assert message[1:] == [
        "  14 lines (2, 3, 4, 5, 6, 7, 8, 9, 10, 11, ...): columns: found 1, expected 2: 'c'",
        "  line 16: the source (column 1) is empty, or has an empty part: '\\td'",
    ]
    many = unreadable(tmp_path, "\n".join("x\t" * count for count in range(2, 30))).splitlines()
    assert len(many) == 12
    assert many[-1] == "  ..."
    assert "1 of 1 lines" in unreadable(tmp_path, "")
    assert "line 1: no pair follows: 'a\\tb'" in unreadable(tmp_path, "a\tb\n", header=True)
    featured = unreadable(tmp_path, "walk\twalked\tV;;PST\n", features_column=3)
    assert "the features (column 3) is empty, or has an empty part" in featured


def test_a_missing_file_a_directory_a_pipe_and_a_large_file_are_refused_and_not_waited_for(
    tmp_path, monkeypatch
):
    os.mkfifo(tmp_path / "pipe")
    for name, says in (
        ("", "Is a directory"),
        ("pipe", "not a plain file"),
        ("train.tsv", "No such file"),
    ):
        with refused(says):
            load_pairs(tmp_path / name, Format())
    file = written(tmp_path / "a.tsv", "ab\tx\n")
    monkeypatch.setattr("seq2attn.data.pairs.MAX_BYTES", 5)
    assert len(load_pairs(file, Format()).pairs) == 1
    monkeypatch.setattr("seq2attn.data.pairs.MAX_BYTES", 4)
    with refused("larger than 4 bytes"):
        load_pairs(file, Format())


# ---- the task ----


def test_vocabularies_and_lengths_are_those_of_the_training_file(tmp_path):
    task = make(tmp_path)
    assert task.source_vocabulary.symbols == tuple("abc")
    assert task.target_vocabulary.symbols == tuple("xyz")
    assert task.min_length == 1
    assert task.max_length == 3
    assert [task.target_length(length) for length in (1, 3, 4, 6)] == [3, 3, 4, 6]
    assert task.training_set == (("ab", "x y"), ("cab", "z x y"), ("b", "y"))
    assert task.dev_set == (("ba", "y x"),)
    featured = make(
        tmp_path, "ab\tb\tV\nb\tb\tN;PL\n", "a\ta\tV\n", features_column=3, target_separator=""
    )
    assert featured.source_vocabulary.features == ["N", "PL", "V"]
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
    with refused("pairs are only drawn for training"):
        again.examples(torch.Generator(), 1)


def test_examples_are_pairs_of_the_training_file(tmp_path):
    task = make(tmp_path)
    assert {*drawn(task, 20)} == {*task.training_set}
    with refused("pairs are only drawn for training, from its file, of any length"):
        task.examples(torch.Generator(), 1, length=7)


@table(
    "train, dev, says",
    r"""
"ab\tx y\ncab\tz x y\nb\ty\n" | "ba\ty x\n" | []
"a\tx\nb\ty\n" | "b\ty\na\ty\n" | ["warning: 1 of 2 dev pairs are also in the training file"]
"word\tipa\na\tx\n" | "b\tx\n"
  | ["line 1, 'word' -> 'ipa', is read as a pair, not as a header; add --set task.header=true"]
"mot\tapi\na\tx\n" | "mot\tapi\na\ty\n"
  | ["1 of 2 dev pairs are also in the training file, as 'mot' -> 'api'"]
"ab\t\"x y\"\n" | "a\t\"x\"\n" | ["warning: 1 of 1 targets are in quotation marks"]
"ab\tx y\nab(2)\tx # old\n(3)\tx\nb\ty\n" | "a\tx\n"
  | ["1 of 4 sources count right answers, as 'ab(2)'; add --set task.variants=true",
  "1 of 4 targets end in a comment, as 'x # old'; add --set 'task.comment=\"#\"'"]
"ab\tx y\nb\tx, y\n" | "a\tx\n"
  | ["note: 1 of 2 targets contain ', ', perhaps between answers (task.target_alternatives)"]
"ab\tx # y\nb\ty x # x\n" | "a\tx\n" | []  # a hash is a symbol between words
"ab\tx\nb\ty\n" | "bé\tx\na\tq y\nb\tq\n"
  | ["1 of 3 dev sources have symbols that the training file lacks: 'é' (U+00E9)",
  "2 of 3 dev targets have symbols that the training file lacks: 'q'"]
""",
    "train dev says",
)
def test_notes_say_what_spoils_a_training(tmp_path, train, dev, says):
    notes = make(tmp_path, train, dev).notes
    assert bool(notes) == bool(says)
    assert all(one in " | ".join(notes) for one in says)


def test_no_note_advises_what_is_set(tmp_path):
    assert not make(tmp_path, f"word\tipa\n{TRAIN}", "word\tipa\na\tx\n", header=True).notes
    commented = make(tmp_path, "ab\tx # old\n", "a\tx\n", comment="//")
    assert "end in a comment" not in " ".join(commented.notes)


NUMBERED = [(f"{first}{second}", f"{second}{first}x") for first in "abcd" for second in "efgh"]


@table(
    "side",
    """
source
target
""",
)
def test_a_forgotten_separator_is_noticed_by_share(tmp_path, side):
    def notes(pairs, dev, separator):
        if side == "source":
            pairs, dev = ([pair[::-1] for pair in some] for some in (pairs, dev))
        texts = ["".join(f"{one}\t{other}\n" for one, other in some) for some in (pairs, dev)]
        separators = {
            "source_separator": "",
            "target_separator": "",
            f"{side}_separator": separator,
        }
        return " | ".join(make(tmp_path, *texts, **separators).notes)

    whole = notes([*NUMBERED, ("ij", "j i")], [("eh", "hex"), ("ae", "eax")], " ")
    warning = f"warning: 16 of 17 {side}s do not contain the separator ' ': each is one symbol"
    assert f"{warning}; add --set 'task.{side}_separator=\"\"'" in whole
    assert f"1 of 2 dev {side}s have symbols that the training file lacks: 'hex'" in whole
    spaced = [(source, " ".join(target)) for source, target in NUMBERED]
    assert f"the {side}s are symbols with blanks between them, as 'e a x'" in notes(
        spaced, spaced[:1], ""
    )
    assert "separator" not in notes(spaced, spaced[:1], " ")
    words = [(source, "one two" if source < "c" else "two") for source, _ in NUMBERED]
    assert "separator" not in notes(words, words[:1], " "), "words of few kinds are symbols, too"


def pointer_of(task):
    """A pointer in which g is 1/2, and softmax and attention are uniform."""
    config = make_config("model.decoder=pointer model.attention.score=general")
    model = build_model(config, task)
    for parameter in model.parameters():
        parameter.data.zero_()
    return model


def test_a_pointer_copies_what_the_target_has_and_shows_what_it_lacks(tmp_path):
    task = make(tmp_path, train="ab\tb x\n")  # the source has a and b, the target b and x
    source = torch.tensor([task.source_vocabulary.encode("abé")])
    lengths = torch.tensor([3])
    for vocabulary in (Vocabulary("bx"), task.target_vocabulary):
        task.target_vocabulary = vocabulary
        model = pointer_of(task)
        memory, state = model.encode(source, lengths)
        found = model.step(torch.tensor([SOS]), state, memory)[0].logits.exp().squeeze()
        copied = {"b": 1 / 6, "<unk>": 1 / 3} if vocabulary.unknown else {"b": 1 / 6}
        rest = (1 - sum(copied.values())) / len(vocabulary)
        expected = [copied.get(token, 0) + rest for token in vocabulary.tokens]
        assert_close(found, torch.tensor(expected))
    searching = predictor_of(Ensemble([model, model]), task, search=BeamSearch(2))
    (one,) = searching.predict(["abé"])
    assert one.output.startswith("a a")
    assert one.weights is None
    greedy = replace(searching, search=None)
    assert changed(greedy, "abé", force={(0, 2): 0.5}).output_symbols[:2] == ("é", "a")
    # the source's vocabulary lacks it, not the target's
    assert changed(greedy, "xa", force={(0, 0): 0.5}).output_symbols[0] == "x"
    (answer,) = evaluate_pairs(greedy, [("é", "é")]).answers
    assert set(answer.answer.split()) == {"é"}
    model.decoder.output.bias.data[UNK] = 50.0
    model.decoder.generate.bias.data[0] = 50.0  # `<unk>` has almost all probability
    for pointer in (greedy, searching):
        first, *others = (
            set(one.output.split()) for one in pointer.predict(["é", "ab", "b", "bb"])
        )
        assert (first, others[0]) == ({"é"}, {"a"})
        assert "<unk>" not in set().union(*others)


def test_ids_decide_where_a_symbol_of_the_file_is_called_like_a_special_one(tmp_path):
    task = make(tmp_path, train="dab\tb <unk>\nb\tb <eos>\n")
    assert task.target_vocabulary.tokens[2:] == ("<eos>", "<unk>", "<eos>", "<unk>", "b")
    model = pointer_of(task)
    model.decoder.output.bias.data[5] = 50.0  # the file's `<unk>`
    model.decoder.generate.bias.data[0] = 50.0
    predictor = predictor_of(model, task)
    (one,) = predictor.predict(["dab"])
    assert set(one.output.split()) == {"<unk>"}
    assert set(one.output_ids) == {5}
    assert changed(predictor, "dab", write={0: 4, 1: 3, 2: 2}).output == "<eos> d"
    assert changed(predictor, "dab", write={0: "<eos>"}).output == ""  # the model's own


def test_inspect_shows_all_of_many_symbols(cli):
    symbols = [chr(0x4E00 + index) for index in range(300)]
    write("many.tsv", "".join(f"{symbol}\t{symbol}\n" for symbol in symbols))
    write("many.yaml", "task: {name: pairs, train: many.tsv, dev: many.tsv}\n")
    shown = re.findall("^# (?:source|target):.*", cli("inspect many.yaml").out, re.MULTILINE)
    assert [line.count('"') for line in shown] == [2 * 300] * 2
    assert len(cli("inspect many.yaml --json").json["task"]["source"]) == 300
