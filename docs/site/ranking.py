"""The page on which score is better, and its numbers: `python docs/site/ranking.py scores.json`
keeps in docs/studies/scores.json what `compare --json` has printed of the exact match.
"""

import json
import sys
from pathlib import Path

from seq2attn.results.statistics import share

STRINGS = 100  # of each kind, as in configs/experiments/scores.yaml
KEPT = Path(__file__).parents[1] / "studies/scores.json"
EXAMPLES = {"reverse": "olleh", "copy": "hello", "sort": "ehllo", "duplicate": "hellohello"}
KINDS = {  # a row of boxes -> its heading
    "random": "On random strings, as in training",
    "worst": "On the kind that each does worst, often of one letter (point at a score)",
}
FAMILIES = {
    "random": "random",
    "unary": "of one letter",
    "periodic": "periodic",
    "two_letter": "of two letters",
    "palindrome": "palindromes",
    "sorted": "sorted",
    "runs": "in runs",
}


def keep(printed: Path) -> None:
    """Keep the exact match of a comparison of scores: parameters by score, and values by task,
    score, family and seed.
    """
    parameters, values = {}, {}
    for row in json.loads(printed.read_text("utf-8"))["trials"]:
        if row["metric"] != "exact_match":
            continue
        task, score = row["task"], row["model.attention.score"]
        parameters[score] = row["parameters"]
        families = values.setdefault(task, {}).setdefault(score, {})
        families.setdefault(row["family"], {})[row["seed"]] = row["value"]
    kept = {"parameters": parameters, "values": values}
    KEPT.write_text(json.dumps(kept) + "\n", "utf-8")


def by_seed(families: dict[str, dict[str, float]], kind: str) -> dict[str, float]:
    """Return the value of each seed, of random strings or of the family with the lowest."""
    if kind == "random":
        return families["random"]
    return {seed: min(family[seed] for family in families.values()) for seed in families["random"]}


def worst_kind(families: dict[str, dict[str, float]]) -> str:
    """Return on which kind of strings a score is worst, in the mean of the seeds."""
    means = {family: sum(seeds.values()) for family, seeds in families.items()}
    lowest = min(means.values())
    if lowest == max(means.values()):
        return "all kinds alike"
    worst = [FAMILIES[family] for family, mean in means.items() if mean == lowest]
    return f"worst: {listed(worst)}"


def boxes(
    values: dict[str, dict[str, dict[str, dict[str, float]]]],
) -> dict[tuple[str, str], dict[str, dict[str, float]]]:
    """Return (kind, task) -> score -> seed -> exact match."""
    return {
        (kind, task): {score: by_seed(families, kind) for score, families in scores.items()}
        for kind in KINDS
        for task, scores in values.items()
    }


def best_of(values: dict[str, dict[str, float]]) -> list[str]:
    """Return the score with the highest mean, and those of which the best seed reaches its worst
    seed, within the intervals of shares of so many strings.
    """
    best = max(values.values(), key=lambda seeds: sum(seeds.values()))
    lowest = share(min(best.values()), STRINGS).low
    return [
        score
        for score, seeds in values.items()
        if share(max(seeds.values()), STRINGS).high >= lowest
    ]


def listed(names: list[str]) -> str:
    """Return `a, b and c`."""
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def short(value: float) -> str:
    """Return a share as .87 or 1.00."""
    return f"{value:.2f}".removeprefix("0")


def box(kind: str, task: str, values: dict[str, dict[str, float]], worst: dict[str, str]) -> str:
    """Return a box of the page: a guess among the scores, which uncovers a bar for each, a line
    from the lowest to the highest seed, and the mean. worst: what to say of a score's worst kind.
    """
    best = best_of(values)
    rows = []
    for score, seeds in values.items():
        mean = sum(seeds.values()) / len(seeds)
        low, high = min(seeds.values()), max(seeds.values())
        is_best = ' class="best"' if score in best else ""
        title = f' title="{worst[score]}"' if kind == "worst" else ""
        line = f"left: {100 * low:.0f}%; width: {100 * (high - low):.0f}%"
        rows.append(
            f'    <label{is_best}{title}><input type="radio" name="{kind}-{task}"> {score}'
            f'<span class="track"><i style="width: {100 * mean:.0f}%"></i>'
            f'<u style="{line}"></u></span><span class="mean">{short(mean)}</span></label>\n'
        )
    said = "No difference shown." if len(best) == len(values) else ""
    return (
        f'  <fieldset id="{kind}-{task}"><legend>{task}: hello → {EXAMPLES[task]}</legend>\n'
        f'{"".join(rows)}    <p class="said">{said}</p>\n  </fieldset>\n'
    )


def conclusion(best: dict[tuple[str, str], list[str]]) -> str:
    """Return what the boxes say together, in HTML."""
    alone = [names[0] for names in best.values() if len(names) == 1]
    scores = dict.fromkeys(score for names in best.values() for score in names)
    everywhere = [score for score in scores if all(score in names for names in best.values())]
    text = "In no box is one score shown to be better than all others"
    if alone:
        text = f"In {len(alone)} of {len(best)} boxes {listed(list(dict.fromkeys(alone)))} is best"
    if not everywhere:
        return f"{text}; no score is among the best in every box."
    verb = "is" if len(everywhere) == 1 else "are"
    return f"{text}; {listed(everywhere)} {verb} among the best in every box."


def ranking_page(page: str) -> str:
    """Return the page, given its markup."""
    study = json.loads(KEPT.read_text("utf-8"))
    found = boxes(study["values"])
    best = {place: best_of(values) for place, values in found.items()}
    parts, counts = [], []
    for (kind, task), values in found.items():
        if task == next(iter(EXAMPLES)):
            parts.append(f"  <h2>{KINDS[kind]}</h2>\n")
        worst = {score: worst_kind(families) for score, families in study["values"][task].items()}
        parts.append(box(kind, task, values, worst))
        names = " ".join(best[kind, task])
        counts.append(f"#{kind}-{task}:has(:checked) {{ counter-increment: guessed {names}; }}\n")
    parameters = study["parameters"]
    rows = []
    for score, number in parameters.items():
        counts.append(
            f'.of-{score}::after {{ content: counter({score}) " of " counter(guessed); }}\n'
        )
        about = f"<small>({number:,} parameters)</small>"
        rows.append(f'      <li>{score} {about}<b class="of-{score}"></b></li>\n')
    all_guessed = " ~ ".join(["fieldset:has(:checked)"] * len(found))
    counts.append(f"{all_guessed} ~ .tally .end {{ display: block; }}\n")
    counters = f"main {{ counter-reset: guessed right {' '.join(parameters)}; }}\n"
    filled = {
        "counts": counters + "".join(counts),
        "boxes": "".join(parts),
        "rows": "".join(rows),
        "conclusion": conclusion(best),
    }
    for name, text in filled.items():
        page = page.replace(f"{{{{{name}}}}}", text)
    return page


if __name__ == "__main__":
    keep(Path(sys.argv[1]))
