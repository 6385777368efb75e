"""What a refusal says of a raw file: the command that it prints is pasted as it stands."""

import bz2
import gzip
import itertools
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml
from inline import read, write
from tables import rows

WORDS = ["".join(letters) for letters in itertools.product("abcd", repeat=3)]  # 64
MORE = WORDS[1:] + [word * 2 for word in WORDS]
IPA = {"a": "æ", "b": "bʰ", "c": "t͡ʃ", "d": "ð"}


def phones(word):
    return " ".join(IPA[letter] for letter in word)


def segments(number, word):
    """Of every fourth word twice the phones, with a slash inside a symbol between them."""
    return f"{phones(word)} x/x {phones(word)}" if number % 4 == 0 else phones(word)


def spoken(word):
    return "".join(IPA[letter] for letter in word)


def lines(line, words=WORDS):
    return "".join(f"{line(number, word)}\n" for number, word in enumerate(words))


THREE = ["".join(letters) for letters in itertools.product("abcdefghijk", repeat=3)]  # 1331
SHORT_WORDS = [" ".join(THREE[at::133]) for at in range(133)] * 9
GIVEN = {  # a file -> what it holds, and as YAML the options that its refusal has to name
    "spreadsheet.csv": (
        "sep=;\r\n" + lines(lambda _, word: f'{word};"{phones(word)}";;\r'),
        "{delimiter: ;, columns: 4, comment: sep=, target_separator: ' '}",
    ),
    "forms.csv": (  # Form repeats Value, and a slash inside a segment is notation
        "ID,Language_ID,Value,Form,Segments,Comment,Source\n"
        + lines(lambda number, word: f"x-{number},l,{word},{word},{segments(number, word)},,A"),
        "{delimiter: ',', source_column: Form, target_column: Segments, target_separator: ' '}",
    ),
    "sources.csv": (  # each line has one ';', too
        lines(lambda number, word: f"x-{number},{word},{phones(word)},a;b"),
        "{delimiter: ',', columns: 4, source_column: 2, target_column: 3, target_separator: ' '}",
    ),
    "sigmorphon.txt": (  # features in small letters
        lines(lambda at, word: f"{word}\tcase={'nadg'[at % 4]},number=pl\t{word}x"),
        "{target_column: 3, features_column: 2}",
    ),
    "accents.csv": (  # several pronunciations of a word do not ask for the word
        "word,ipa\n" + lines(lambda _, word: f"{word},æ{spoken(word)}\n{word},{spoken(word)}ð"),
        "{delimiter: ',', source_column: word, target_column: ipa}",
    ),
    "colons.txt": (
        "# x\n" + lines(lambda _, word: f"{word}: {phones(word)}"),
        "{delimiter: ':', comment: '#', target_separator: ' '}",
    ),
    "dictionary.txt": (  # a(2) is a variant, abc(2) is not one, since abc is not there
        ";;; of words\n;;; and phones\n"
        + lines(lambda _, word: f"{word} {phones(word)}", MORE)
        + f"{WORDS[1]}(2) {phones('d')}\n{WORDS[0]}(2) {phones('a')}\n",
        "{delimiter: ' ', comment: ;;;, variants: true, target_separator: ' '}",
    ),
    "hashes.tsv": (
        "# a list\n"
        + lines(lambda number, word: f"{number}\t{word}\t{phones(word)}{' # US' * (number == 3)}"),
        "{comment: '#', source_column: 2, target_column: 3, target_separator: ' '}",
    ),
    "spelled.tsv": (  # symbols like the word's, of two variants each, do not ask for the word
        "# a list\n"
        + lines(lambda _, word: f"{word}\t{' '.join(word)}\n{word}(2)\t{' '.join(word[::-1])} e")
        + "dad\td a d  # at an end\n",
        "{comment: '#', variants: true, target_separator: ' '}",
    ),
    "inflection.tsv": (
        lines(lambda number, word: f"{word}\t{word}ab\tV|{'ABCDEFG'[number % 7]}|PST"),
        "{features_column: 3}",
    ),
    "wiktionary.tsv": (  # blanks at an end, and a malformed line, the last one
        lines(lambda number, word: f"{word}\t/{spoken(word)}/{f', /{word}/' * (number < 9)}\t1 ")
        + "ab\n",
        "{target_alternatives: ', ', target_quotes: /, columns: 3, skip_bad: 1}",
    ),
    "pronounced.tsv": (  # each has two answers
        lines(lambda number, word: f"{word}\t/{spoken(word)}/, /{word}/\t{number}"),
        "{target_alternatives: ', ', target_quotes: /, columns: 3}",
    ),
    "quoted.tsv": (
        '"word"\t"pos"\t"ipa"\n' + lines(lambda _, word: f'"{word}"\t"N"\t"{spoken(word)}"'),
        "{quotation: true, header: true, target_column: 3}",
    ),
    "rules.txt": (  # blanks around what is in quotation marks
        "# rules\n" + lines(lambda _, word: f'"{word}", "{word}{word},x" '),
        "{delimiter: ',', comment: '#'}",
    ),
    "phones.lex": (  # the first line is no header: its symbols are those of others
        lines(lambda _, word: f"{word}\t\t{phones(word)}".replace("æ", "AX").replace("b", "B")),
        "{target_column: 3, target_separator: ' '}",
    ),
    "sentences.csv": (  # many kinds of short words are no symbols
        "urdu,roman\n" + lines(lambda _, text: f"{text.replace(' ', 'o')},{text}", SHORT_WORDS),
        "{delimiter: ',', source_column: urdu, target_column: roman}",
    ),
    "orthography.tsv": (  # a hash is a letter, and x/y a symbol and how it is read
        "Grapheme\tIPA\tCOUNT\n#\t+\t4\n"
        + lines(lambda number, word: f"{word}\t{word}{f'/{word}e' * (number < 9)}\t{number}"),
        "{source_column: Grapheme, target_column: IPA}",
    ),
}


def tried(refusal):
    """The words of the command that a refusal prints."""
    (command,) = [line for line in refusal.splitlines() if line.startswith("Try: seq2attn ")]
    return shlex.split(command)[2:]


def options(words):
    """The options of the format in the words of a command."""
    settings = [word.partition("=") for word in words if word.startswith("task.")]
    return {key.removeprefix("task."): yaml.safe_load(value) for key, _, value in settings}


@pytest.mark.parametrize("name", GIVEN)
def test_the_command_that_a_refusal_prints_ends_without_a_warning(cli, name):
    content, expected = GIVEN[name]
    write(name, content)
    words = tried(cli(f"split {name} --to parts").refusal)
    assert words[:4] == ["split", name, "--to", "parts"]
    assert options(words) == yaml.safe_load(expected)
    assert "warning" not in cli(*words).check().err


def test_the_command_that_was_called_is_printed_with_what_the_user_has_set(cli):
    content, _ = GIVEN["forms.csv"]
    write("a.csv", content)
    mine = "train --config pairs/small --set task.train=a.csv --set task.dev=a.csv"
    words = tried(cli(mine).refusal)
    assert words[: len(mine.split())] == mine.split()
    assert "target_separator" not in options(words), "the config has it"
    for column in (9, "Phones"):  # that the file does not have
        words = tried(cli(f"split a.csv --set task.target_column={column}").refusal)
        assert options(words)["target_column"] == "Segments"
    mine = "split a.csv --set task.source_column=Form --set task.target_column=ID"
    words = tried(cli(mine).refusal)
    assert words == [*mine.split(), "--set", 'task.delimiter=","']
    assert "0 share their source" in cli(*words).check().err


def test_what_the_refusal_and_then_split_print_leads_to_predictions(cli):
    write("a.csv", GIVEN["forms.csv"][0])
    done = cli(*tried(cli("split a.csv").refusal)).check()
    (command,) = [line for line in done.err.splitlines() if line.startswith("Next: seq2attn ")]
    tiny = " --set model.hidden=8 --set training.epochs=1 --set training.snapshots=0 --name a"
    done = cli(*shlex.split(command)[2:], *tiny.split()).check()
    assert "warning" not in done.err
    assert cli("predict abc").check().out.startswith("abc\t")
    write("b.tsv", "Form;Segments\n" + lines(lambda _, word: f"{word};{phones(word)}"))
    assert "It is a file of 2 columns between ';'" in cli("eval a --data b.tsv").refusal


# ---- files that have no pairs, or whose columns only their user knows ----

SPREADSHEET = b"PK\x03\x04" + bytes(22) + b"\x13\0\0\0[Content_Types].xml<Types/>\n"  # its head
SENTENCES = "\n".join(" ".join(WORDS[at : at + 3 + at % 7]) + "." for at in range(50))


TEXTS = r"""
a.txt | "# abc abd\n" | utf-8 | It is no file of pairs.
a.txt | "['abc', 'abd']\n['ab']\n['b', 'c', 'd']\n" | utf-8 | It is no file of pairs.
a.xml | "<?xml version='1.0'?>\n<a>\n<b>abc</b>\n</a>\n" | utf-8 | It is XML or HTML.
a.tsv | "かな\tkana\n" | euc-jp | EUC-JP or CP932 for Japanese
a.tsv | "ab\tx\n" | utf-16-le | iconv -f UTF-16LE -t UTF-8 a.tsv > utf8.txt
a.tsv | "шип2\tщип\n" | utf-16-le | It is UTF-16 without a byte order mark.
a.tsv | "шип2\tщип\n" | utf-16-be | It is UTF-16 without a byte order mark.
"""  # a file's name, what it holds and in which encoding, and what is said


@pytest.mark.parametrize(
    "name, content, says",
    [
        *(
            (name, yaml.safe_load(text).encode(code), says)
            for name, text, code, says in rows(TEXTS)
        ),
        ("a.jsonl", lines(lambda _, word: f'{{"form": "{word}", "ipa": "x"}}'), "It is JSON.\n"),
        ("a.json", '{\n  "abc": "x",\n  "abd": "y"\n}\n', "jq -r '[.KEY, .OTHER] | @tsv' a.json >"),
        ("a.txt", lines(lambda _, word: f"{word} N B-{word[0]} O", WORDS[1:]), "It is no file of"),
        (  # of a few different values, in a small file
            "a.tsv",
            lines(lambda number, _: f"{'xyz'[number % 3]}a\t{number % 2 < 1}\t3", WORDS[:21]),
            "any: 1 (other, such as 'xa'), 2 (other, such as 'True'), 3 (other, such as '3')",
        ),
        ("a.txt", ", ".join(WORDS), "40 (words, such as 'cbd'), ...\n"),
        ("a.txt", "EU NNP B-NP B-ORG\nrejects VBZ B-VP O\n\n" * 9, "It is no file of pairs."),
        ("a.txt", "\\gll ab-c ab\\\\\nab-PST Y\\\\\n\\glt 'z'\n" * 9, "It is interlinear glosses."),
        ("a.tsv", lines(lambda number, word: f"{word}\t{number}").encode("utf-16-be"), "UTF-16BE"),
        ("a.txt", SENTENCES, "No delimiter gives its lines equally many columns."),
        ("a b.de", lines(lambda _, word: f"{word}e"), "paste 'a b.de' OTHER > words.tsv"),
        ("a.xlsx", SPREADSHEET, "or a spreadsheet.\nFirst: save a spreadsheet as CSV"),
        ("a.xls", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(9), "or a spreadsheet."),
        ("a.gz", gzip.compress(b"abc\tx\n", mtime=0), "It is a compressed file or"),
        (
            "my words.bz2",
            bz2.compress(b"abc\tx\n"),
            "bunzip2 or unzip 'my words.bz2'",
        ),
        ("a.tsv", "Käse\tk\nBär\tb\n".encode("cp1252"), "It is not UTF-8.\nFirst: iconv -f NAME "),
        ("a.tsv", "abc\0d\tx\n" * 9, "It is a file of 2 columns"),  # NUL is UTF-8, too
        ("a.txt", lines(lambda number, word: f"{word}\t{number}\t{number + 1}"), "Choose --set"),
        (
            "a.tsv",
            lines(lambda number, word: f"{number}\t{word}\t{word}x\ty{word}"),
            "Choose --set task.source_column=N --set task.target_column=N, and --set "
            "task.features_column=N for features, if there are any: 1 (other, such as '0'), "
            "2 (words, such as 'aaa'), 3 (words, such as 'aaax'), 4 (words, such as 'yaaa')",
        ),
        ("a.tsv", lines(lambda number, word: f"{word}\tx" if number % 4 else word), "16 of 64"),
        (  # features of the source, and of the target
            "a.tsv",
            lines(
                lambda number, word: (
                    f"{'ABCDEF'[number % 6]};X\t{word}\t{'GHIJKL'[number % 6]};Y\t{word}e"
                )
            ),
            "if there are any: 1 (features, such as 'A;X')",
        ),
        (  # without segments, Form only repeats Value
            "a.tsv",
            "ID\tValue\tForm\n" + lines(lambda number, word: f"{number}\t{word}\t{word}"),
            "2 Value (words, such as 'aaa'), 3 Form (words, such as 'aaa')",
        ),
    ],
)
def test_no_command_is_printed_for_a_file_that_needs_its_user(cli, name, content, says):
    Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
    refusal = cli("split", name).refusal
    assert says in refusal
    assert "Try: " not in refusal


def run_printed(refusal):
    """Run the command that begins with awk."""
    command = refusal[refusal.index("awk") :].splitlines()[0]
    subprocess.run(command, shell=True, check=True)


@pytest.mark.parametrize(
    "name, content, kind",
    [
        (  # with a translation of several words, and a marker that begins like another
            "a.sfm",
            lines(lambda _, word: f"\\lx {word}\n\\lxp x\n\\ge {phones(word)}\n\\dt 1/May/2000\n"),
            "a file of fields with markers",
        ),
        (
            "leipzig.txt",
            lines(lambda _, word: f"{word}\n{phones(word)}\neat-PST dog-PL\n'Dogs, and cats'\n"),
            "interlinear glosses",
        ),
    ],
)
def test_the_commands_that_are_printed_take_two_lines_of_each_block(cli, name, content, kind):
    write(name, content)
    refusal = cli(f"split {name}").refusal
    assert f"It is {kind}" in refusal
    run_printed(refusal.replace("KEY", "lx").replace("OTHER", "ge"))
    pairs = [f"{word}\t{phones(word)}" for word in WORDS]
    assert read("words.tsv").splitlines() == pairs


def test_a_treebank_becomes_a_file_of_pairs_by_the_commands_that_are_printed(cli):
    rows = lines(
        lambda number, word: f"{number + 1}\t{word}s\t{word}\tX\t_\tN=A|C={word[0]}" + "\t_" * 4
    )
    write("a.conllu", f"# text = x\n{rows}65-66\tdu\t_\t_\t_\t_\t_\t_\t_\t_\n\n")
    run_printed(cli("split a.conllu").refusal)
    words = tried(cli("split words.tsv").refusal)
    assert options(words) == {"features_column": 3}
    cli(*words).check()
    assert "aaas\taaa\tN=A|C=a" in read("words.tsv")
