import json
import re
from dataclasses import asdict
from pathlib import Path

import measured
import pytest

from seq2attn.config import check_config
from seq2attn.inference.maps import AttentionMap
from seq2attn.pages.report import collect, curves, flat, number, thinned
from seq2attn.pages.report_page import embedded, render
from seq2attn.runs.making import create_run
from seq2attn.runs.records import read_metrics

NASTY = "</script><!--\"'&{{data}}"
ALPHABET = "</script>&\"'"


def length(number, exact, *, trained=True, attends=True):
    shares = {"exact_match": exact, "character_accuracy": 0.9, "teacher_forced": 0.95}
    shares |= {"alignment": 0.75} if attends else {}
    rows = [measured.row(name, number, one, one / 2, (1 + one) / 2, trained=trained) for name, one in shares.items()]
    rows += [measured.row("entropy", number, 0.5, trained=trained)] if attends else []
    return list(map(asdict, rows))


def one_map(source, output, weight):
    other = 1 - weight
    symbols = tuple(source)
    rows = tuple(tuple(weight if i == j else other for j in range(len(source))) for i in range(len(output) + 1))
    ideal = tuple(range(len(source)))[::-1]
    return AttentionMap(source, output, symbols, (*output, "<eos>"), rows, ideal)


def make_run(root, name, *overrides, alphabet="ab<>/one tw", attends=True):
    """A run as training leaves it, without a model."""
    config = check_config({"model": {"hidden": 4, "embedding": 2}, "task": {"alphabet": alphabet}}, overrides)
    run = create_run(
        root, name, config, {"created": "2030-01-01T12:00:00+00:00", "command": ["train", NASTY]}, exact=True
    )
    lines = [
        {"step": step, "loss": 4 / step, "accuracy": step / 20, "tokens_per_second": 1000.0} for step in range(1, 21)
    ]
    lines[3]["loss"] = float("nan")
    lines.append({"step": 20, "evaluation": [*length(1, 1.0), *length(2, 0.25), *length(3, 0.0, trained=False)]})
    if not attends:
        lines[-1]["evaluation"] = length(1, 1.0, attends=False)
    run.metrics_file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    if attends:
        snapshots = []
        for step in (10, 20):
            maps = [one_map("ab", "ba", 0.5 + step / 100), one_map(f"</{name[0]}>", "x", 0.25)]
            snapshots.append({"step": step, "maps": [one.to_json() for one in maps]})
        run.attention_file.write_text("".join(f"{json.dumps(one)}\n" for one in snapshots))
    run.status_file.write_text(json.dumps({"state": "finished", "step": 20, "exact_match_worst": 0.25}))
    return run


@pytest.fixture
def two_runs(tmp_path):
    root = tmp_path / "runs"
    return [make_run(root, "one"), make_run(root, "two", "model.attention.score=dot", alphabet=ALPHABET)]


# ---- what a report is made of ----


def test_embedded_json_has_no_markup():
    text = embedded({NASTY: ["é\u2028", 1.5, None]})
    assert not re.search(r"[<>&]|[^ -~]", text)
    assert json.loads(text) == {NASTY: ["é\u2028", 1.5, None]}


def test_nan_cannot_be_embedded():
    with pytest.raises(ValueError, match="not JSON compliant"):
        embedded(float("nan"))


def test_the_page_refers_to_no_other_file(two_runs):
    page = render(collect(two_runs), NASTY)
    assert not re.search(r"""(src|href)=["'](?!data:)""", page)
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", page)
    assert page.count("</script>") == 2
    assert "{{" not in page.replace(NASTY, "").replace("{{data}}", "")
    assert "<title>&lt;/script&gt;" in page


def test_curves_are_means_over_trained_lengths_and_never_nan(two_runs):
    found = curves(read_metrics(two_runs[0]))
    assert found["loss"][:4] == [[1, 4.0], [2, 2.0], [3, pytest.approx(4 / 3, rel=1e-5)], [4, None]]
    assert found["exact_match_mean"] == [[20, 0.625]]  # of 1 and 0.25; length 3 was not trained
    assert found["exact_match_worst"] == [[20, 0.25]]
    assert found["entropy"] == [[20, 0.5]]
    assert "gradient_norm" not in found


def test_numbers_are_not_rounded_before_the_page_rounds_them():
    assert f"{number(1.68065049):.4f}" == "1.6807"  # six digits, 1.68065, would give 1.6806
    assert [number(value) for value in (float("nan"), float("inf"), True, "1", None)] == [None] * 5


def test_thinned_curves_keep_both_ends():
    points = [[step, 0.0] for step in range(1001)]
    kept = thinned(points)
    assert (kept[0], kept[-1]) == (points[0], points[-1])
    assert 300 <= len(kept) <= 402
    assert thinned(points[:5]) == points[:5]
    assert thinned([]) == []


def test_nested_settings_get_dotted_names():
    assert flat({"a": {"b": 1, "c": {}}, "d": [1, 2], "e": None}) == {"a.b": 1, "a.c": "{}", "d": "1 2", "e": None}


def test_a_run_without_attention_is_reported_too(tmp_path):
    run = make_run(tmp_path, "plain", "model.attention.score=none", attends=False)
    (record,) = collect([run])["runs"]
    assert record["attention"] == []
    assert record["lengths"]["rows"][0]["alignment"] is None
    assert "entropy" not in record["curves"]


def test_a_run_that_was_never_trained_is_reported(tmp_path):
    run = create_run(tmp_path, "new", check_config({}), {}, exact=True)
    (record,) = collect([run])["runs"]
    assert (record["curves"], record["lengths"], record["attention"]) == ({}, None, [])
    assert record["parameters"]["total"] > 0


def test_the_last_eval_takes_precedence_over_training(two_runs):
    run = two_runs[0]
    record = {"checkpoint": "best", "seed": 0, "rows": [*length(2, 1.0), *length(10, 1.0)]}
    run.evaluations.mkdir()
    (run.evaluations / "best-001.json").write_text(json.dumps(record))
    (run.evaluations / "best-002.json").touch()  # an `eval` that is still running
    lengths = collect([run])["runs"][0]["lengths"]
    assert lengths["source"] == "eval, best-001.json"
    assert [row["length"] for row in lengths["rows"]] == [2, 10]


# ---- the command ----


def test_report_prints_the_path_of_the_page(cli, runs_copy):
    done = cli("report", "tiny", "--to", "page.html")
    assert (done.code, done.out) == (0, "page.html\n")
    assert "<title>seq2attn: tiny</title>" in Path("page.html").read_text()


def test_a_report_is_replaced_with_a_note_and_any_other_file_is_kept(cli, runs_copy):
    assert cli("report", "tiny").err == ""
    done = cli("report")
    assert done.code == 0
    assert "replaced report.html, a report of tiny\n" in done.err
    Path("mine.html").write_text("<title>My page</title>")
    done = cli("report", "tiny", "--to", "mine.html")
    assert done.code == 2
    assert done.err == "error: mine.html exists and is not a report\nName another file with --to FILE.\n"
    assert Path("mine.html").read_text() == "<title>My page</title>"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--to", "page.txt"), "a report's file name ends with .html"),
        (("--to", "missing/page.html"), "there is no directory missing"),
        (("tine",), "did you mean 'tiny'?"),
    ],
)
def test_mistakes_are_errors(cli, runs_copy, arguments, message):
    done = cli("report", *arguments)
    assert done.code == 2
    assert message in done.err
    assert not Path("report.html").exists()


def test_a_damaged_record_is_an_error_with_its_line(cli, runs_copy):
    file = runs_copy / "tiny" / "metrics.jsonl"
    file.write_text("{}\nno json\n")
    done = cli("report", "tiny")
    assert done.code == 2
    assert done.err == (
        "error: runs/tiny/metrics.jsonl:1: not a valid record: step: is missing\nRemove that line; the others are kept.\n"
    )
    file.write_text('{"step": 1, "loss": 1}\nno json\n')
    assert "metrics.jsonl:2: not a valid record: it is not valid JSON\n" in cli("report", "tiny").err
    evaluations = runs_copy / "tiny" / "evaluations"
    evaluations.mkdir(exist_ok=True)
    (evaluations / "best-001.json").write_text('{"lengths": \n')
    file.write_text("")
    message = cli("report", "tiny").err
    assert (
        "best-001.json:2: not a valid record: it is not valid JSON\nRemove that file; `seq2attn eval` makes another."
        in message
    )


def test_a_partial_last_line_is_ignored(two_runs):
    run = two_runs[0]
    with run.metrics_file.open("a") as file:
        file.write('{"step": 21, "lo')
    assert read_metrics(run).steps[-1].step == 20


# ---- in a browser ----


@pytest.fixture
def page(browser, two_runs, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(render(collect(two_runs), f"report {NASTY}"), encoding="utf-8")
    browser.resize(1200, 900)
    browser.open(path)
    yield browser
    assert browser.console() == []  # no error, no network request


def test_the_page_shows_every_part(page):
    headings = page.run("return [...document.querySelectorAll('section:not([hidden]) h2')].map(one => one.textContent)")
    assert headings == [
        "Summary",
        "Training",
        "Accuracy by string length",
        "Attention",
        "Config",
        "Parameters",
        "Environment",
    ]
    assert page.run("return document.title") == f"report {NASTY}"
    assert page.run("return document.querySelectorAll('#curves svg path').length") == 2 * 7  # two runs, seven curves
    assert page.run("return document.querySelectorAll('#attention .map').length") == 2
    assert NASTY in page.run("return document.querySelector('#environment').textContent")


def test_the_total_is_last_and_log_axes_have_round_ticks(page):
    parts = page.run("return [...document.querySelectorAll('#parameters tbody th')].map(one => one.textContent)")
    assert parts[-1] == "total"
    assert page.run("return decades(-0.5, 1.1).map(n => shown(10 ** n))") == ["0.5", "1", "2", "5", "10"]
    assert page.run("return decades(-3.2, 0.4).map(n => shown(10 ** n))") == ["0.001", "0.01", "0.1", "1"]


def test_only_the_keys_that_differ_are_shown_first(page):
    rows = "return [...document.querySelectorAll('#config tbody tr')].map(row => [...row.cells].map(one => one.textContent))"
    assert page.run(rows) == [
        ["task.alphabet", "ab<>/one tw", ALPHABET],
        ["model.attention.score", "scaled", "dot"],
    ]
    page.run("document.querySelector('#config input').click()")
    assert len(page.run(rows)) > 20


def test_shares_have_three_digits_and_empty_rows_are_hidden(page):
    heads = page.run("return [...document.querySelectorAll('#summary thead th')].map(one => one.textContent)")
    row = page.run("return [...document.querySelector('#summary tbody tr').cells].map(one => one.textContent)")
    assert row[heads.index("exact match, worst")] == "0.250"
    page.run(
        "for (const run of RUNS) Object.assign(run.environment, {device_name: null, plugins: ''}); drawEnvironment()"
    )
    keys = page.run("return [...document.querySelectorAll('#environment tbody th')].map(one => one.textContent)")
    assert keys == ["command"]


def test_choosing_a_string_switches_the_maps(page):
    title = "return [...document.querySelectorAll('#attention .map p')].map(one => one.textContent)"
    assert page.run(title) == ["ab → ba", "ab → ba"]
    page.run(
        "const box = document.querySelector('#attention select'); box.value = 1; box.dispatchEvent(new Event('change'))"
    )
    assert page.run(title) == ["</o> → x", "no attention recorded for this string"]


def test_the_slider_goes_back_in_training(page):
    fill = "return document.querySelector('#attention rect.cell').getAttribute('fill')"
    last = page.run(fill)
    page.run(
        "const one = document.querySelector('input[type=range]'); one.value = 0; one.dispatchEvent(new Event('input'))"
    )
    assert page.run("return document.querySelector('#attention output').textContent") == "step 10"
    assert page.run(fill) != last


def test_axes_are_labelled_and_cells_have_numbers_on_request(page):
    labels = "return [...document.querySelectorAll('%s svg:first-of-type .axis')].map(one => one.textContent)"
    assert page.run(labels % "#curves .chart:first-child") == ["step", "nats per token, log scale"]
    assert page.run(labels % "#lengths") == ["string length", "exact match"]
    assert page.run(labels % "#attention .map:first-child") == ["source", "output"]
    numbers = "return [...document.querySelectorAll('#attention .map:first-child .digits')].map(one => one.textContent)"
    assert page.run(numbers) == []
    page.run("document.querySelectorAll('#attention input[type=checkbox]')[1].click()")
    # 0.5 + 20 / 100 on the diagonal and 0.3 elsewhere, in 3 rows of 2
    assert page.run(numbers) == [".70", ".30", ".30", ".70", ".30", ".30"]
    assert page.run("return [0, 0.004, 0.005, 0.994, 0.996, 1].map(digits)") == ["0", "0", ".01", ".99", "1", "1"]


def test_one_run_shows_all_its_strings_in_cells_of_one_size(browser, two_runs, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(render(collect(two_runs[:1]), "one"), encoding="utf-8")
    browser.resize(1400, 900)
    browser.open(path)
    titles = "return [...document.querySelectorAll('#attention .map p')].map(one => one.textContent)"
    assert browser.run(titles) == ["ab → ba", "</o> → x"]
    cells = "[...document.querySelectorAll('#attention .map')].map(one => one.querySelector('.cell'))"
    sides = browser.run(f"return {cells}.map(one => one.getBoundingClientRect().width)")
    assert max(sides) - min(sides) < 0.5
    assert min(sides) > 40
    page_width = browser.run("return document.querySelector('#summary').getBoundingClientRect().width")
    assert page_width > 1300
    browser.run(
        "const box = document.querySelector('#attention select'); box.value = 1; box.dispatchEvent(new Event('change'))"
    )
    assert browser.run(titles) == ["</o> → x"]


HOVER = """
const target = document.querySelector('%s');
const box = target.getBoundingClientRect();
const at = {clientX: box.left + %s * box.width, clientY: box.top + %s * box.height, bubbles: true};
target.dispatchEvent(new PointerEvent('pointermove', at));
return document.getElementById('tip').hidden ? '' : document.getElementById('tip').innerText;
"""


def test_pointing_at_a_cell_shows_its_weight(page):
    # 44 of margin and cells of 24: the middle of row 2, column 1, in a map of 2 columns and 3 rows
    text = page.run(HOVER % ("#attention svg", (44 + 12) / 96, (44 + 36) / 120))
    assert "output a (2), source a (1)" in text
    assert "0.300" in text  # 1 - (0.5 + 20 / 100)


def test_pointing_at_a_curve_shows_its_value(page):
    text = page.run(HOVER % ("#curves svg", 0.999, 0.5))
    assert text.split() == ["step", "20", "one", "0.2", "two", "0.2"]


def test_the_last_visible_run_cannot_be_hidden(page):
    count = "return document.querySelectorAll('#summary tbody tr').length"
    for button, left in ((0, 1), (1, 1), (0, 2)):
        page.run(f"document.querySelectorAll('nav button')[{button}].click()")
        assert page.run(count) == left


@pytest.mark.parametrize("width", [390, 1200])
def test_nothing_is_wider_than_the_window(page, width):
    page.resize(width, 844)
    assert page.run("return document.documentElement.scrollWidth") <= width
    chart = page.run("return document.querySelector('#curves svg').getBoundingClientRect().width")
    assert 250 < chart < width


def test_the_summary_of_runs_with_long_names_is_not_cut(browser, tmp_path):
    names = [f"compare-scaled-mask_padding_{word}-hidden_96-seed_10" for word in ("true", "false")]
    path = tmp_path / "page.html"
    path.write_text(render(collect([make_run(tmp_path / "runs", name) for name in names]), "long"), encoding="utf-8")
    browser.resize(1100, 900)
    browser.open(path)
    left = "const box = document.querySelector('#summary .scroll'); return box.scrollWidth - box.clientWidth"
    assert browser.run(left) == 0
