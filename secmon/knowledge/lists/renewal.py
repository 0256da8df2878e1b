"""Renewing one list from its feed: fetch, check, write. What fails leaves the list as it was."""

import asyncio
import hashlib
import re
import ssl
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from msgspec.structs import replace

from secmon.common.clock import Clock
from secmon.common.counters import Counters
from secmon.common.download import DownloadError, Fetched, Validators, download, fetch, open_unpacked
from secmon.common.errors import os_text
from secmon.common.file_io import read_regular, write_file
from secmon.common.paths import Paths
from secmon.knowledge.lists.feed_content import FeedContent, FeedError, read_feed
from secmon.knowledge.lists.feed_states import FeedState, FeedStates
from secmon.knowledge.lists.feeds_yml import ListFeed
from secmon.knowledge.lists.list_text import EXPIRY_SUFFIX, Entry, read_entries, write_entries

SECONDS = 600.0
"""For the download of a feed."""
_FILE_MODE = 0o660
_CHECKSUM_BYTES = 1 << 16
_CHECKSUM_SECONDS = 30.0
_SHA256 = re.compile(r"(?<![0-9A-Fa-f])[0-9A-Fa-f]{64}(?![0-9A-Fa-f])", re.ASCII)

Progress = Callable[[int, int | None], None]


class ListRenewal:
    """Renews lists. Two processes may renew the same list: files are replaced as a whole."""

    def __init__(
        self, paths: Paths, clock: Clock, counters: Counters, *, seconds: float = SECONDS,
        trust: ssl.SSLContext | None = None,
    ) -> None:  # fmt: skip
        """``seconds`` for a download; ``trust`` as in ``fetch``."""
        self._paths, self._clock, self._counters = paths, clock, counters
        self._seconds, self._trust = seconds, trust
        self.states = FeedStates(paths)

    def is_due(self, feed: ListFeed) -> bool:
        """Whether ``feed`` was never tried as it is declared now, or its time has come. Blocks on the disk."""
        state, now = self.states.get(feed.name), self._clock.now()
        return state is None or state.feed != feed or not state.checked_at <= now < state.next_at

    async def renew(self, feed: ListFeed, progress: Progress = lambda received, total: None) -> FeedState:
        """Bring the list of ``feed`` up to date, and store what became of it. Raises OSError: it cannot be stored."""
        before = await asyncio.to_thread(self.states.get, feed.name) or FeedState(
            feed=feed, checked_at=self._clock.now()
        )
        if before.feed != feed:
            before = replace(before, feed=feed, validators=Validators(), failed_since=None, error="")
        try:
            after = await self._renew(feed, before, progress)
            outcome = "lists.renewed" if after.changed_at == after.renewed_at else "lists.unchanged"
        except (DownloadError, FeedError) as error:
            after, outcome = self._failed(before, str(error)), "lists.failed"
        except OSError as error:
            after, outcome = self._failed(before, os_text(error)), "lists.failed"
        await asyncio.to_thread(self.states.put, after)
        self._counters.add(outcome)
        return after

    def _failed(self, before: FeedState, reason: str) -> FeedState:
        now = self._clock.now()
        since = before.failed_since or now
        return replace(before, checked_at=now, failed_since=since, error=reason)

    async def _renew(self, feed: ListFeed, before: FeedState, progress: Progress) -> FeedState:
        file = self._paths.lists / feed.name
        known = before.validators if await asyncio.to_thread(_digest, file) == before.digest else None
        sha256 = await self._checksum(feed) if feed.sha256_url else ""
        with tempfile.TemporaryFile(dir=self._paths.downloads) as content:
            fetched = await fetch(
                feed.url, content, limit=feed.max_bytes, seconds=self._seconds, known=known, sha256=sha256,
                internal_redirects=feed.internal_redirects, trust=self._trust, headers=feed.headers, progress=progress,
            )  # fmt: skip
            return await asyncio.to_thread(self._apply, feed, before, fetched, content, file)

    async def _checksum(self, feed: ListFeed) -> str:
        """The digest that the server gives for the feed. Raises DownloadError."""
        data = await download(
            feed.sha256_url, limit=_CHECKSUM_BYTES, seconds=_CHECKSUM_SECONDS, trust=self._trust, headers=feed.headers
        )
        lines = data.decode("utf-8", "replace").splitlines()
        name = urlsplit(feed.url).path.rpartition("/")[2]
        named = [line for line in lines if name and line.split()[-1:] in ([name], [f"*{name}"])]
        for line in named or lines:
            if found := _SHA256.search(line):
                return found[0]
        raise DownloadError("there is no SHA-256 at sha256_url")

    def _apply(
        self, feed: ListFeed, before: FeedState, fetched: Fetched | None, content: IO[bytes], file: Path
    ) -> FeedState:
        """Write the list if it is to change. Raises FeedError, DownloadError, OSError."""
        moment = self._clock.now()
        now = int(moment.timestamp())
        current = _entries_of(file)
        if fetched is None:
            found, validators = FeedContent(_unexpired(current, now), before.left_out), before.validators
        else:
            found, validators = read_feed(open_unpacked(content, feed.max_bytes), feed, now), fetched.validators
            found.entries.update(_kept(current, found.entries, feed, now))
        data, expiry = write_entries(found.entries.values())
        changed = _write(file, data, expiry)
        self._counters.add("lists.left_out", found.left_out if fetched else 0)
        return FeedState(
            feed=feed, checked_at=moment, renewed_at=moment, changed_at=moment if changed else before.changed_at,
            entries=len(found.entries), left_out=found.left_out, validators=validators,
            digest=hashlib.sha256(data).hexdigest(),
        )  # fmt: skip


def _entries_of(file: Path) -> dict[bytes, Entry]:
    return read_entries(_content(file), _content(_expiry_file(file)))


def _unexpired(entries: Mapping[bytes, Entry], now: int) -> dict[bytes, Entry]:
    return {key: each for key, each in entries.items() if each.until is None or each.until > now}


def _kept(current: Mapping[bytes, Entry], new: Mapping[bytes, Entry], feed: ListFeed, now: int) -> dict[bytes, Entry]:
    """Entries that the feed no longer names but that stay for a time; as many as there is room for."""
    if not feed.keep:
        return {}
    gone = [each for key, each in _unexpired(current, now).items() if key not in new]
    dated = [each._replace(until=now + feed.keep if each.until is None else each.until) for each in gone]
    dated.sort(key=lambda each: each.until or 0, reverse=True)
    return {each.key: each for each in dated[: feed.max_entries - len(new)]}


def _write(file: Path, data: bytes, expiry: bytes) -> bool:
    """Replace the list and its expiry file; whether one of them has changed.

    No entry is in force for a moment without its date: the dates are written before, and deleted after the list.
    """
    expiries = _expiry_file(file)
    changed = False
    if expiry and _content(expiries) != expiry:
        write_file(expiries, expiry, _FILE_MODE)
        changed = True
    if _digest(file) != hashlib.sha256(data).hexdigest():
        write_file(file, data, _FILE_MODE)
        changed = True
    if not expiry and expiries.exists():
        expiries.unlink()
        changed = True
    return changed


def _expiry_file(file: Path) -> Path:
    return file.with_name(file.name + EXPIRY_SUFFIX)


def _content(file: Path) -> bytes:
    try:
        return read_regular(file)
    except FileNotFoundError:
        return b""


def _digest(file: Path) -> str:
    """SHA-256 of a file; empty without it."""
    try:
        return hashlib.sha256(read_regular(file)).hexdigest()
    except FileNotFoundError:
        return ""
