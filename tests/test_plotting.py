"""Figures: what they draw is the numbers they were given."""

import io
from dataclasses import replace
from xml.etree import ElementTree

import matplotlib
import measured
import numpy as np
import pytest
from numpy.testing import assert_allclose
from PIL import Image
from refusal import refusal
from rich.console import Console
from tables import table

import seq2attn
from seq2attn.display.signs import score_colour, weight_colour
from seq2attn.plotting.attention import (
    attention_figure,
    choose_evenly,
    cropped,
    evolution_figure,
)
from seq2attn.plotting.cells import heat_map, html_map, legend
from seq2attn.plotting.figures import (
    accuracy_curves_figure,
    accuracy_figure,
    curves_figure,
    logarithmic,
    looks,
    new_panels,
    save_figure,
)
from seq2attn.results.answers import AttentionMap

WEIGHTS = ((0.0, 0.25, 0.75), (0.5, 0.5, 0.0))


def one_map(source="ab", output="b", weights=WEIGHTS, *, columns=None, rows=None, ideal=()):
    return AttentionMap(
        source, output, columns or (*source, "<eos>"), rows or (*output, "<eos>"), weights, ideal
    )


def square(side):
    """A map of this many characters a side."""
    row = tuple(1.0 if column == 0 else 0.0 for column in range(side))
    return one_map(columns=side * ("a",), rows=side * ("a",), weights=side * (row,))


def panels(figure):
    """The figure's heat maps, without the colour bar."""
    return [axes for axes in figure.axes if axes.get_gid() == "attention"]


def weights(panel):
    return np.array(panel.collections[0].get_array())


def texts(labels):
    return [label.get_text() for label in labels]


# ---- attention ----


def test_the_picture_is_the_weights_rows_are_output_and_columns_are_source():
    figure = attention_figure([one_map("ab", "b", ideal=(2, 0, 1))], ideal=True)
    (panel,) = panels(figure)
    np.testing.assert_array_equal(weights(panel), np.array(WEIGHTS))
    assert panel.collections[0].get_clim() == (0.0, 1.0)
    assert panel.get_ylim() == (2, 0)  # the first output at the top
    assert list(panel.get_xticks()) == [0.5, 1.5, 2.5]
    assert list(panel.get_yticks()) == [0.5, 1.5]
    assert texts(panel.get_xticklabels()) == ["a", "b", "⏎"]
    assert texts(panel.get_yticklabels()) == ["b", "⏎"]
    assert panel.get_xlabel() == "source"
    assert panel.get_ylabel() == "output"
    assert panel.get_title("left") == "ab → b"
    outlines = [(round(box.get_x() - 0.06), round(box.get_y() - 0.06)) for box in panel.patches]
    assert outlines == [(2, 0), (0, 1)]  # (column, row); the map has two rows
    assert "orange: ideal alignment" in figure.get_supxlabel()
    assert not panels(attention_figure([one_map("ab", "b", ideal=(2, 0, 1))]))[0].patches


def test_labels_of_special_tokens_spaces_marks_signs_of_mathematics_and_long_symbols():
    columns = ("<sos>", " ", "$", "<pad>", "<eos>", "_", "\u0303", "V;PST;3;SG")
    figure = attention_figure([one_map(columns=columns, weights=(8 * (1 / 8,), 8 * (0.0,)))])
    (panel,) = panels(figure)
    assert texts(panel.get_xticklabels()) == "⊢ ␣ $ ∅ ⏎ _ ◌̃ V;PST;3;SG".split()
    assert [label.get_rotation() for label in panel.get_xticklabels()] == [0] * 7 + [90]
    assert "⏎ <eos>" in figure.get_supxlabel()
    assert "␣ space" in figure.get_supxlabel()
    figure.draw_without_rendering()
    for label in (*panel.get_xticklabels(), *panel.get_yticklabels()):
        box = label.get_window_extent()
        assert box.x0 >= 0
        assert box.y1 <= figure.bbox.height


@pytest.mark.parametrize(
    "sides, inches", [(7 * [6], 0.3), ([4, 41, 4, 3], 5.5 / 41), ([2, 60], 0.11)]
)
def test_every_map_of_a_sheet_stands_apart_at_the_same_scale(sides, inches):
    figure = attention_figure([square(side) for side in sides])
    figure.draw_without_rendering()
    boxes = [axes.get_position() for axes in figure.axes]
    assert len(panels(figure)) == len(sides)
    assert max(sides) > 6 or figure.get_figwidth() < 12  # inches: broken into lines
    for place, one in enumerate(boxes):
        assert 0 <= one.x0 < one.x1 <= 1
        assert 0 <= one.y0 < one.y1 <= 1
        assert not any(one.overlaps(other) for other in boxes[place + 1 :])
    for one in panels(figure):
        cell = np.ptp(one.transData.transform([(0, 0), (1, 1)]), axis=0)
        assert_allclose(cell / figure.dpi, inches, rtol=0.02)


def test_what_cannot_be_drawn_is_refused_in_words():
    assert refusal(attention_figure, []).message == "there is no attention to draw"
    assert "at most 200" in refusal(attention_figure, [square(201)]).message
    unknown = refusal(attention_figure, [one_map(), one_map("cd")], ideal=True)
    assert unknown.message == "no ideal alignment is known for these strings"
    maps = [one_map("ab"), one_map("cd", ideal=(1, 0))]
    drawn = panels(attention_figure(maps, ideal=True))
    assert [len(panel.patches) for panel in drawn] == [0, 2]


# ---- attention through training ----


def snapshots(count):
    return [
        (100 * n, [one_map(ideal=(1,)), one_map("abc", "b", ((n / 100,) * 4,) * 2, ideal=(1,))])
        for n in range(count)
    ]


def test_a_strip_has_a_line_a_string_and_a_column_a_step():
    figure = evolution_figure(snapshots(3))
    figure.draw_without_rendering()
    found = panels(figure)
    assert [panel.get_title("left") for panel in found] == 2 * ["step 0", "step 100", "step 200"]
    assert [float(weights(panel).max()) for panel in found[3:]] == [0.0, 0.01, 0.02]
    assert len({round(panel.get_position().y1, 6) for panel in found[:3]}) == 1


@table(
    "weights, largest, chosen",
    """
[0.5, 0.5, 0.5, 0.5, 0.6, 0.7, 0.8, 0.9, 0.9] | 3 | [0, 5, 8]  # half of the change is at 0.7
[0.5, 0.5, 0.5, 0.5] | 3 | [0, 1, 3]  # nothing changes
[0.5, 0.6, 0.7] | 5 | [0, 1, 2]
[0.5, 0.6, 0.7] | 1 | [2]
""",
    "weights largest chosen",
)
def test_steps_are_chosen_by_how_much_attention_changes(weights, largest, chosen):
    maps = [
        one_map("ab", "b", ((weight, 1 - weight),) * 2, columns=("a", "b"), ideal=(1,))
        for weight in weights
    ]
    snapshots = [(step, [one]) for step, one in enumerate(maps)]
    assert choose_evenly(snapshots, largest) == [snapshots[step] for step in chosen]


def test_maps_are_cropped_to_the_rows_of_the_right_answer():
    long = one_map("ab", "bbbb", ((0.5,) * 3,) * 5, ideal=(1, 0))
    assert cropped(long).output_symbols == ("b", "b", "b")
    unknown = cropped(replace(long, ideal=()))  # as many rows as the source has tokens
    assert unknown.output_symbols == ("b", "b", "b")
    assert len(unknown.weights) == 3
    short = one_map("ab", "", ((0.5,) * 3,), ideal=(1, 0))
    assert cropped(short) == short


def test_losses_are_drawn_with_their_average():
    curves = {"one": [(10 * n, 2.0**-n) for n in range(4)], "two": [(10, 1.0), (20, 0.0)]}
    (axes,) = curves_figure(curves, ["scaled", "dot"], "loss", log=True).axes
    assert axes.get_yscale() == "log"
    assert axes.get_ylabel() == "loss"
    drawn = {line.get_label(): line for line in axes.lines}
    assert_allclose(drawn["one"].get_xydata(), [[0, 1.0], [10, 0.5], [20, 0.25], [30, 0.125]])
    noisy = {"one": [(step, 1.0 if step % 2 else 4.0) for step in range(100)]}
    (axes,) = curves_figure(noisy, ["dot"], "loss", log=True).axes
    # two neighbours are one: sqrt(1 x 4)
    assert_allclose(axes.lines[0].get_xydata()[:2], [[0.5, 2.0], [2.5, 2.0]])
    assert drawn["two"].get_xydata().tolist() == [[10, 1.0]]  # 0 has no logarithm
    for lowest, labelled in (
        (0.02, [0.02, 0.05, 0.1, 0.2, 0.5, 1]),
        (0.01, [0.01, 0.1, 1]),
        (1e-11, 0.1 ** np.arange(12)),
    ):
        _, (axes,) = new_panels()
        axes.set_ylim(lowest, 1)
        logarithmic(axes)
        ticks = [*axes.get_yticks(), *axes.get_yticks(minor=True)]
        assert_allclose([one for one in ticks if lowest <= 1.01 * one < 2], sorted(labelled))
    assert drawn["one"].get_color() == score_colour("scaled")
    assert drawn["two"].get_color() == score_colour("dot")


def test_a_score_has_its_colour_and_lines_of_one_score_are_all_seen():
    first, second, other = looks(["scaled", "scaled", "dot"])
    assert first.colour == score_colour("scaled")
    assert other.colour == score_colour("dot")
    # half way from #0072b2 to white: (0 + 255) / 2, (0x72 + 255) / 2, (0xb2 + 255) / 2
    assert second.colour == "#80b8d8"
    assert second.dash == "--"
    assert len({one.marker for one in (first, second, other)}) == 3
    for count in (1, 2, 8, 40):  # the first is drawn widest, below the others
        widths = [one.width for one in looks(["dot"] * count)]
        assert widths == sorted(set(widths), reverse=True)
        assert 1.5 < widths[-1] <= widths[0] <= 6.1


# ---- accuracy by length ----


def evaluation(*lengths):
    """(length, exact match, trained)"""
    rows = []
    for length, value, trained in lengths:
        for name, *numbers in (
            ("exact_match", value, value * 0.75, (1 + value) / 2),
            ("character_accuracy", 1.0, 0.9, 1.0),
            ("teacher_forced", 0.5, 0.4, 0.6),
        ):
            rows.append(measured.row(name, length, *numbers, trained=trained))
    return seq2attn.Evaluation(tuple(rows))


def test_accuracy_is_drawn_at_each_length_with_its_interval():
    shares = ((3, 0.8, True), (5, 0.4, True), (9, 0.0, False))
    results = evaluation(*shares)
    (axes,) = accuracy_curves_figure({"one": [(10, results), (20, results)]}, ["scaled"]).axes
    assert_allclose(axes.lines[0].get_xydata(), [[10, 0.6], [20, 0.6]])  # the mean, and the worst
    assert axes.collections[0].get_datalim(axes.transData).y0 == pytest.approx(0.4)
    two = {"one": results, "two": evaluation((3, 0.5, True), (4, 0.25, True))}
    (axes,) = accuracy_figure(two, ["dot", "scaled"]).axes
    found = {one.get_label(): one.lines[0].get_xydata() for one in axes.containers}
    assert_allclose(found["two"], [[3 + 0.08, 0.5], [4 + 0.08, 0.25]])
    assert found.keys() == two.keys()
    (axes,) = accuracy_figure({"run": results}, ["scaled"], "mine").axes
    exact, characters, forced = axes.containers
    assert exact.get_label() == "exact match (greedy)"
    beside = [[length - 0.16, value] for length, value, _ in shares]  # the others
    assert exact.lines[0].get_xydata().tolist() == beside
    bars = [segment.tolist() for segment in exact.lines[2][0].get_segments()]
    assert_allclose(bars[:2], [[[2.84, 0.6], [2.84, 0.9]], [[4.84, 0.3], [4.84, 0.7]]])
    assert characters.lines[0].get_ydata().tolist() == [1.0] * 3
    assert forced.lines[0].get_ydata().tolist() == [0.5] * 3
    assert axes.get_title(loc="left") == "mine"
    (ground,) = axes.patches  # grey
    assert ground.get_x() + ground.get_width() / 2 == 9
    assert "grey: never seen in training" in axes.get_xlabel()
    assert axes.get_ylim() == (-0.03, 1.05)  # 0 and 1 stand apart from the frame


# ---- files ----


def test_characters_that_no_font_has_are_named_and_korean_letters_stand_alone(tmp_path):
    symbols = ("\u1100", "\u1161", "\u11a8", "\u0780", "a")  # ga-g in parts, Thaana haa
    figure = attention_figure([one_map(columns=symbols, rows=("b",), weights=(5 * (0.2,),))])
    note = save_figure(figure, tmp_path / "map.png")
    assert note.startswith("note: no font of matplotlib's has 'ހ' (U+0780), 'ㄱ' (U+3131)")
    assert "they are boxes in the figure. Install a font" in note
    (panel,) = panels(figure)
    assert texts(panel.get_xticklabels()) == ["ㄱ", "ㅏ", "ㄱ", "ހ", "a"]
    assert save_figure(attention_figure([one_map()]), tmp_path / "map.png") == ""


def test_a_figure_is_written_in_the_format_of_its_name_whatever_its_case(tmp_path):
    starts = {"map.png": b"\x89PNG\r\n", "map.svg": b"<?xml", "MAP.PDF": b"%PDF-"}
    for name, start in starts.items():
        save_figure(attention_figure([one_map("文\U0010fffd")]), tmp_path / name)
        assert (tmp_path / name).read_bytes().startswith(start)
    root = ElementTree.parse(tmp_path / "map.svg").getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    with Image.open(tmp_path / "map.png") as image:
        assert min(image.size) > 100


# ---- in the terminal and in a notebook ----


def console(width=80, *, colours=None, **environment):
    options = {"color_system": colours, "force_terminal": True, "_environ": environment}
    return Console(file=io.StringIO(), width=width, **options)


def lines_of(one, screen):
    return [line.rstrip() for line in heat_map(one, screen).plain.split("\n")]


@table(
    "columns, rows, weights, lines",
    r"""
[a, b, c, d, e, f, g, h, i, j, k, <eos>] | [x, <eos>]
  | [[0.0, 0.09, 0.11, 0.29, 0.31, 0.49, 0.51, 0.69, 0.71, 0.89, 0.91, 1.0],
  [1.0, 0.91, 0.89, 0.71, 0.69, 0.51, 0.49, 0.31, 0.29, 0.11, 0.09, 0.0]]
  | ["    a b c d e f g h i j k ⏎",
  " x  . . 1 2 3 4 5 6 7 8 9 9",
  " ⏎  9 9 8 7 6 5 4 3 2 1 . ."]
[<sos>, " ", <pad>] | [" "] | [[0, 0, 0]] | ["    ⊢ ␣ ∅", " ␣  . . ."]
[文, b, <eos>] | [é, <eos>] | [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
  | ["    文b ⏎", " é  . 9 .", " ⏎  . . 9"]  # 文 is two cells wide
[x, "\u0303", <eos>] | ["\u0303", <eos>] | [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
  | ["    x \u25cc\u0303 ⏎", " \u25cc\u0303  . 9 .", " ⏎  . . 9"]
[a, V;PST, <eos>] | [t͡ʃ, <eos>] | [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
  | ["    a     V;PST ⏎", " t͡ʃ .     9     .", " ⏎  .     .     9"]  # of 5 cells: columns of 6
[abcdefghijk, b] | [abcdefghijk] | [[1.0, 0.0]] | ["          abcdef… b", " abcdef…  9       ."]
""",
    "columns rows weights lines",
)
def test_without_colours_weights_are_digits_under_their_symbols(columns, rows, weights, lines):
    one = one_map(columns=columns, rows=rows, weights=weights)
    for screen in (console(), console(colours="standard"), console(colours="256", NO_COLOR="1")):
        assert lines_of(one, screen) == lines


def test_a_terminal_without_unicode_gets_ascii_signs():
    file = io.TextIOWrapper(io.BytesIO(), encoding="cp1252")
    screen = Console(file=file, width=80, force_terminal=True, color_system=None)
    one = one_map(columns=("<sos>", " ", "<eos>"), rows=("<eos>",), weights=((0, 0, 1),))
    assert lines_of(one, screen) == ["    ^ _ $", " $  . . 9"]
    assert "$ <eos>, ^ <sos>, _ space" in legend(one, screen)


def test_colours_are_those_of_the_figures():
    eighths = [place / 8 for place in range(9)]
    cividis = [matplotlib.colormaps["cividis"](share)[:3] for share in eighths]
    ours = [matplotlib.colors.to_rgb(weight_colour(share)) for share in eighths]
    assert_allclose(ours, cividis, atol=3 / 255)
    assert weight_colour(1 / 16) == "#0d2d5e"  # the mean of the first two


def styles(drawn):
    return [str(span.style) for span in drawn.spans if "on #" in str(span.style)]


def test_with_colours_each_weight_is_a_ground():
    one = one_map(weights=((0.0, 0.5, 1.0), (1.0, 0.0, 0.0)))
    screen = console(colours="truecolor")
    drawn = heat_map(one, screen)
    assert drawn.plain.split("\n")[1] == " b        "
    dark, middle, bright = "on #00224e", "on #7d7c78", "on #fee838"
    grounds = [dark, middle, bright, bright, dark, dark]
    assert styles(drawn) == grounds
    with_digits = heat_map(one, screen, digits=True)
    assert with_digits.plain.split("\n")[1] == " b  . 5 9 "
    inks = [f"{'white' if ground == dark else 'black'} {ground}" for ground in grounds]
    assert styles(with_digits) == inks


def test_a_map_wider_than_the_terminal_is_left_out():
    fits = [width for width in (1, 9, 10, 80) if heat_map(one_map(), console(width)) is not None]
    assert fits == [10, 80]  # 4 + 2 for each of 3 columns


def test_the_legend_explains_the_signs_that_are_used():
    both = "rows: output, columns: source, "
    coloured = legend(one_map(), console(colours="256"))
    assert coloured == f"{both}⏎ <eos>, bright: attended to"
    spaced = legend(one_map(columns=(" ",), rows=("a",)), console())
    assert spaced == f"{both}␣ space, digits: tenths of the weight"


def test_a_title_reads_from_source_to_output_in_every_direction_of_writing():
    marked = "\u200eשל\u200e"
    for output, shown in (("a", "a"), ("ש", "\u200eש\u200e")):
        one = one_map("של", output)
        title = f"{marked} → {shown}"
        assert panels(attention_figure([one]))[0].get_title("left") == title
        assert title in html_map(one)
    assert "\\u202eb → b" in html_map(one_map("\u202eb"))


def test_a_map_in_html_has_a_cell_and_a_tooltip_for_each_weight():
    drawn = html_map(one_map("<b", "b"), " (cut off)")
    assert "&lt;b → b (cut off)" in drawn
    assert "<b" not in drawn
    root = ElementTree.fromstring(drawn)
    cells = [
        (cell.get("title"), cell.get("style").rpartition("background:")[2])
        for cell in root.iter("td")
    ]
    assert cells[2] == ("b (0) to ⏎ (2): 0.750", weight_colour(0.75))
    assert cells[3] == ("⏎ (1) to < (0): 0.500", weight_colour(0.5))
    assert [label.text for label in root.iter("th")] == [None, "<", "b", "⏎", "b", "⏎"]
    assert "a map of 200 x 200 cells" in html_map(square(200))
