"""The site as `make site` builds it, opened from disk."""

import pytest
from inline import ROOT, process

OFFLINE = {"offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0}
TYPE = """
const box = document.getElementById('text');
box.value = 'abcde';
box.dispatchEvent(new Event('input'));
const tiles = document.querySelectorAll('.tiles button:not(.special)');
return [...tiles].map(tile => tile.textContent).join('');
"""


@pytest.mark.slow
def test_the_landing_page_answers_from_disk_and_sends_no_request(quiet, tmp_path):
    pytest.importorskip("furo", reason="needs the extra `site`")
    site = tmp_path / "site"
    process(ROOT, f"-m sphinx -q -W -c docs/site -d {tmp_path}/doctrees . {site}").check()
    quiet.devtools("Network.enable")
    quiet.devtools("Network.emulateNetworkConditions", **OFFLINE)
    quiet.open(site / "docs/mechanisms.html")
    assert quiet.run("return document.querySelectorAll('svg.formula').length") > 50
    lacking = "[role=heading]:not([aria-level]), div.formula:not([tabindex])"
    assert quiet.run(f"return document.querySelectorAll('{lacking}').length") == 0
    quiet.open(site / "index.html")
    quiet.resize(1366, 768)
    assert quiet.run("return document.querySelector('header').offsetHeight") <= 76  # a tenth
    quiet.enter_frame(0)
    assert quiet.run(TYPE) == "edcba"  # a request would have failed
