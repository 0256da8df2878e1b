"""The pictures of ``docs/console.md``, taken from a demo, if SECMON_PICTURES is set.

Ordinary runs do not take them: what is on them differs each time.
"""

import base64
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, ViewportSize, expect

from tests.integration.browser import NEEDS_A_BROWSER, WAIT_MS, loaded, open_console, running_browser, show, sign_in
from tests.waiting import wait_until

WANTED = "SECMON_PICTURES"
FOLDER = Path(__file__).parents[2] / "docs/images"
SIZE: ViewportSize = {"width": 1000, "height": 640}
SCALE = 0.8
LARGEST = 60_000
"""Bytes of one picture."""
ENOUGH = 3
"""Alerts of a high level: the demo's attacks have been seen."""
PICTURES = {
    "overview": ("", "Rules with most alerts"),
    "alerts": ("alerts?level=7-11", "What has happened"),
    "agent": ("agents/001/assessment", "Scores of the last 30 days"),
    "silence": ("alerts/silences/new?rule_groups=web&agents_list=001", "Rules"),
    "techniques": ("ruleset/techniques", "Initial Access"),
    "cluster": ("cluster", "Restart all nodes"),
}
"""Addresses, and a word on the page when it is loaded."""

pytestmark = [
    *NEEDS_A_BROWSER,
    pytest.mark.skipif(WANTED not in os.environ, reason=f"takes pictures when {WANTED} is set"),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with running_browser() as running:
        yield running


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Address and administrator's password of a demo that runs."""
    folder = tmp_path_factory.mktemp("demo")
    command = [sys.executable, "-m", "secmon.cli", "demo", "--dir", str(folder)]
    output = folder.with_suffix(".log")
    with output.open("w") as log:
        running = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        wait_until(lambda: "Ctrl-C stops" in output.read_text(), seconds=180, what="the demo")
        found = re.search(r"(https://\S+)/console", output.read_text())
        assert found is not None
        yield found[1], (folder / "admin-password").read_text().strip()
    finally:
        running.terminate()
        running.wait(120)


@pytest.fixture
def page(browser: Browser, demo: tuple[str, str]) -> Iterator[Page]:
    context = browser.new_context(ignore_https_errors=True, viewport=SIZE, locale="en-GB")
    context.set_default_timeout(WAIT_MS)
    page = context.new_page()
    open_console(page, demo[0])
    sign_in(page, "admin", demo[1])
    yield page
    context.close()


@pytest.mark.timeout(900)
def test_pictures_of_the_main_pages(page: Page) -> None:
    def attacked() -> bool:
        show(page, "api")
        show(page, "")
        loaded(page, "Rules with most alerts")
        return page.locator(".attention li").count() >= ENOUGH

    wait_until(attacked, seconds=300, what="the attacks of the demo")
    for name, (address, word) in PICTURES.items():
        show(page, address)
        loaded(page, word)
        expect(page.get_by_role("main").get_by_role("alert")).to_have_count(0)
        picture = FOLDER / f"console-{name}.webp"
        picture.write_bytes(taken(page))
        assert picture.stat().st_size <= LARGEST


def taken(page: Page) -> bytes:
    """What the window shows, as WebP, which Playwright itself does not write."""
    clip = {"x": 0, "y": 0, **SIZE, "scale": SCALE}
    session = page.context.new_cdp_session(page)
    answer = session.send("Page.captureScreenshot", {"format": "webp", "quality": 80, "clip": clip})
    return base64.b64decode(answer["data"])
