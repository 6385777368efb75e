"""`eval` and `predict` for a run on pairs of strings from files."""

import contextlib
import re
import shutil
from functools import partial

import pytest
from inline import read, read_json, write
from measured import value_of
from tables import table

import seq2attn
from seq2attn.config.yaml_files import shipped_folder
from seq2attn.pages.page import run_models

CONFIG = """\
task: {name: pairs, train: train.tsv, dev: dev.tsv, target_separator: " "}
model: {hidden: 8, embedding: 4}
training: {epochs: 2, batch_size: 4, snapshots: 1}
"""
WORDS = "ab ba aab abb b a bab aba".split()


def spelled(word):
    return " ".join({"a": "t͡ʃ", "b": "o"}[letter] for letter in word)


def write_pairs(path, words, more=""):
    write(path, "".join(f"{word}\t{spelled(word)}\n" for word in words) + more)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with the files, and three runs: `words`, `more` with another seed, `turned` with the
    columns turned.
    """
    folder = tmp_path_factory.mktemp("pairs")
    turned = ["task.source_column=2", "task.target_column=1", "task.target_separator=''"]
    with contextlib.chdir(folder):
        write_pairs("train.tsv", WORDS)
        write_pairs("dev.tsv", ["bb", "aa", "ab"])
        write_pairs("test.tsv", ["bba", "aab"], more="cab\tk t͡ʃ o\nb\tx\n")
        write("pairs.yaml", CONFIG)
        for name, overrides in (("more", ["seed=5"]), ("turned", turned), ("words", [])):
            seq2attn.train("pairs.yaml", overrides, name=name, device="cpu", progress=False)
    return folder


@pytest.fixture
def run(cli, trained, tmp_path):
    """The run called `words`, in the working directory with its files and the other runs."""
    shutil.copytree(trained, tmp_path, dirs_exist_ok=True)
    return tmp_path / "runs/words"


def measured(done):
    """(metric, length) -> samples, value"""
    return {
        (row["metric"], row["length"]): (int(row["samples"]), float(row["value"]))
        for row in done.rows()
    }


def test_a_page_begins_with_the_strings_whose_attention_was_recorded(run):
    (shown,) = run_models([seq2attn.Run(run)], examples=["ab"])
    recorded = [source for source in ("bb", "aa", "ab") if source in shown.examples[1:]]
    assert shown.examples[0] == "ab"
    assert sorted(shown.examples[1:]) == sorted(recorded) != []


def cells(text):
    """The cells of lines that tabs separate."""
    return [line.split("\t") for line in text.splitlines()]


def answers(cli, words):
    return dict(cells(cli("predict --run words", *words).out))


def test_eval_is_kept_with_the_run_and_says_on_which_file(cli, run, blank_figures):
    record = cli("eval words --data dev.tsv --json").json
    assert record["data"]["name"] == "dev.tsv"
    assert record["data"]["pairs"] == record["rows"][0]["samples"] == 3
    assert {one["source"] for one in record["answers"]} == {"bb", "aa", "ab"}
    (kept,) = run.joinpath("evaluations").glob("best-*.json")
    assert read_json(kept) == record
    cli("plot accuracy words --plot accuracy.png").check()
    for line, name in (("words", "words"), ("words more --ensemble", "words + more")):
        beamed = cli(f"eval {line} --data dev.tsv --beam 3 --json").json
        assert (beamed["run"], len(beamed["answers"])) == (name, 3)
    assert len(list(run.joinpath("evaluations").iterdir())) == 1


def test_the_errors_of_a_file(cli, run):
    done = cli("eval words --data test.tsv --errors errors.tsv")
    assert "wrong answers: errors.tsv" in done.err
    header, *rows = cells(read("errors.tsv"))
    assert header == "source features right answer edits what".split()
    found = answers(cli, "bba aab cab b".split())
    assert {"cab", "b"} <= {row[0] for row in rows}
    for source, _, _, answer, edits, what in rows:
        assert answer == found[source]
        assert len(what.replace("(cut off)", "").split()) == int(edits)
    assert [int(row[4]) for row in rows] == sorted(int(row[4]) for row in rows)


def test_a_file_that_the_model_was_trained_on_is_noted(cli, run):
    for file, words in (("dev.tsv", 3), ("train.tsv", 8)):
        done = cli("eval words --data", file)
        assert measured(done)["wer", ""][0] == words
        assert ("words was trained on this file" in done.err) == (file == "train.tsv")


def test_words_are_counted_by_source_or_by_line(cli, run):
    text = read("test.tsv")
    write("tokens.tsv", text + 2 * text[: text.index("\n") + 1])
    right = dict(cells(text))
    found = answers(cli, right)
    wrong = [found[word] != right[word] for word in right]
    for per, several in (("", 0), ("--per type", 0), ("--per token", 2)):
        count, rate = measured(cli(f"eval words --data tokens.tsv {per}"))["wer", ""]
        assert count == 4 + several
        assert rate == pytest.approx((sum(wrong) + several * wrong[0]) / count)


def test_two_runs_are_compared_on_the_words_that_only_one_has_right(cli, run):
    alone = [
        cli("eval --data train.tsv --json", name).json["answers"] for name in ("words", "more")
    ]
    first, second = ([not one["edits"] and one["finished"] for one in some] for some in alone)
    one, other = cli("eval words more --data train.tsv --paired --json").json
    both = list(zip(first, second, strict=True))
    assert other["only_it_right"] == both.count((False, True))
    assert other["only_the_first_right"] == both.count((True, False))
    assert one["wer"] == pytest.approx(1 - sum(first) / len(first))
    assert one["p"] is None
    assert 0 < other["p"] <= 1
    shown = cli("eval words more --data train.tsv", terminal=True).out
    assert "error rates on train.tsv" in shown
    assert re.search("run +n +WER, % +SER, % +CUT OFF, %", shown)
    assert re.search("\n *words +8 .*\n *more +8 ", shown)


def test_runs_that_read_other_words_are_not_paired(cli, run):
    refusal = cli("eval words turned --data dev.tsv --paired").refusal
    assert "A = turned, B = words: A and B were measured on different words" in refusal
    assert "only A has 'o o'" in refusal


def test_a_table_for_a_paper_has_rates_intervals_differences_and_seeds(cli, run):
    cli("eval words more --data train.tsv --latex tables/a_b.tex").check()
    comments, table = read("tables/a_b.tex").split("\\begin{tabular}")
    header, *rows = [
        row.removesuffix(r" \\").split(" & ") for row in table.splitlines() if " & " in row
    ]
    one, other = (dict(zip(header, row, strict=True)) for row in rows)
    assert comments.startswith("% seq2attn eval words more --data train.tsv --latex tables/a_b.tex")
    pair = cli("eval words more --data train.tsv --paired --json").json
    assert (one["run"], one["seed"], other["run"], other["seed"]) == ("words", "1", "more", "5")
    for row, told in zip((one, other), pair, strict=True):
        assert float(row[r"WER, \%"].split()[0]) == pytest.approx(100 * told["wer"], abs=0.05)
    models = [seq2attn.load(name, runs_dir="runs") for name in ("words", "more")]
    words, more = (model.evaluate(data="train.tsv") for model in models)
    assert one["n"] == other["n"] == "8"
    shown = map(float, re.findall(r"[\d.-]+", other["difference"].replace("$", "")))
    expected = [100 * number for number in more.paired(words).difference]
    assert list(shown) == pytest.approx(expected, abs=0.06)
    assert float(other["p"]) == pytest.approx(pair[1]["p"], rel=0.01)
    assert one["difference"] == one["p"] == "--"
    assert "difference: in WER from words; p: exact permutation test" in comments


def test_lines_that_are_left_out_are_said_in_every_later_table(
    cli, run, trials_here, blank_figures
):
    for name in ("train.tsv", "test.tsv"):
        write(name, f"{read(name)}bad\n")
    left_out = "--set task.skip_bad=1 --set training.epochs=1"
    done = cli(f"train --config pairs.yaml {left_out} --name left --device cpu").check()
    assert "malformed lines left out of train.tsv: 1" in done.err
    both = {"train.tsv": 1, "test.tsv": 1}
    assert cli("eval left --data test.tsv --json").json["left_out"] == both
    shown = cli("eval left --data test.tsv", terminal=True)
    paired = cli("eval left words --data dev.tsv --paired", terminal=True)
    compared = cli(f"compare -c pairs.yaml --vary seed=1 -w 1 {left_out}", terminal=True)
    for done in (shown, paired, compared):
        assert "malformed lines left out of train.tsv: 1" in done.err, done
    assert "malformed lines left out of test.tsv: 1" in shown.err
    assert '"left_out": 1' in cli("inspect left").out
    assert '<th class="right">lines left out</th>' in read(cli("report left").check().out.strip())


# ---- predict ----


def predict_lines(cli, text, line="predict - --run words"):
    return cli(line, stdin=text).check().out


def test_words_and_lines_of_a_file_are_read(cli, run):
    words = predict_lines(cli, "ab\nbba\n")
    assert [row[0] for row in cells(words)] == ["ab", "bba"]
    assert predict_lines(cli, "ab\tx y\nbba\tanything\n") == words
    best = predict_lines(cli, "ab\n", "predict - --run words --n-best 2")
    assert list(map(len, cells(best))) == [3, 3]


@table(
    "text, says",
    r"""
"ab\nb\udce9\n" | line 2 of standard input: 'b\udce9' has a tab too many, or is not  # UTF-8
"ab\tx\ty\n" | line 1 of standard input: 'ab\tx\ty' has a tab too many
""",
    "text",
)
def test_lines_that_no_file_could_have_are_refused(cli, run, text, says):
    done = cli("predict - --run words", stdin=text)
    assert done.code == 2
    assert says in done.err
    assert cli("predict --run words", "ab\tx").code == 2


def test_symbols_that_the_model_never_saw_are_named(cli, run):
    done = cli("predict abc aé --run words").check()
    assert "symbols that the training file lacks, read as <unk>: 'c', 'é'" in done.err
    assert "read as <unk>" not in cli("predict ab --run words").err


def train_on(cli, text, keys):
    """Train `words` on a file of this text, which is read as these keys of the task say."""
    write("words.txt", text)
    files = "name: pairs, train: words.txt, dev: words.txt"
    sizes = "model: {hidden: 8, embedding: 4}\ntraining: {epochs: 1, batch_size: 2}\n"
    write("words.yaml", f"task: {{{files}, {keys}}}\n{sizes}")
    cli("train --config words.yaml --name words --device cpu").check()


def test_a_string_is_read_as_a_line_of_standard_input_is(cli):
    keys = "delimiter: ' ', variants: true, comment: '#', target_separator: ' '"
    train_on(cli, "a x\na(2) y\nab x y # old\n", keys)
    words = predict_lines(cli, "a\nab\n")
    assert predict_lines(cli, "a(2)\nab # old\n") == words
    done = cli("predict --run words", "a(2)", "ab # old").check()
    assert done.out == words
    assert done.err == cli("predict --run words", "a", "ab").err, "no unseen symbols"
    assert seq2attn.load("words", runs_dir="runs").predict("a(2)").source == "a"


def test_features_are_asked_for_after_a_tab(cli):
    forms = "go\twent\tV;PST\ngo\tgoes\tV;3SG\ndo\tdid\tV;PST\n"
    train_on(cli, forms, "features_column: 3")
    one = predict_lines(cli, "go\tV;PST\n")
    assert one.startswith("go\tV;PST\t")
    assert predict_lines(cli, "go\twent\tV;PST\n") == one
    done = cli("eval words --data words.txt --errors errors.tsv")
    assert measured(done)["wer", ""][0] == 3
    assert {row["family"] for row in done.rows()} == {""}
    assert ["go", "V;3SG", "goes"] in [row[:3] for row in cells(read("errors.tsv"))]


def test_standard_input_is_read_as_training_files_are(cli):
    text = "# ours\nid,word,pron\n1,ab,o\n2,b,a\n"
    keys = "delimiter: ',', header: true, comment: '#', source_column: 2, target_column: 3"
    train_on(cli, text, keys)
    words = predict_lines(cli, "ab\nb\n")
    assert [row[0] for row in cells(words)] == ["ab", "b"]
    done = cli("predict - --run words", stdin="id,word\n1,ab\n2,b\n")  # without the answers
    assert done.out == words
    assert predict_lines(cli, text) == words
    assert predict_lines(cli, 'id,word\n1,"ab"\n# 2,a\n2,b') == words


def test_python_measures_a_file_as_eval_does(cli, run):
    record = cli("eval words --data test.tsv --json").json
    assert {row["family"] for row in record["rows"]} == {None}  # of the families of drawn strings
    evaluate = partial(seq2attn.evaluate, "words", data="test.tsv", runs_dir=run.parent)
    found = evaluate()
    assert found.get("wer").value == value_of(record, "wer")
    assert seq2attn.load("words", runs_dir=run.parent).evaluate(data="test.tsv").rows == found.rows
    evaluate(per="token")
    evaluate(temperature=2.0)
    assert len(list((run / "evaluations").iterdir())) == 3  # of eval, and of two of these calls


# ---- from a shipped config to a run ----


def test_a_shipped_config_is_written_inspected_and_trained_anywhere(cli, tmp_path):
    for name in ("pairs/small", "configs/pairs/small.yaml", "pairs/small.yaml"):
        assert cli("config", name) == (0, read(shipped_folder() / "pairs/small.yaml"), "")
    listed = "About 1,000 pairs of your own, such as words and their pronunciations"
    assert ["pairs/small", listed] in cells(cli("config").out)
    write("mine/mine.yaml", cli("config pairs/small").out)
    done = cli("inspect mine/mine.yaml").check()
    assert "delimiter: " in done.out
    assert "parameters" not in done.out
    lacks = "{0}/train.tsv, {0}/dev.tsv. To see symbols and parameter counts, add "
    assert f"no such file: {lacks.format(tmp_path / 'mine')}" in done.err
    assert cli("inspect mine/mine.yaml --json").json["parameters"] == {}
    write("mine/train.tsv", "sep=;\nword;ipa\nab;o o\nb;o\n")
    write("mine/dev.tsv", "word;ipa\nbab;q\n")
    keys = "--set=task.delimiter=';' --set=task.comment=sep="
    assert "line 1, 'word' -> 'ipa', is read as a pair" in cli(f"inspect mine/mine.yaml {keys}").err
    changes = "--set=task.header=true --set=training.epochs=1 --set=model.hidden=4"
    done = cli(f"train -c mine/mine.yaml --name mine --device cpu {keys} {changes}").check()
    before, _, _ = done.err.partition("training runs/mine")
    assert before != done.err
    assert "dev targets have symbols that the training file lacks: 'q'" in before
    assert cli("predict -", stdin="word;x\nab;x\nbb\n").out.startswith("ab\t")
