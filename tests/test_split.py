"""`seq2attn split`: train, dev and test by word."""

from pathlib import Path

import pytest

FORMS = [f"{lemma}\t{lemma}{end}\tV;{end}" for end in "sd" for lemma in "abcdefghij"]
FEATURES = "--set task.features_column=3"
HEADER = "# mine\nlemma\tform\tfeatures\n\n"


def write(lines, header=""):
    Path("forms.tsv").write_text(header + "".join(f"{line}\n" for line in lines))


def parts(folder="."):
    return [
        Path(folder, f"{name}.tsv").read_text().splitlines() for name in ("train", "dev", "test")
    ]


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
    Path("parts").mkdir()
    read = f'{FEATURES} --set task.header=true --set task.comment="#"'
    cli(f"split forms.tsv --to parts {read}").check()
    train, dev, _ = parts("parts")
    assert train[:3] == dev[:3] == HEADER.splitlines()
    assert (len(train), len(dev)) == (3 + 16, 3 + 2)
    Path("others").mkdir()
    assert "forms.tsv: 22 of 23 lines cannot be read" in cli("split forms.tsv --to others").refusal


@pytest.mark.parametrize(
    "name, file, options, refusal",
    [
        ("dev.tsv", "forms.tsv", "", "dev.tsv exists"),
        ("train.tsv", "train.tsv", "--force", "train.tsv is FILE itself"),
    ],
)
def test_no_file_is_replaced_without_force_and_never_the_file_itself(
    cli, name, file, options, refusal
):
    Path(name).write_text("a\tb\n" * 10)
    write(FORMS)
    assert refusal in cli(f"split {file} {FEATURES} {options}").refusal
    assert Path(name).read_text() == "a\tb\n" * 10


def test_too_few_words_for_a_part_are_refused(cli):
    write(FORMS[:3])
    assert "too few words: none is left for dev" in cli(f"split forms.tsv {FEATURES}").refusal
    assert not Path("train.tsv").exists()
