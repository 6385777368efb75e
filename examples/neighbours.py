"""The share of random strings in which no sequence of k letters occurs twice: what k letters of
context can tell apart.
"""

import random
from string import ascii_lowercase


def main():
    """Print k, the length and the share."""
    draw = random.Random(0)
    for k in (1, 2, 3):
        for length in (8, 10, 12, 16, 20, 30, 40, 80):
            apart = 0
            for _ in range(8000):
                text = draw.choices(ascii_lowercase, k=length)
                parts = [tuple(text[place : place + k]) for place in range(length - k + 1)]
                apart += len(set(parts)) == len(parts)
            print(k, length, f"{apart / 8000:.2f}")


if __name__ == "__main__":
    main()
