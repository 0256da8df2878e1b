"""What became of the last renewals of each feed, on disk: it outlives the daemon, and the API shows it."""

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from secmon.common.clock import iso_z
from secmon.common.download import Validators, without_query
from secmon.common.file_io import write_file
from secmon.common.paths import Paths
from secmon.knowledge.lists.feeds_yml import ListFeed

FOLDER = "etc/lists"
"""Of the lists that have feeds."""
RETRY_SECONDS = 900
"""After a failure, if the feed is not renewed more often anyway."""


class FeedState(Struct, frozen=True, kw_only=True):
    """The renewals of one feed. A failure keeps what is said of the last success."""

    feed: ListFeed
    checked_at: datetime
    """The last try."""
    renewed_at: datetime | None = None
    """The last success: the list was as the feed then."""
    changed_at: datetime | None = None
    """The last success that changed the list."""
    failed_since: datetime | None = None
    error: str = ""
    entries: int = 0
    left_out: int = 0
    validators: Validators = Validators()
    digest: str = ""
    """SHA-256 of the list as it was written; a list that was changed by hand is fetched again."""

    @property
    def next_at(self) -> datetime:
        """When the feed is due again."""
        failed = self.failed_since is not None
        return self.checked_at + timedelta(seconds=min(self.feed.every, RETRY_SECONDS) if failed else self.feed.every)

    def shown(self) -> dict[str, Any]:
        """As the API shows it: without parts of the URL that may be secret, without moments that there were not."""
        moments = {
            "renewed_at": self.renewed_at,
            "changed_at": self.changed_at,
            "checked_at": self.checked_at,
            "next_at": self.next_at,
            "failed_since": self.failed_since,
        }
        return {
            "status": "failing" if self.failed_since else "current",
            "url": without_query(self.feed.url),
            **{name: iso_z(moment) for name, moment in moments.items() if moment is not None},
            **({"error": self.error} if self.failed_since else {}),
            "entries": self.entries,
            "left_out": self.left_out,
        }


class FeedStates:
    """One file for each feed. Methods block on the disk; those that write raise OSError."""

    def __init__(self, paths: Paths) -> None:
        self._folder = paths.list_feeds

    def get(self, name: str) -> FeedState | None:
        """The state of the feed that renews the list ``name``; None: it was never tried, or its file is of no use."""
        try:
            return msgspec.json.decode(self._file(name).read_bytes(), type=FeedState)
        except (OSError, ValueError, RecursionError):
            return None

    def all(self) -> Mapping[str, FeedState]:
        """The states by the name of the list."""
        names = sorted(file.stem for file in self._folder.glob("*.json"))
        return {name: state for name in names if (state := self.get(name)) is not None}

    def put(self, state: FeedState) -> None:
        """Store a state."""
        self._folder.mkdir(mode=0o770, exist_ok=True)
        write_file(self._file(state.feed.name), msgspec.json.encode(state), 0o640)

    def retain(self, names: Collection[str]) -> None:
        """Remove the states of all other feeds."""
        for file in self._folder.glob("*.json"):
            if file.stem not in names:
                file.unlink(missing_ok=True)

    def _file(self, name: str) -> Path:
        return self._folder / f"{name}.json"
