"""A master's folders with lists that have feeds, and a clock that tests set."""

from datetime import UTC, datetime
from pathlib import Path

from secmon.common.counters import Counters
from secmon.common.paths import Paths
from secmon.knowledge.lists.feed_states import FeedState
from secmon.knowledge.lists.feeds_yml import parse_feeds
from secmon.knowledge.lists.renewal import ListRenewal
from tests.manual_clock import ManualClock

NOW = 1_790_000_000


class ListSite:
    """What renews lists in ``root``, and how they look."""

    def __init__(self, root: Path) -> None:
        self.paths = Paths(root)
        for folder in (self.paths.lists, self.paths.downloads, self.paths.list_feeds.parent):
            folder.mkdir(parents=True)
        self.clock = ManualClock(datetime.fromtimestamp(NOW, UTC))
        self.counters = Counters()
        self.renewal = ListRenewal(self.paths, self.clock, self.counters, seconds=5)

    def declare(self, text: str) -> None:
        """Write ``feeds.yml``."""
        (self.paths.lists / "feeds.yml").write_text(text)

    async def renew(self, url: str, options: str = "") -> FeedState:
        """Renew the list ``bad`` from ``url``."""
        feed = parse_feeds(f"feeds: {{bad: {{url: '{url}', {options}}}}}".encode())["bad"]
        return await self.renewal.renew(feed)

    def text(self, name: str = "bad") -> str | None:
        """A file in the folder of lists."""
        file = self.paths.lists / name
        return file.read_text() if file.exists() else None

    def counted(self, name: str) -> float:
        return self.counters.snapshot().get(name, 0)
