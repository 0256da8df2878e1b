"""The pictures of ``docs/console.md``, taken from a demo that has run for some minutes: "make run", and beside it

    SECMON_PICTURES=demo pytest tests/integration/test_console_pictures.py

Ordinary runs do not take them, since they differ each time.
"""

import base64
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, ViewportSize, expect

from secmon.common.paths import Paths
from secmon.config.api import load_api_config
from secmon.daemons.demo.nodes import ADDRESS, ADMINISTRATOR, MASTER
from tests.integration.browser import NEEDS_A_BROWSER, WAIT_MS, loaded, open_console, running_browser, show, sign_in

DEMO = os.environ.get("SECMON_PICTURES", "")
FOLDER = Path(__file__).parents[2] / "docs/images"
WINDOW: ViewportSize = {"width": 1200, "height": 750}
SCALE = 2 / 3
LARGEST = 60_000
"""Bytes of one picture."""
PICTURES = {
    "overview": ("", "Rules with most alerts"),
    "alerts": ("alerts?level=7-11", "What has happened"),
    "agent": ("agents/001/assessment", "Scores of the last 30 days"),
    "silence": ("alerts/silences/new?rule_groups=web&agents_list=001", "Web"),
    "techniques": ("ruleset/techniques", "Initial Access"),
    "cluster": ("cluster", "Restart all nodes"),
}
"""Addresses, and a word on the page when it is loaded."""

pytestmark = [*NEEDS_A_BROWSER, pytest.mark.skipif(not DEMO, reason="takes pictures when SECMON_PICTURES names a demo")]


@pytest.fixture
def page() -> Iterator[Page]:
    demo = Path(DEMO)
    with running_browser() as browser:
        page = browser.new_context(ignore_https_errors=True, viewport=WINDOW, locale="en-GB").new_page()
        page.set_default_timeout(WAIT_MS)
        open_console(page, f"https://{ADDRESS}:{load_api_config(Paths(demo / MASTER)).port}")
        sign_in(page, ADMINISTRATOR, (demo / "admin-password").read_text().strip())
        yield page


def test_pictures_of_the_main_pages(page: Page) -> None:
    for name, (address, word) in PICTURES.items():
        show(page, address)
        loaded(page, word)
        page.wait_for_load_state("networkidle")
        expect(page.get_by_role("main").get_by_role("alert")).to_have_count(0)
        picture = FOLDER / f"console-{name}.webp"
        picture.write_bytes(taken(page))
        assert picture.stat().st_size <= LARGEST


def taken(page: Page) -> bytes:
    """What the window shows, as WebP, which Playwright itself does not write."""
    clip = {"x": 0, "y": 0, **WINDOW, "scale": SCALE}
    session = page.context.new_cdp_session(page)
    answer = session.send("Page.captureScreenshot", {"format": "webp", "quality": 80, "clip": clip})
    return base64.b64decode(answer["data"])
