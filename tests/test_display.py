"""One table, four outputs: for a terminal, a pipe, JSON, and HTML."""

import io
import re
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest
import yaml
from inline import Terminal, plain
from rich.console import Console
from tables import rows, table

from seq2attn.display import console
from seq2attn.display.console import make_display, say
from seq2attn.display.table import Column, Table, text_of
from seq2attn.results.statistics import Estimate


@pytest.fixture
def shown(monkeypatch):
    """Show a table on a terminal of some width, or in a pipe (width None) -> its output and its
    notes.
    """

    def show(table, width=None):
        out = Terminal() if width else io.StringIO()
        err = io.StringIO()
        monkeypatch.setattr("sys.stdout", out)
        monkeypatch.setattr("sys.stderr", err)
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setenv("COLUMNS", str(width or 80))
        table.show()
        return (plain(stream.getvalue()) for stream in (out, err))

    return show


TABLE = Table(
    [
        Column("length", right=True),
        Column("exact match", right=True),
        Column("trained"),
        Column("share %", right=True, form=".1%", optional=True),
        Column("change", right=True, form="+.2f", optional=True),
        Column("", key="seed"),
    ],
    [(3, Estimate(0.5, 0.25, 0.75), True, 0.123, 0.5, 1), (1000, None, False, 1.0, -0.25, 2)],
    title="results",
    notes=["* never seen in training"],
)


def lines(text):
    return [line.split() for line in text.splitlines() if set(line) - {" ", "─"}]


def test_a_terminal_shows_numbers_for_people(shown):
    out, err = shown(TABLE, 80)
    assert lines(out) == lines("""
results
length exact match trained share % change
3 0.500 [0.250, 0.750] yes 12.3 +0.50
1,000 - no 100.0 -0.25
""")
    assert err == "* never seen in training\n"


@table(
    "width, missing",
    """
62 | []
61 | [change]
53 | [change]
52 | [change, share]
10 | [change, share]
""",
    "width missing",
)
def test_a_narrow_terminal_drops_optional_columns(shown, width, missing):
    out, err = shown(TABLE, width)
    words = {word for line in lines(out) for word in line}
    expected = [heading for heading in ("change", "share %") if heading.split()[0] in missing]
    assert re.findall(r"share %|change", err) == expected
    assert {"length", "exact", "match", "trained", "share", "change"} - words == {*missing}
    assert ("[0.250," in words) == (width > 10)
    assert max(map(len, out.splitlines())) <= max(width, 43)


def test_text_wraps_between_words_and_is_never_markup(shown):
    table = Table(
        [Column("name"), Column("meaning")], [("v.tanh(W[s;h])", "a perceptron of one layer [red]")]
    )
    out, err = shown(table, 40)
    assert lines(out)[1:] == lines("v.tanh(W[s;h]) a perceptron of one\nlayer [red]")
    assert err == ""


@pytest.mark.parametrize("width", [72, 80])
def test_only_long_words_are_broken_where_there_is_little_room(shown, width):
    texts = ("what was attended to", "min(alpha_tj, C_tj)", "weight on what was attended to before")
    columns = map(Column, "name formula about options".split())
    out, _ = shown(Table(columns, [(*texts, ["weight", "label_smoothing"])]), width)
    assert {*" ".join(texts).split()} <= {*out.split()}
    assert ("label_smoothing" in out) == (width == 80)
    assert max(map(len, out.splitlines())) <= width


def test_several_runs_lose_their_intervals_before_a_table_is_wider_than_the_terminal(shown):
    names = ["one", "two", "three", "four"]
    cells = [Estimate(0.5, 0.25, 0.75)] * 4
    table = Table([Column("length", right=True), *map(Column, names)], [(3, *cells)])
    out, err = shown(table, 80)
    assert lines(out) == [["length", *names], ["3", *["0.500"] * 4]]
    assert err.startswith("not shown for lack of width: intervals of one; intervals of two;")


def test_lines_are_broken_between_words_and_commands_are_whole():
    words = "error: two words, a/path/longer-than-the-line:\n  `to copy` it: seq2attn x; or"
    long, copied = "a/path/longer-than-the-line:", "  `to copy` it:"
    for width, lines in (
        (20, ["error: two words,", long, copied, "  seq2attn x; or"]),
        (15, ["error: two", "words,", long, copied, "  seq2attn x;", "  or"]),
        (None, words.split("\n")),  # a pipe
    ):
        out = Console(
            file=io.StringIO(),
            width=width,
            force_terminal=bool(width),
            color_system=None,
            soft_wrap=True,
        )
        say(words, console=out)
        assert out.file.getvalue().splitlines() == lines


def test_a_pipe_gets_tab_separated_lines_with_every_column(shown):
    out, err = shown(TABLE)
    assert out.splitlines() == [
        "length\texact_match\texact_match_low\texact_match_high\ttrained\tshare_%\tchange\tseed",
        "3\t0.5\t0.25\t0.75\tyes\t0.123\t0.5\t1",
        "1000\t\t\t\tno\t1\t-0.25\t2",
    ]
    assert err == ""


def test_a_row_that_lacks_a_cell_is_a_mistake():
    short = replace(TABLE, rows=[TABLE.rows[0], (3,)])
    for show in (short.records, short.html):
        with pytest.raises(ValueError, match="argument"):
            show()


def test_html_is_escaped():
    table = Table(
        [Column("a<b"), Column("n", right=True), Column("", key="id")],
        [("<i>\x1b", 1.5, 7)],
        "x & y",
        ["<"],
    )
    assert table.html() == (
        "<table><caption>x &amp; y</caption>\n"
        '<thead><tr><th>a&lt;b</th><th class="right">n</th></tr></thead>\n'
        '<tbody>\n<tr><td>&lt;i&gt;\\u001b</td><td class="right">1.500</td></tr>\n</tbody>\n'
        "</table>\n<p>&lt;</p>\n"
    )


def test_a_column_of_records_with_a_number_is_aligned_to_the_right():
    table = Table.of_records([{"file": "a.py", "points": None}, {"file": "b.py", "points": 2}])
    assert '<tr><th>file</th><th class="right">points</th></tr>' in table.html()


def test_cells():
    for cell, form, text in rows(CELLS):
        assert text_of(yaml.safe_load(cell), form) == text
    assert text_of(Estimate(0.1234, 0.1, 0.2), ".1%") == "12.3 [10.0, 20.0]"
    assert text_of((0.1, 0.2, 0.3, 0.4, 0.5), ".1f") == "0.1  0.2  0.3  0.4 …"


CELLS = r"""
null | | -
1234567 | d | 1234567
0.00012 | .2g | 0.00012
"tab\tescape\u001b[2J" | | tab\tescape\u001b[2J
"""


def show_two(display):
    with display:
        display.say("training runs/a")
        display.begin("", 4)
        display.step("", 1, "step 1 of 4")
        display.say("exact match 0.5")
        display.begin("b", 4, "step 0")
        display.step("", 2, "step 2 of 4")
        display.step("", 2, "step 2 of 4")  # nothing new
        display.end("b", "done")
        display.end("")


PROGRESS = """\
training runs/a
step 1 of 4
exact match 0.5
step 2 of 4; b: step 0
b: done
"""


def test_progress_in_a_pipe_names_the_trials(capsys, monkeypatch):
    monkeypatch.setattr(console, "QUIET_SECONDS", 0)
    show_two(make_display())
    out, err = capsys.readouterr()
    assert out == ""
    assert err == PROGRESS


def test_a_notebook_gets_lines_unless_they_are_not_wanted(monkeypatch):
    monkeypatch.setitem(sys.modules, "ipykernel", SimpleNamespace())
    for wanted in (None, True, False):
        monkeypatch.setattr("sys.stderr", stream := io.StringIO())
        show_two(make_display(wanted))
        assert bool(stream.getvalue()) == (wanted is not False)


@table(
    "terminal, wanted, kind, is_shown, name",
    """
true | null | Bars | true | xterm
true | null | Display | true | dumb  # which cannot redraw bars
true | false | Display | false | xterm
false | null | Display | false | xterm
false | true | Display | true | xterm
true | true | Bars | true | xterm
""",
    "terminal wanted is_shown",
)
def test_the_display_suits_standard_error(monkeypatch, terminal, wanted, kind, is_shown, name):
    monkeypatch.setenv("TERM", name)
    monkeypatch.setattr("sys.stderr", stream := Terminal() if terminal else io.StringIO())
    show_two(display := make_display(wanted))
    assert type(display).__name__ == kind
    for line in ("exact match 0.5", "b: done"):
        assert (f"{line}\n" in stream.getvalue()) == is_shown


def test_a_latex_table_escapes_what_latex_reads_as_a_command():
    columns = [Column("a_b"), Column("x, %", right=True, form=".1%"), Column("", key="hidden")]
    rows = [
        ["10 & $5 #~^ {x}\\", Estimate(-0.125, -0.25, 0.5), 1],
        ["t͡ʃ", None, 2],
        ["[a|b]<c>--1", 1, 3],
    ]
    table = Table(columns, rows, "50 %", ["a note"])
    assert table.latex().splitlines() == [
        "% 50 %",
        "% a note",
        r"\begin{tabular}{lr}",
        r"\toprule",
        r"a\_b & x, \% \\",
        r"\midrule",
        r"10 \& \$5 \#\textasciitilde{}\textasciicircum{} \{x\}\textbackslash{} & "
        r"$-$12.5 [$-$25.0, 50.0] \\",
        r"t͡ʃ & -- \\",
        r"{}[a\textbar{}b]\textless{}c\textgreater{}-{}-1 & 100.0 \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]
    rows = Table([Column("p", form=".2g")], [[1.23e-5], [0.03]]).latex().splitlines()[4:6]
    assert rows == [r"$1.2 \cdot 10^{-5}$ \\", r"0.03 \\"]
