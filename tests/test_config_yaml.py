import math
from pathlib import Path

import pytest

from seq2attn.config import yaml_files
from seq2attn.config.shipped import find_config, shipped_folder
from seq2attn.config.yaml_files import read_file, read_text
from seq2attn.errors import Seq2AttnError


def value(text):
    return read_text(text, source="some.yaml").value


def refusal(text):
    with pytest.raises(Seq2AttnError) as caught:
        read_text(text, source="some.yaml")
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("3", 3),
        ("-12", -12),
        ("+7", 7),
        ("010", 10),  # YAML 1.1 reads 8
        ("1_000", "1_000"),  # YAML 1.1 reads 1000
        ("0x10", "0x10"),
        ("1:30", "1:30"),  # YAML 1.1 reads 90
        ("2.5", 2.5),
        (".5", 0.5),
        ("5.", 5.0),
        ("3e-3", 0.003),  # YAML 1.1 reads text
        ("1E3", 1000.0),
        ("-.inf", float("-inf")),
        (".INF", float("inf")),
        ("true", True),
        ("FALSE", False),
        ("no", "no"),  # YAML 1.1 reads false
        ("on", "on"),
        ("y", "y"),
        ("null", None),
        ("~", None),
        ("none", "none"),
        ("None", "None"),
        ("2024-01-01", "2024-01-01"),
        ("'3'", "3"),
        ('"true"', "true"),
        ('""', ""),
        ("a b", "a b"),
        ("|\n  a\n  b\n", "a\nb\n"),
        ("[1, two, 3.0]", [1, "two", 3.0]),
        ("{a: 1, b: {c: x}}", {"a": 1, "b": {"c": "x"}}),
        ("1: a", {"1": "a"}),
        ("null: a", {"null": "a"}),
        ("a:", {"a": None}),
        ("---\na: 1\n...\n", {"a": 1}),
    ],
)
def test_scalars_have_the_expected_values(text, expected):
    found = value(text)
    assert found == expected
    assert type(found) is type(expected)


def test_nan_is_a_float():
    assert math.isnan(value(".nan"))


def test_very_long_integers_become_floats():
    assert value("9" * 301) == 1e301
    assert isinstance(value("9" * 300), int)


@pytest.mark.parametrize("text", ["", "# only words\n", "---\n"])
def test_an_empty_text_is_none(text):
    assert value(text) is None


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
        ("a: &x [*x]\n", 1, "alias"),
        ("a: &x word\n*x : 1\n", 1, "alias"),
        ("a: *x\n", 1, "alias"),
        ("a: 1\nb: !!python/object/apply:os.system [echo]\n", 2, "os.system"),
        ("a: !!python/name:os.system\n", 1, "found the tag 'tag:yaml.org,2002:python/name:os.system'"),
        ("a: !mine 3\n", 1, "found the tag '!mine'; write a plain value"),
        ("a: !!str 3\n", 1, "found the tag 'tag:yaml.org,2002:str'"),
        ("a: !!float 3\n", 1, "tag"),
        ("a: !!binary 'aGk='\n", 1, "tag"),
        ("a: !!set {x}\n", 1, "tag"),
        ("!!str 3: a\n", 1, "tag"),
        ("? [a, b]\n: 1\n", 1, "a key that is not a word"),
        ("a:\n\thidden: 8\n", 2, "a tab in the indentation; YAML requires spaces"),
        ("a:\n  b: 1\n\tc: 2\n", 3, "a tab"),
        ("a:\t\t3\n", 1, "a tab where YAML requires a space"),
        ("a: 1\n b: 2\n", 2, "not YAML"),
        ("a: [1, 2\n", 1, "not closed"),
        ("a: 'x\n", 2, "not YAML"),
        ("a: 1\n---\nb: 2\n", 2, "expected a single document in the stream but found another document"),
    ],
)
def test_values_that_are_not_plain_are_refused_with_their_line(text, line, words):
    message = refusal(text)
    assert message.startswith(f"some.yaml:{line}: ")
    assert words in message
    assert "\n" not in message


def test_control_characters_are_reported():
    assert refusal("a: \x07").startswith("some.yaml: not YAML: unacceptable character #x0007")


def test_nesting_is_bounded():
    def nested(depth):
        return "{a: " * depth + "1" + "}" * depth

    value(nested(20))
    assert refusal(nested(21)) == "some.yaml: nested deeper than 20 levels"
    assert refusal("[" * 1_000) == "some.yaml: nested deeper than 20 levels"


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def file_refusal(path):
    with pytest.raises(Seq2AttnError) as caught:
        read_file(path)
    return caught.value


def test_a_file_is_read_as_utf8_with_or_without_byte_order_mark(tmp_path):
    for data in ("a: é".encode(), "a: é".encode("utf-8-sig")):
        assert read_file(write(tmp_path / "a.yaml", data)).value == {"a": "é"}


def test_messages_name_the_file(tmp_path):
    path = write(tmp_path / "a.yaml", b"a: [")
    assert str(file_refusal(path)).startswith(f"{path}:1: not YAML")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"abc: \xff", "not UTF-8 text (byte 5)"),
        ("a: 1".encode("utf-16"), "not UTF-8 text (byte 0)"),
        (b"#" * 200_001, "larger than 200,000 bytes"),
    ],
)
def test_invalid_files_are_refused(tmp_path, data, words):
    path = write(tmp_path / "a.yaml", data)
    message = str(file_refusal(path))
    assert message.startswith(f"{path}: ")
    assert words in message


def test_the_largest_file_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(yaml_files, "LARGEST_FILE", 4)
    assert read_file(write(tmp_path / "a.yaml", b"a: 1")).value == {"a": 1}
    assert "larger than 4 bytes" in str(file_refusal(write(tmp_path / "b.yaml", b"a: 12")))


def test_a_missing_file_lists_the_files_in_its_folder(tmp_path):
    (tmp_path / "scaled.yaml").touch()
    (tmp_path / "notes.txt").touch()
    error = file_refusal(tmp_path / "scale.yaml")
    assert error.message == f"{tmp_path / 'scale.yaml'}: no such file"
    there = tmp_path / "scaled.yaml"
    assert error.hint == f"Did you mean {there}? There are: {there}"


def test_a_missing_file_lists_configs_if_its_folder_has_none(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    hint = file_refusal(Path("scale.yaml")).hint
    assert hint.startswith("Did you mean configs/scaled.yaml? There are: configs/additive.yaml, configs/dates.yaml, ")
    Path("configs").mkdir()
    Path("configs/scaledown.yaml").touch()
    assert file_refusal(Path("configs/scaledow.yaml")).hint.startswith(
        "Did you mean configs/scaledown.yaml? There are: "
    )


def test_a_directory_is_not_a_file(tmp_path):
    (tmp_path / "one.yaml").touch()
    error = file_refusal(tmp_path)
    assert error.message == f"{tmp_path} is a directory, not a file"
    assert error.hint == f"There are: {tmp_path / 'one.yaml'}"


def test_invalid_paths_are_refused(tmp_path):
    (tmp_path / "one.yaml").touch()
    assert "cannot be read: Not a directory" in str(file_refusal(tmp_path / "one.yaml" / "two.yaml"))
    assert "cannot be read: embedded null byte" in str(file_refusal(Path("a\0.yaml")))


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("configs/scaled.yaml", "scaled.yaml"),
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


@pytest.mark.parametrize("name", ["nosuch", "configs", "chapter", "../configs/scaled.yaml", "/scaled.yaml", "", "a\0b"])
def test_no_other_name_is_that_of_a_shipped_config(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    assert find_config(name) == Path(name)


@pytest.mark.parametrize(
    "command",
    [
        "inspect scaled",
        "inspect configs/chapter/dot.yaml",
        "compare configs/experiments/chapter.yaml --max-trials 1",
        "compare -c scaled -c configs/dot.yaml --max-trials 1",
        "report configs/experiments/chapter.yaml",
    ],
)
def test_every_command_finds_the_shipped_configs(cli, command):
    done = cli(*command.split())
    if "max-trials" in command:
        assert "at most 1 are allowed" in done.err
    elif "report" in command:
        assert "no trial of 'chapter' in runs is trained and measured" in done.err
    else:
        assert done.code == 0, done.err
