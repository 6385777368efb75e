from pathlib import Path

import pytest
from refusal import refusal, refused
from tables import table

from seq2attn.config.yaml_files import find_config, read_file, read_text, shipped_folder

pytestmark = pytest.mark.usefixtures("cli")  # in an empty folder


def value(text):
    return read_text(text, source="some.yaml").value


@table(
    "text, expected",
    """
-12 | -12
+7 | 7
010 | 10  # YAML 1.1 reads 8
1_000 | '1_000'  # YAML 1.1 reads 1000
0x10 | '0x10'
.5 | 0.5
3e-3 | 0.003  # YAML 1.1 reads text
-.inf | -inf
true | True
no | 'no'  # YAML 1.1 reads false
null | None
"true" | 'true'
[1, two, 3.0] | [1, 'two', 3.0]
{a: 1, b: {c: x}} | {'a': 1, 'b': {'c': 'x'}}
1: a | {'1': 'a'}
# only words | None
""",
)
def test_values(text, expected):
    assert repr(value(text)) == expected


def test_long_values():
    assert value("9" * 301) == 1e301
    assert value("|\n  a\n  b\n") == "a\nb\n"


def test_keys_have_line_numbers():
    document = read_text(
        "# first\nseed: 1\nmodel:\n  hidden: 8\n\n  attention: {score: dot,\n    window: {}}\n", "x"
    )
    lines = "seed 2, model 3, model.hidden 4, model.attention 6, model.attention.score 6"
    found = ", ".join(f"{key} {line}" for key, line in document.lines.items())
    assert found == f"{lines}, model.attention.window 7"


@table(
    "text, message",
    r"""
"m:\n  a: 1\n  a: 1\n" | 3: not plain YAML: duplicate key 'a', first on line 2
"a: 1\nb: *x\n"
  | 2: not plain YAML: found an alias, a tag, or more than 20 levels; write plain values
"a: 1\nb: !!python/object/apply:os.system [echo]\n"
  | 2: not plain YAML: found an alias, a tag, or more than 20 levels; write plain values
"{a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: 1
  }}}}}}}}}}}}}}}}}}}}}"
  | 1: not plain YAML: found an alias, a tag, or more than 20 levels; write plain values
"a: !!int 3\n"
  | 1: not plain YAML: found an alias, a tag, or more than 20 levels; write plain values
"a: &a 1\n"
  | 1: not plain YAML: found an alias, a tag, or more than 20 levels; write plain values
"a: ! 3\n"
  | 1: not plain YAML: found an alias, a tag, or more than 20 levels; write plain values
"a: [1, &a 2]\n"
  | 1: not plain YAML: found an alias, a tag, or more than 20 levels; write plain values
"a: {a: !!str b}\n"
  | 1: not plain YAML: found an alias, a tag, or more than 20 levels; write plain values
"? [a, b]\n: 1\n" | 1: not plain YAML: a key must be a word
"a:\n\thidden: 8\n"
  | 2: not plain YAML: while scanning for the next token, found character '\t'
"a: 1\n---\nb: 2\n" | 2: not plain YAML: expected a single document in the stream
""",
    "text",
)
def test_what_is_not_plain_is_refused_with_its_line(text, message):
    value("{a: " * 20 + "1" + "}" * 20)
    told = str(refusal(value, text))
    assert told.startswith(f"some.yaml:{message}")
    assert "\n" not in told
    said = str(refusal(value, "a: \x07"))
    assert said.startswith("some.yaml: not plain YAML: unacceptable character #x0007")


# ---- files ----


def test_a_file_is_read_as_utf8_with_or_without_byte_order_mark():
    for data in ("a: é".encode(), "a: é".encode("utf-8-sig"), b"a: \xc3\xa9\n#" + b"#" * 199_992):
        Path("a.yaml").write_bytes(data)
        assert read_file(Path("a.yaml")).value == {"a": "é"}


@table(
    "name, data, message",
    r"""
a.yaml | "abc: \xff"
  | a.yaml: cannot be read: 'utf-8' codec can't decode byte 0xff in position 5
a.yaml/b.yaml | "" | a.yaml/b.yaml: cannot be read: Not a directory
. | "" | .: cannot be read: Is a directory
on.yaml | "" | on.yaml: no such file There are: one.yaml,
configs/scale.yaml | "" | configs/scale.yaml: no such file There are: configs/scaled.yaml,
""",
    "data",
)
def test_a_file_that_cannot_be_read_is_refused_with_its_name(name, data, message):
    Path("a.yaml").write_bytes(data.encode("latin-1"))
    Path("one.yaml").touch()
    assert " ".join(str(refusal(read_file, Path(name))).split()).startswith(message)
    Path("a.yaml").write_bytes(b"#" * 200_001)
    with refused("^a.yaml: cannot be read: larger than 200,000 bytes"):
        read_file(Path("a.yaml"))


@table(
    "name, file",
    """
./configs/experiments/chapter.yaml | experiments/chapter.yaml
scaled | scaled.yaml
chapter/dot | chapter/dot.yaml
""",
)
def test_a_shipped_config_is_found_from_anywhere_by_its_path_or_in_short(name, file):
    assert find_config(name) == shipped_folder() / file
    assert find_config(name).is_file()
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).touch()  # the user's own comes first
    assert find_config(name) == Path(name)


@table(
    "name",
    r"""
nosuch
configs
../configs/scaled.yaml
/scaled.yaml
""
"a\0b"
""",
    "name",
)
def test_no_other_name_is_that_of_a_shipped_config(name):
    assert find_config(name) == Path(name)
