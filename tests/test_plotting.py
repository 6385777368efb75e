import io
import struct
from xml.etree import ElementTree

import matplotlib.image
import numpy as np
import pytest
from rich.cells import cell_len
from rich.console import Console

from seq2attn.errors import Seq2AttnError
from seq2attn.evaluation import LengthResult
from seq2attn.heatmap import heat_map, legend
from seq2attn.plotting.accuracy import accuracy_figure
from seq2attn.plotting.attention import attention_figure
from seq2attn.plotting.style import check_format, save_figure
from seq2attn.prediction import Prediction
from seq2attn.statistics import Estimate

WEIGHTS = ((0.0, 0.25, 0.75), (0.5, 0.5, 0.0))


def prediction(source="ab", output="b", weights=WEIGHTS, *, columns=None, rows=None):
    columns = columns or (*source, "<eos>")
    rows = rows or (*output, "<eos>")
    return Prediction(source, output, True, columns, rows, weights)


def square(side):
    """A prediction whose heat map has this many characters a side."""
    row = tuple(1.0 if column == 0 else 0.0 for column in range(side))
    return prediction(columns=side * ("a",), rows=side * ("a",), weights=side * (row,))


def panels(figure):
    """The figure's heat maps, without the colour bar and the places left empty."""
    return [axes for axes in figure.axes if axes.images and axes.get_xlabel() == "source"]


def texts(labels):
    return [label.get_text() for label in labels]


def refusal(call, *arguments):
    with pytest.raises(Seq2AttnError) as caught:
        call(*arguments)
    return caught.value.message


# ---- attention ----


def test_the_picture_is_the_weights():
    (panel,) = panels(attention_figure([prediction()]))
    (image,) = panel.images
    np.testing.assert_array_equal(image.get_array(), np.array(WEIGHTS))
    assert image.get_clim() == (0.0, 1.0)
    assert image.origin == "upper"  # the first output at the top


def test_rows_are_output_and_columns_are_source():
    (panel,) = panels(attention_figure([prediction("ab", "b")]))
    assert list(panel.get_xticks()) == [0, 1, 2]
    assert list(panel.get_yticks()) == [0, 1]
    assert texts(panel.get_xticklabels()) == ["a", "b", "⏎"]
    assert texts(panel.get_yticklabels()) == ["b", "⏎"]
    assert (panel.get_xlabel(), panel.get_ylabel()) == ("source", "output")
    assert panel.get_title() == "ab → b"


def test_spaces_special_tokens_and_signs_of_mathematics_are_labelled():
    columns = ("<sos>", " ", "$", "<pad>", "<eos>", "_", "é")
    (panel,) = panels(attention_figure([prediction(columns=columns, weights=(7 * (1 / 7,), 7 * (0.0,)))]))
    assert texts(panel.get_xticklabels()) == ["⊢", "␣", r"\$", "∅", "⏎", "_", "é"]  # matplotlib shows \$ as $


def test_each_prediction_has_its_panel():
    several = [prediction(name, "b") for name in ("ab", "cd", "ef", "gh", "ij")]
    found = panels(attention_figure(several))
    assert [panel.get_title() for panel in found] == ["ab → b", "cd → b", "ef → b", "gh → b", "ij → b"]
    assert [texts(panel.get_xticklabels())[:2] for panel in found[3:]] == [["g", "h"], ["i", "j"]]


def test_a_long_string_has_a_short_title():
    (panel,) = panels(attention_figure([prediction("a" * 30, "b" * 24, (31 * (0.0,), *24 * (31 * (0.0,),)))]))
    assert panel.get_title() == f"{'a' * 23}… → {'b' * 24}"


def test_without_weights_there_is_nothing_to_draw():
    message = refusal(attention_figure, [prediction(), prediction(weights=None)])
    assert "no attention to draw" in message
    assert "score 'none'" in message


def test_a_string_too_long_to_be_seen_is_refused():
    assert len(panels(attention_figure([square(200)]))) == 1
    assert "at most 200" in refusal(attention_figure, [square(201)])


# ---- accuracy by length ----


def result(length, value, *, trained=True):
    estimate = Estimate(value, value * 0.75, (1 + value) / 2)
    return LengthResult(length, 10, trained, estimate, Estimate(1.0, 0.9, 1.0), Estimate(0.5, 0.4, 0.6), None, None)


def shaded(axes):
    """The lengths on a grey ground."""
    return [patch.get_x() + patch.get_width() / 2 for patch in axes.patches]


def test_accuracy_is_drawn_at_each_length_with_its_interval():
    (axes,) = accuracy_figure([result(3, 0.8), result(5, 0.4)], "mine").axes
    exact, characters, forced = axes.containers
    assert exact.get_label() == "exact match (greedy)"
    assert exact.lines[0].get_xydata().tolist() == [[3, 0.8], [5, 0.4]]
    bars = [segment.tolist() for segment in exact.lines[2][0].get_segments()]
    np.testing.assert_allclose(bars, [[[3, 0.6], [3, 0.9]], [[5, 0.3], [5, 0.7]]])
    assert characters.lines[0].get_ydata().tolist() == [1.0, 1.0]
    assert forced.lines[0].get_ydata().tolist() == [0.5, 0.5]
    assert axes.get_title(loc="left") == "mine"
    assert shaded(axes) == []
    assert axes.get_xlabel() == "string length"


def test_lengths_never_trained_are_marked():
    results = [result(1, 1.0), result(2, 1.0), result(4, 0.5, trained=False), result(9, 0.0, trained=False)]
    (axes,) = accuracy_figure(results, "").axes
    assert shaded(axes) == [4, 9]
    assert "grey: never seen in training" in axes.get_xlabel()


def test_many_lengths_have_few_ticks():
    (axes,) = accuracy_figure([result(length, 1.0) for length in range(1, 101)], "").axes
    ticks = list(axes.get_xticks())
    assert ticks == list(range(1, 101, 5))


# ---- files ----


def test_a_png_is_written(tmp_path):
    save_figure(attention_figure([prediction()]), tmp_path / "map.png")
    data = (tmp_path / "map.png").read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", data[16:24])
    assert min(width, height) > 100
    assert len(np.unique(matplotlib.image.imread(io.BytesIO(data)).reshape(-1, 4), axis=0)) > 50


def test_an_svg_is_written(tmp_path):
    save_figure(accuracy_figure([result(3, 0.8)], "mine"), tmp_path / "accuracy.svg")
    root = ElementTree.parse(tmp_path / "accuracy.svg").getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert len(list(root.iter("{http://www.w3.org/2000/svg}path"))) > 10


def test_a_pdf_is_written_whatever_the_case_of_its_name(tmp_path):
    save_figure(accuracy_figure([result(3, 0.8)], ""), tmp_path / "ACCURACY.PDF")
    assert (tmp_path / "ACCURACY.PDF").read_bytes().startswith(b"%PDF-")


@pytest.mark.parametrize("name", ["map", "map.", "map.jpg", "map.png.txt", ".png"])
def test_another_ending_is_refused(tmp_path, name):
    message = refusal(check_format, tmp_path / name)
    assert message.startswith(f"{tmp_path / name}: ")
    assert "one of .png, .svg, .pdf" in message
    assert not message.endswith("; ")


def test_a_near_miss_of_an_ending_is_guessed(tmp_path):
    assert "did you mean 'png'?" in refusal(check_format, tmp_path / "map.pngg")


def test_a_missing_directory_is_refused(tmp_path):
    assert "there is no directory" in refusal(check_format, tmp_path / "missing" / "map.png")


def test_a_refused_file_is_not_made(tmp_path):
    refusal(save_figure, accuracy_figure([result(3, 0.8)], ""), tmp_path / "map.jpg")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / "map.png").mkdir()
    assert "cannot be written" in refusal(save_figure, accuracy_figure([result(3, 0.8)], ""), tmp_path / "map.png")


# ---- in the terminal ----


def console(width=80, *, colours=None):
    return Console(file=io.StringIO(), width=width, color_system=colours, force_terminal=True, _environ={})


@pytest.mark.parametrize("colours", [None, "standard"])  # 16 colours cannot tell ten weights apart
def test_without_colours_weights_are_shades(colours):
    #  0 -> ' ', then a tenth a sign: . : - = + * # % @
    row = (0.0, 0.09, 0.11, 0.29, 0.31, 0.49, 0.51, 0.69, 0.71, 0.89, 0.91, 1.0)
    drawn = heat_map(prediction("abcdefghijk", "x", (row, row[::-1])), console(colours=colours))
    assert drawn.plain.split("\n") == [
        "    a b c d e f g h i j k $",
        "  x     ..::--==++**##%%@@@@",
        "  $ @@@@%%##**++==--::..    ",
    ]


def test_the_reader_who_wants_no_colour_gets_shades():
    plain = Console(file=io.StringIO(), width=80, color_system="256", force_terminal=True, _environ={"NO_COLOR": "1"})
    drawn = heat_map(prediction("a", "x", ((0.31, 1.0), (0.0, 0.51))), plain)
    assert drawn.plain.split("\n")[1:] == ["  x --@@", "  $   ++"]


def test_special_tokens_and_spaces_have_signs_of_one_character():
    drawn = heat_map(prediction(columns=("<sos>", " ", "<pad>"), rows=(" ", "<eos>")), console())
    lines = drawn.plain.split("\n")
    assert lines[0] == "    ^ _ 0"
    assert [line[:4] for line in lines[1:]] == ["  _ ", "  $ "]


def test_every_column_stands_under_its_character_whatever_its_width():
    drawn = heat_map(prediction("文b", "é", ((0.0, 1.0, 0.0), (0.0, 0.0, 1.0))), console())
    assert drawn.plain.split("\n") == ["    文b $", "  é   @@  ", "  $     @@"]  # 文 is two cells wide
    assert [cell_len(part) for part in drawn.plain.split("\n")[0].split("b")] == [6, 2]


@pytest.mark.parametrize("colours", ["truecolor", "256"])
def test_with_colours_each_weight_is_a_ground(colours):
    drawn = heat_map(prediction(weights=((0.0, 0.5, 1.0), (1.0, 0.0, 0.0))), console(colours=colours))
    assert drawn.plain.split("\n")[1] == "  b       "
    grounds = [str(span.style) for span in drawn.spans if "on rgb" in str(span.style)]
    dark, middle, bright = "on rgb(0,34,78)", "on rgb(125,124,120)", "on rgb(254,232,56)"
    assert grounds == [dark, middle, bright, bright, dark, dark]


def rgb(weight):
    drawn = heat_map(prediction("", "", ((weight,),)), console(colours="truecolor"))
    (ground,) = [str(span.style) for span in drawn.spans if "on rgb" in str(span.style)]
    return [int(part) for part in ground.removeprefix("on rgb(").removesuffix(")").split(",")]


@pytest.mark.parametrize("eighths", range(9))
def test_colours_are_those_of_the_figures(eighths):
    cividis = matplotlib.colormaps["cividis"](eighths / 8)
    np.testing.assert_allclose(rgb(eighths / 8), 255 * np.array(cividis[:3]), atol=3)


def test_between_two_colours_lies_their_mean():
    assert rgb(1 / 16) == [13, 45, 94]  # of (0, 34, 78) and (26, 56, 111)


@pytest.mark.parametrize(("width", "fits"), [(10, True), (9, False), (1, False)])
def test_a_map_wider_than_the_terminal_is_left_out(width, fits):
    assert (heat_map(prediction(), console(width)) is not None) == fits  # 4 + 2 for each of 3 columns


@pytest.mark.parametrize("weights", [None, ()])
def test_without_weights_there_is_no_map(weights):
    assert heat_map(prediction(weights=weights), console()) is None


@pytest.mark.parametrize(
    ("columns", "rows", "expected"),
    [
        (("a",), ("a",), "rows: output, columns: source, bright: looked at"),
        (("a", "<eos>"), ("a",), "rows: output, columns: source, $ <eos>, bright: looked at"),
        (("a",), ("a", "<eos>"), "rows: output, columns: source, $ <eos>, bright: looked at"),
        ((" ",), ("<eos>",), "rows: output, columns: source, $ <eos>, _ space, bright: looked at"),
    ],
)
def test_the_legend_explains_the_signs_that_are_used(columns, rows, expected):
    assert legend(prediction(columns=columns, rows=rows)) == expected
