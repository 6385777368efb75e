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
def test_the_landing_page_answers_from_disk_and_sends_no_request(browser, tmp_path):
    pytest.importorskip("furo", reason="needs the extra `site`")
    site = tmp_path / "site"
    process(ROOT, f"-m sphinx -q -W -c docs/site -d {tmp_path}/doctrees . {site}").check()
    browser.devtools("Network.enable")
    browser.devtools("Network.emulateNetworkConditions", **OFFLINE)
    browser.open(site / "docs/mechanisms.html")
    assert browser.run("return document.querySelectorAll('svg.formula').length") > 50
    lacking = "[role=heading]:not([aria-level]), div.formula:not([tabindex])"
    assert browser.run(f"return document.querySelectorAll('{lacking}').length") == 0
    browser.open(site / "index.html")
    browser.resize(1366, 768)
    assert browser.run("return document.querySelector('header').offsetHeight") <= 76  # a tenth
    browser.enter_frame(0)
    assert browser.run(TYPE) == "edcba"
    assert browser.console() == []  # a request would have failed
