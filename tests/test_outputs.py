"""Files that a command writes where its user says: it replaces only what it wrote itself."""

import fcntl
import os
from pathlib import Path

import pytest
from inline import read, write
from tables import rows, table

OTHER = "Name another file, or replace it with --force.\n"
WRITERS = rows("""
eval tiny --lengths 3 --samples 2 --errors | out.tsv | table of wrong answers
predict abc --run tiny --plot | out.png | figure
plot accuracy tiny --plot | out.pdf | figure
analyze masks --plot | out.svg | figure
report --to | out.html | report
eval tiny --lengths 3 --samples 2 --latex | out.tex | table for a paper
""")  # a command without its file's name, the file, and what the command calls it


pytestmark = pytest.mark.usefixtures("runs_copy", "blank_figures")


@pytest.mark.parametrize("line, file, kind", WRITERS)
def test_only_what_the_command_wrote_itself_is_replaced(cli, line, file, kind):
    path = Path(file)
    path.write_text("abc\tcba\n")
    assert cli(f"{line} {file}").refusal == f"error: {file} exists and is not a {kind}\n{OTHER}"
    assert read(path) == "abc\tcba\n"

    cli(f"{line} {file} --force").check()
    first = path.stat().st_ino
    cli(f"{line} {file}").check()
    assert path.stat().st_ino != first  # written anew


@pytest.mark.parametrize("line, file, _", [WRITERS[0], WRITERS[2]])
def test_the_folder_of_a_file_is_made_once_there_is_something_to_write(cli, line, file, _):
    assert "no run 'nobody'" in cli(f"{line.replace('tiny', 'nobody')} new/folder/{file}").refusal
    assert not Path("new").exists()
    cli(f"{line} new/folder/{file}").check()
    assert Path("new/folder", file).stat().st_size > 100


def test_a_table_for_a_paper_has_a_row_for_each_length_of_strings(cli):
    cli("eval tiny --lengths 1 3 --samples 4 --latex t.tex").check()
    lines = read("t.tex").splitlines()
    assert "% brackets: 95 % intervals; 4 strings of each length" in lines
    rows = [line.split(" & ") for line in lines if " & " in line]
    assert [row[0] for row in rows] == ["length", "1", "3"]
    assert [len(row) for row in rows] == [2, 2, 2]


def test_an_empty_file_is_replaced(cli):
    Path("new.tsv").touch()  # as `mktemp` makes it
    cli("eval tiny --lengths 3 --samples 2 --errors new.tsv").check()
    assert read("new.tsv").startswith("source\tfeatures\tright\t")


@table(
    "line",
    """
eval tiny --errors runs/tiny/config.yaml
eval tiny --errors runs/tiny/training.lock
plot accuracy tiny --plot runs/tiny/training.png
analyze masks --plot runs/tiny/training.png
""",
)
def test_a_file_of_a_run_is_never_replaced(cli, line):
    path = Path(line.split()[-1])
    path.touch()
    before = path.read_bytes()
    for words in (line, f"{line} --force"):
        said = cli(words).refusal
        assert said == f"error: {path} exists and belongs to a run\nName another file.\n"
    assert path.read_bytes() == before


@pytest.mark.parametrize("make, reason", [
    (lambda path: path.symlink_to("runs/tiny/config.yaml"), "Too many levels of symbolic links"),
    (os.mkfifo, "not a plain file"),
    (os.mkdir, "Is a directory"),
])  # fmt: skip
def test_a_link_a_pipe_and_a_folder_are_refused(cli, make, reason):
    make(Path("out.svg"))
    said = cli("analyze masks --force --plot out.svg").refusal
    assert said == f"error: out.svg: cannot be read: {reason}\nName another file.\n"


# ---- what a killed command leaves ----


def test_the_next_command_removes_what_a_killed_one_left(cli):
    names = [
        ".out.svg.0123456789abcdef.part",
        ".out.svg.fedcba9876543210.part",  # its command is still writing
        ".out.svg.mine.part",
        ".other.svg.0123456789abcdef.part",
        ".out.svg.0000000000000000.part",  # empty: its command is about to lock it
    ]
    for name in names[:-1]:
        write(name, "<svg")
    Path(names[-1]).touch()
    with Path(names[1]).open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        cli("analyze masks --plot out.svg").check()
    left = {path.name for path in Path().glob(".*.part")}
    assert left == set(names[1:])
    cli("analyze masks --plot out.svg").check()
    assert not Path(names[1]).exists()


def test_eval_removes_what_a_killed_eval_left(cli):
    saved = Path("runs/tiny/evaluations")
    write(saved / ".best-001.json.0123456789abcdef.part", "{")
    (saved / "best-001.json").touch()
    cli("eval tiny --lengths 3 --samples 2").check()
    assert os.listdir(saved) == ["best-001.json"]
    assert (saved / "best-001.json").stat().st_size > 0
