"""The report of runs on pairs: error rates, the confusion matrix of symbols and the most frequent edits."""

from collections import Counter
from pathlib import Path

import pytest
from test_pairs_cli import CONFIG, WORDS, write

from seq2attn.inference.edits import Edit
from seq2attn.pages.report import collect
from seq2attn.pages.report_errors import matrix
from seq2attn.pages.report_page import render
from seq2attn.runs.run import Run


@pytest.fixture
def run(cli, tmp_path):
    """A run called `words`, measured on test.tsv."""
    write("train.tsv", WORDS)
    write("dev.tsv", ["bb", "aa", "ab"])
    write("test.tsv", ["bba", "aab"], more=["cab\tk t͡ʃ o", "b\tx"])
    Path("pairs.yaml").write_text(CONFIG)
    for name, seed in (("words", 1), ("more", 2)):
        done = cli("train", "-c", "pairs.yaml", "--set", f"seed={seed}", "--name", name, "--device", "cpu")
        assert done.code == 0, done.err
    assert cli("eval", "words", "--data", "test.tsv").code == 0
    return Run(tmp_path / "runs" / "words")


def test_the_matrix_by_hand():
    """a stands 10 times: 3 times b is written, once nothing; c twice, once as d; one b is added."""
    confusions = {Edit("a", "b"): 3, Edit("a", ""): 1, Edit("c", "d"): 1, Edit("", "b"): 1}
    assert matrix(confusions, Counter(a=10, b=5, c=2)) == {
        "rows": ["a", "c"],
        "columns": ["a", "c", "b", "", "d"],
        "shares": [[0.6, 0, 0.3, 0.1, 0], [0, 0.5, 0, 0, 0.5]],
    }
    assert matrix({}, Counter(a=1)) == {"rows": [], "columns": [], "shares": []}


def test_rates_and_errors_in_the_report(run):
    (content,) = collect([run])["runs"]
    status = run.status()
    assert (content["summary"]["WER"], content["summary"]["SER"]) == (
        pytest.approx(status.wer),
        pytest.approx(status.ser),
    )
    assert content["curves"]["wer"][-1] == [run.status().step, pytest.approx(status.wer)]
    found = content["errors"]
    assert (found["file"], found["words"]) == ("test.tsv", 4)
    edits = {(right, written): (count, occurs, words) for right, written, count, occurs, words in found["edits"]}
    wrong = [key for key in edits if key[0] == "x"]
    assert [edits[key] for key in wrong] == [(1, 1, ["b"])]  # the model cannot write it
    assert "x" in found["matrix"]["rows"]
    assert all(sum(row) <= 1.001 for row in found["matrix"]["shares"])


def test_a_run_that_was_not_measured_on_a_file_has_no_errors(run):
    (content,) = collect([Run(run.path.parent / "more")])["runs"]
    assert content["errors"] is None


def test_runs_lists_the_word_error_rate(cli, run):
    header, *rows = [line.split("\t") for line in cli("runs").out.splitlines()]
    at = header.index("WER")
    assert {row[at] for row in rows if row[0] == "words"} == {f"{run.status().wer:.3f}"}


def test_the_page_draws_the_matrix(browser, run, tmp_path):
    page = tmp_path / "page.html"
    page.write_text(render(collect([run, Run(run.path.parent / "more")]), "errors"), encoding="utf-8")
    browser.resize(1200, 900)
    browser.open(page)
    assert browser.run("return document.querySelectorAll('#errors svg').length") == 1
    cells = browser.run("return document.querySelectorAll('#errors svg rect.cell').length")
    shares = collect([run])["runs"][0]["errors"]["matrix"]["shares"]
    assert cells == len(shares) * len(shares[0])
    firsts = browser.run("return [...document.querySelectorAll('#errors tbody th')].map(one => one.textContent)")
    assert "x" in firsts
    browser.run("document.querySelector('#runs button').click()")  # hides the run that has errors
    assert browser.run("return document.querySelector('#errors').hidden") is True
    assert browser.console() == []
