"""The first mistakes of records/content.yaml on strings of 20 letters; needs the runs
content-reverse-seed_1 to 5.
"""

import random
from collections import Counter
from string import ascii_lowercase

import seq2attn


def main():
    """Print how often each kind of mistake came first."""
    kinds = Counter()
    for seed in range(1, 6):
        draw = random.Random(0)
        texts = ["".join(draw.choice(ascii_lowercase) for _ in range(20)) for _ in range(200)]
        model = seq2attn.load(f"content-reverse-seed_{seed}", checkpoint="last")
        for text, answer in zip(texts, model.predict(texts), strict=True):
            wrong = [
                step for step in range(20) if answer.output[step : step + 1] != text[19 - step]
            ]
            if not wrong or wrong[0] >= len(answer.output):
                kinds["right" if answer.output == text[::-1] and answer.finished else "end"] += 1
                continue
            weights, place = answer.weights[wrong[0]], 19 - wrong[0]
            looked = weights.index(max(weights))
            same = [
                text[place + k : place + k + 1] == text[looked + k : looked + k + 1] != ""
                for k in (1, 2)
            ]
            kind = (
                "right place"
                if looked == place
                else "same two"
                if all(same)
                else "same"
                if same[0]
                else "other"
            )
            kinds[kind, "left" if looked < place else ""] += 1
    print(kinds)


if __name__ == "__main__":
    main()
