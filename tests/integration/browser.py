"""A real browser, and how tests move about in the console."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from secmon.api.console import FOLDER
from tests.integration import steady_chromium
from tests.waiting import LIMIT_SECONDS

AXE = Path(__file__).parents[2] / "console/node_modules/axe-core/axe.min.js"
WAIT_MS = 1000 * LIMIT_SECONDS
_ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip

NEEDS_A_BROWSER = [
    pytest.mark.skipif(steady_chromium.CHROMIUM is None, reason="needs Chromium: apt-get install chromium"),
    pytest.mark.skipif(not (FOLDER / "index.html.gz").exists(), reason="needs the console: make console"),
]


@contextmanager
def running_browser() -> Iterator[Browser]:
    """Chromium, which does not learn of changes of the host's network."""
    with sync_playwright() as playwright:
        expect.set_options(timeout=WAIT_MS)
        running = playwright.chromium.launch(executable_path=steady_chromium.__file__, args=_ARGUMENTS)
        yield running
        running.close()


def open_console(page: Page, url: str) -> None:
    page.goto(f"{url}/console")
    page.get_by_role("button", name="Sign in").wait_for()


def sign_in(page: Page, user: str, password: str) -> None:
    page.get_by_label("User").fill(user)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in").click()


def show(page: Page, address: str) -> None:
    page.evaluate("address => { location.hash = address }", f"#/{address}")


def loaded(page: Page, word: str) -> None:
    """Wait until the page has ``word``, and nothing in it is being loaded."""
    main = page.get_by_role("main")
    expect(main.get_by_text(word).first).to_be_visible()
    expect(main.get_by_text("Loading …")).to_have_count(0)


def barriers(page: Page) -> list[str]:
    """What axe-core finds that keeps people out, serious or worse."""
    page.evaluate(AXE.read_text())
    found: dict[str, Any] = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
    return [
        f"{one['id']}: {[node['html'] for node in one['nodes']]}"
        for one in found["violations"]
        if one["impact"] in ("serious", "critical")
    ]
