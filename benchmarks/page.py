"""The page of a model in a browser: time from keystroke to redrawn map, size, requests, errors, and
how fast it trains.

python -m benchmarks.page scaled.html
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from browser import Browser, opened_browser

WARM_UP, KEYSTROKES = 30, 100
MEASURE = """
  const [length, warmUp, count] = ARGUMENTS, symbols = data.models[0].source.symbols;
  const input = by("text");
  const separator = data.models[0].source.separator, times = [], computing = [];
  const text = Array.from({length}, (_, k) => symbols[(k * 7 + 3) % symbols.length]);
  return (async () => {
    for (let k = 0; k < warmUp + count; k++) {
      input.value = [...text.slice(0, -1), symbols[k % symbols.length]].join(separator);
      const start = performance.now();
      input.dispatchEvent(new Event("input"));
      const computed = performance.now();
      // a message after the frame: it has been painted
      await new Promise(done => requestAnimationFrame(() => {
        const channel = new MessageChannel();
        channel.port1.onmessage = done;
        channel.port2.postMessage(0);
      }));
      if (k >= warmUp) { times.push(performance.now() - start); computing.push(computed - start); }
    }
    const sorted = values => values.toSorted((a, b) => a - b);
    const at = (values, share) => sorted(values)[Math.floor(share * values.length)];
    const summary = values =>
      ({median: at(values, 0.5), "95 %": at(values, 0.95), least: at(values, 0)});
    const {length: steps} = views[0].now.steps;
    const computed = summary(computing);
    return {"keystroke to frame, ms": summary(times), "of it JavaScript, ms": computed, steps};
  })();
"""

TRAIN = """
  const text = data.models[0].examples[0], times = [];
  const pause = time => new Promise(done => setTimeout(done, time));
  return (async () => {
    type(text);
    const start = performance.now();
    const right = () => isRight(views[0]);
    let learnt = null;
    by("train-play").click();
    while (performance.now() - start < 60000 && (learnt === null || training.step < 200)) {
      await pause(100);
      const before = performance.now();
      by("text").dispatchEvent(new Event("input"));
      times.push(performance.now() - before);
      if (right()) learnt = learnt || (performance.now() - start) / 1000;
      else learnt = null;
    }
    const {step: batches} = training, speed = batches / ((performance.now() - start) / 1000);
    by("train-play").click();
    times.sort((a, b) => a - b);
    const keystroke = {median: times[times.length >> 1], most: times.at(-1)};
    return {text, "right from then on, s": learnt,
      "batches a second": speed, batches, "keystrokes meanwhile, ms": keystroke};
  })();
"""


def measure(browser: Browser, page: Path, length: int) -> dict[str, Any]:
    """Milliseconds from a keystroke at the end of a string of this length until the frame with the
    new map is painted.
    """
    browser.console()
    browser.resize(1400, 900)
    browser.open(page)
    found: dict[str, Any] = browser.run(
        MEASURE.replace("ARGUMENTS", json.dumps([length, WARM_UP, KEYSTROKES]))
    )
    found |= browser.run(f"if (!data.models[0].training) return {{}};{TRAIN}")
    requests = browser.run("return performance.getEntriesByType('resource').length")
    return {
        "bytes": page.stat().st_size,
        **found,
        "requests": requests,
        "errors": browser.console(),
    }


def main() -> None:
    """Measure the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("page", type=Path, help="a file made by seq2attn page")
    parser.add_argument("--length", type=int, default=40, help="symbols of the string")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, opened_browser(Path(folder)) as browser:
        print(json.dumps(measure(browser, options.page.resolve(), options.length), indent=2))


if __name__ == "__main__":
    main()
