"""`seq2attn split`: train, dev and test by word."""

from pathlib import Path

FORMS = [f"{lemma}\t{lemma}{end}\tV;{end}" for end in "sd" for lemma in "abcdefghij"]
FEATURES = "--set task.features_column=3"
HEADER = "# mine\nlemma\tform\tfeatures\n\n"


def write(lines, header=""):
    Path("forms.tsv").write_text(header + "".join(f"{line}\n" for line in lines))


def parts(folder="."):
    return [
        Path(folder, f"{name}.tsv").read_text().splitlines() for name in ("train", "dev", "test")
    ]


def rows_of(folder):
    """The cells of each part but its header."""
    return [[line.split("\t") for line in part[1:]] for part in parts(folder)]


def test_all_lines_of_a_word_are_in_one_part(cli):
    write(FORMS)
    rows = cli(f"split forms.tsv --dev 17 --test 8 {FEATURES}").check().rows()  # 1.7 and 0.8
    assert [(row["file"], row["words"], row["lines"]) for row in rows] == [
        ("train.tsv", "7", "14"),
        ("dev.tsv", "2", "4"),
        ("test.tsv", "1", "2"),
    ]
    split = parts()
    assert sorted(line for part in split for line in part) == sorted(FORMS)
    lemmas = [{line[0] for line in part} for part in split]
    assert list(map(len, lemmas)) == [7, 2, 1]
    assert all(part == [line for line in FORMS if line in part] for part in split), "in their order"


def test_parts_depend_on_the_seed_alone(cli):
    first, *others = [FORMS, FORMS[::-1], FORMS]
    write(first)
    cli(f"split forms.tsv --dev 30 --test 0 {FEATURES}").check()
    assert not Path("test.tsv").exists()
    dev = Path("dev.tsv").read_text().splitlines()
    for seed, lines in enumerate(others):
        write(lines)
        cli(f"split forms.tsv --dev 30 --test 0 --seed {seed} {FEATURES} --force").check()
        same = sorted(Path("dev.tsv").read_text().splitlines()) == sorted(dev)
        assert same == (seed == 0)


def test_a_file_is_read_with_the_keys_of_training_and_its_header_kept(cli):
    write(FORMS, HEADER)
    read = f'{FEATURES} --set task.header=true --set task.comment="#"'
    cli(f"split forms.tsv --to parts {read}").check()
    train, dev, _ = parts("parts")
    assert train[:3] == dev[:3] == HEADER.splitlines()
    assert (len(train), len(dev)) == (3 + 16, 3 + 2)
    assert "forms.tsv: 22 of 23 lines cannot be read" in cli("split forms.tsv --to others").refusal


LETTERS = "abcdefghijklmnopqrst"


def test_what_a_warning_knows_to_be_the_same_word_is_in_one_part(cli):
    write([f"{one}{two}\tx y" for one in LETTERS for two in ("", "(2)", "(3)")])
    said = cli("split forms.tsv --dev 30 --test 30").check().err
    write([f"{one}\tx y" for one in LETTERS + LETTERS.upper()])
    cli("split forms.tsv --dev 30 --test 30 --to cased").check()
    for folder in (".", "cased"):
        words = [{line[0].lower() for line in part} for part in parts(folder)]
        assert sum(map(len, words)) == len(set().union(*words)) == 20
    assert "count right answers, as 'a(2)'; add --set task.variants=true" in said


def test_split_warns_of_what_training_on_its_parts_warns_of(cli):
    rows = [f"{one}{two}\t/{one}/" for one in LETTERS for two in ("a", "a(2)", "b")]
    rows += [f"{one}c\t/{one}/, /{one}z/" for one in LETTERS]
    write([*rows, f"q\t/{'y' * 1500}/", "word\t/é/"])
    warned = cli("split forms.tsv --dev 20 --test 0 --set task.target_separator=x").check().err
    small = "--set model.hidden=8 --set training.epochs=1 --set training.snapshots=0"
    train = (
        f"--set task.train=train.tsv --set task.dev=dev.tsv --set task.target_separator=x {small}"
    )
    trained = cli(f"train --config pairs/small {train}").check().err
    lines = [[line for line in one.splitlines() if "warning" in line] for one in (warned, trained)]
    assert lines[0] == lines[1]
    assert len(lines[0]) >= 5, lines


def test_a_column_is_split_by_its_values(cli):
    rows = [
        f"{lemma}{end}\t{end}{number % 3}\t{lemma}\tl{number % 2}"
        for number, (lemma, end) in enumerate((one, two) for one in LETTERS for two in "xy")
    ]
    write(rows, "form\ttag\tlemma\tlang\n")
    header = "--set task.header=true"
    by_word = cli(f"split forms.tsv --dev 20 --test 20 --to words {header}").check()
    train, dev, _ = rows_of("words")

    def shared(column):
        known = {row[column] for row in train}
        return sum(row[column] in known for row in dev)

    assert shared(2) > 0
    told = f"with train, {shared(1)} their target, {shared(2)} their lemma, 8 their"
    assert f"0 share their source {told}" in by_word.err
    for column in ("lemma", "3"):
        done = cli(
            f"split forms.tsv --by {column} --dev 20 --test 20 --to {column} {header}"
        ).check()
        assert [(row["words"], row["lines"]) for row in done.rows()] == [
            ("12", "24"), ("4", "8"), ("4", "8"),
        ]  # fmt: skip
        lemmas = [{row[2] for row in part} for part in rows_of(column)]
        assert len(set().union(*lemmas)) == sum(map(len, lemmas)) == 20
        assert ", 0 their lemma, 8 their lang" in done.err


def test_a_column_is_found_by_its_name_in_any_normal_form(cli):
    write([f"{one}\tx{one}\tn{one}" for one in LETTERS], "form\tipa\tl\u00e9me\n")
    cli("split forms.tsv --set task.header=true --by le\u0301me").check()


def test_a_column_without_a_name_has_its_number(cli):
    write([f"{one}\tx{one}\tn" for one in LETTERS], "form\tipa\n")
    done = cli("split forms.tsv --set task.header=true --set task.columns=3").check()
    assert (
        "of 2 lines, 0 share their source with train, 0 their target, 2 their column 3" in done.err
    )


def test_each_of_several_answers_counts_as_shared(cli):
    write([f"{one}\t{one}z+{'common' if one in 'abcdefghij' else one}y" for one in LETTERS])
    said = cli("split forms.tsv --dev 50 --test 0 --set task.target_alternatives=+").check()
    train, dev = (Path(f"{name}.tsv").read_text() for name in ("train", "dev"))
    assert train.count("common") > 0 < dev.count("common")
    assert f"with train, {dev.count('common')} their target" in said.err
    assert """--set 'task.target_separator=""'""" in said.err, "the recipe has another"


def test_what_pairs_tell_of_themselves_is_found_and_said(cli):
    rows = [f"{one}\tx y {one}\tV|{one.upper()}" for one in LETTERS]
    write([*rows[:19], "broken"], "word\tipa\ttags\n")
    done = cli(
        f"split forms.tsv --set task.skip_bad=1 {FEATURES} --set task.target_column=2"
    ).check()
    assert "read with --set 'task.target_separator=\" \"'" in done.err
    assert "malformed lines left out of forms.tsv: 1" in done.err
    assert all(part[0] == "word\tipa\ttags" for part in parts())
    assert "broken" not in str(parts())
    assert "skip_bad" not in done.err
