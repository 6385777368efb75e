import math
from pathlib import Path

import pytest

from seq2attn.config.shipped import find_config, shipped_folder
from seq2attn.config.yaml_files import read_file, read_text
from seq2attn.errors import Seq2AttnError


def value(text):
    return read_text(text, source="some.yaml").value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("-12", -12),
        ("+7", 7),
        ("010", 10),  # YAML 1.1 reads 8
        ("1_000", "1_000"),  # YAML 1.1 reads 1000
        ("0x10", "0x10"),
        ("1:30", "1:30"),  # YAML 1.1 reads 90
        (".5", 0.5),
        ("5.", 5.0),
        ("3e-3", 0.003),  # YAML 1.1 reads text
        ("1E3", 1000.0),
        ("-.inf", -math.inf),
        (".INF", math.inf),
        ("9" * 301, 1e301),
        ("true", True),
        ("FALSE", False),
        ("no", "no"),  # YAML 1.1 reads false
        ("on", "on"),
        ("null", None),
        ("~", None),
        ("none", "none"),
        ("2024-01-01", "2024-01-01"),
        ("'3'", "3"),
        ('"true"', "true"),
        ('""', ""),
        ("|\n  a\n  b\n", "a\nb\n"),
        ("[1, two, 3.0]", [1, "two", 3.0]),
        ("{a: 1, b: {c: x}}", {"a": 1, "b": {"c": "x"}}),
        ("1: a", {"1": "a"}),
        ("a:", {"a": None}),
        ("---\na: 1\n...\n", {"a": 1}),
        ("# only words\n", None),
    ],
)
def test_values(text, expected):
    assert value(text) == expected
    assert type(value(text)) is type(expected)


def test_nan_is_a_float():
    assert math.isnan(value(".nan"))


def test_keys_have_line_numbers():
    document = read_text("# first\nseed: 1\nmodel:\n  hidden: 8\n\n  attention: {score: dot,\n    window: {}}\n", "x")
    assert document.lines == {
        ("seed",): 2,
        ("model",): 3,
        ("model", "hidden"): 4,
        ("model", "attention"): 6,
        ("model", "attention", "score"): 6,
        ("model", "attention", "window"): 7,
    }


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("a: 1\nb: 2\na: 3\n", 3, "found a duplicate key 'a' (first on line 1); keep one"),
        ("m:\n  a: 1\n  a: 1\n", 3, "a duplicate key 'a' (first on line 2)"),
        ("a: &x 1\nb: *x\n", 1, "alias"),
        ("a: 1\nb: *x\n", 2, "alias"),
        ("a: 1\nb: !!python/object/apply:os.system [echo]\n", 2, "os.system"),
        ("a: !mine 3\n", 1, "found the tag '!mine'; write a plain value"),
        ("a: !!str 3\n", 1, "found the tag 'tag:yaml.org,2002:str'"),
        ("!!str 3: a\n", 1, "tag"),
        ("? [a, b]\n: 1\n", 1, "a key that is not a word"),
        ("a:\n\thidden: 8\n", 2, "a tab in the indentation; YAML requires spaces"),
        ("a:\t\t3\n", 1, "a tab where YAML requires a space"),
        ("a: 1\n b: 2\n", 2, "not YAML"),
        ("a: [1, 2\n", 1, "this '[' is not closed"),
        ("a: 1\nb: {c: 1\nd: 2\n", 2, "this '{' is not closed, or a comma is missing, by line 3"),
        ("a: 'x\n", 2, "not YAML"),
        ("a: 1\n---\nb: 2\n", 2, "expected a single document in the stream but found another document"),
    ],
)
def test_values_that_are_not_plain_are_refused_with_their_line(text, line, words):
    with pytest.raises(Seq2AttnError) as caught:
        value(text)
    assert str(caught.value).startswith(f"some.yaml:{line}: ")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: \x07", "some.yaml: not YAML: unacceptable character #x0007"),
        ("{a: " * 21 + "1" + "}" * 21, "some.yaml: nested deeper than 20 levels"),
        ("[" * 1_000, "some.yaml: nested deeper than 20 levels"),
    ],
)
def test_texts_that_are_refused_as_a_whole(text, message):
    value("{a: " * 20 + "1" + "}" * 20)
    with pytest.raises(Seq2AttnError) as caught:
        value(text)
    assert str(caught.value).startswith(message)


# ---- files ----


def refusal(path):
    with pytest.raises(Seq2AttnError) as caught:
        read_file(path)
    return caught.value


def test_a_file_is_read_as_utf8_with_or_without_byte_order_mark(tmp_path):
    for data in ("a: é".encode(), "a: é".encode("utf-8-sig"), b"a: \xc3\xa9\n#" + b"#" * 199_992):
        (tmp_path / "a.yaml").write_bytes(data)
        assert read_file(tmp_path / "a.yaml").value == {"a": "é"}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"a: [", "a.yaml:1: not YAML"),
        (b"abc: \xff", "a.yaml: not UTF-8 text (byte 5)"),
        ("a: 1".encode("utf-16"), "a.yaml: not UTF-8 text (byte 0)"),
        (b"#" * 200_001, "a.yaml: larger than 200,000 bytes"),
    ],
)
def test_invalid_files_are_refused_with_their_name(tmp_path, monkeypatch, data, message):
    monkeypatch.chdir(tmp_path)
    Path("a.yaml").write_bytes(data)
    assert str(refusal(Path("a.yaml"))).startswith(message)


def test_a_missing_file_lists_the_configs_that_there_are(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    hint = refusal(Path("scale.yaml")).hint
    assert hint.startswith("Did you mean configs/scaled.yaml? There are: configs/additive.yaml, configs/dates.yaml, ")
    Path("configs").mkdir()
    Path("configs/scaledown.yaml").touch()
    assert refusal(Path("configs/scaledow.yaml")).hint.startswith("Did you mean configs/scaledown.yaml? There are: ")
    Path("one.yaml").touch()
    error = refusal(tmp_path)
    assert (error.message, error.hint) == (f"{tmp_path} is a directory, not a file", f"There are: {tmp_path}/one.yaml")
    error = refusal(Path("on.yaml"))
    assert (error.message, error.hint) == ("on.yaml: no such file", "Did you mean one.yaml? There are: one.yaml")
    assert "cannot be read: Not a directory" in str(refusal(Path("one.yaml/two.yaml")))
    assert "cannot be read: embedded null byte" in str(refusal(Path("a\0.yaml")))


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("./configs/experiments/chapter.yaml", "experiments/chapter.yaml"),
        ("scaled", "scaled.yaml"),
        ("scaled.yaml", "scaled.yaml"),
        ("chapter/dot", "chapter/dot.yaml"),
    ],
)
def test_a_shipped_config_is_found_from_anywhere_by_its_path_or_in_short(tmp_path, monkeypatch, name, file):
    monkeypatch.chdir(tmp_path)
    assert find_config(name) == shipped_folder() / file
    assert find_config(name).is_file()
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).touch()  # the user's own comes first
    assert find_config(name) == Path(name)


@pytest.mark.parametrize("name", ["nosuch", "configs", "../configs/scaled.yaml", "/scaled.yaml", "", "a\0b"])
def test_no_other_name_is_that_of_a_shipped_config(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    assert find_config(name) == Path(name)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("inspect chapter/dot", ""),
        ("compare configs/experiments/chapter.yaml --max-trials 1", "at most 1 are allowed"),
        ("compare -c scaled -c configs/dot.yaml --max-trials 1", "at most 1 are allowed"),
        ("report configs/experiments/chapter.yaml", "no trial of 'chapter' in runs is trained and measured"),
    ],
)
def test_every_command_finds_the_shipped_configs(cli, command, words):
    done = cli(*command.split())
    assert done.code == (2 if words else 0)
    assert words in done.err
