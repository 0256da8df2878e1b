"""The changes of a feed on a server: its list ``modified_id.csv``, and the records that are newer than those here.

A line of the list is a time and an id, the newest first; the record is ``ID.json`` beside the list.
"""

import asyncio
import re
from collections.abc import Iterator, Sequence
from contextlib import closing
from io import BytesIO
from urllib.parse import quote, unquote, urljoin, urlsplit

from secmon.common.download import DownloadError, fetch
from secmon.common.paths import Paths
from secmon.knowledge.vulnerabilities.advisory_file import AdvisoryFile, advisory_files
from secmon.knowledge.vulnerabilities.feed_files import Progress, RawRecord
from secmon.knowledge.vulnerabilities.osv import MAX_RECORD, moment
from secmon.knowledge.vulnerabilities.records import FeedError

CHANGES = "modified_id.csv"
MAX_CHANGES = 5000
"""Records that are fetched one by one."""
_MAX_LIST = 256 << 20
_SECONDS = 600.0
_LINE = re.compile(r"([0-9T:.Z+\-]{20,40}),([A-Za-z0-9][A-Za-z0-9._:+\-]{0,199})")


def newest_record(paths: Paths, url: str) -> str:
    """When the newest record here was modified, of the family of ecosystems that the folder of ``url`` names.

    Raises FeedError when there is none.
    """
    family = unquote(urlsplit(url).path.rsplit("/", 2)[-2])
    newest = ""
    for path in advisory_files(paths.advisories):
        with closing(AdvisoryFile(path)) as file:
            if file.ecosystem.partition(":")[0] == family:
                newest = max(newest, file.newest())
    if not newest:
        raise FeedError(f"there are no records of {family!r} here: import the whole feed (all.zip) first")
    return newest


def read_changes(url: str, since: str, *, internal_redirects: bool = False) -> list[str]:
    """Ids of the records that were modified after ``since``. Raises FeedError, DownloadError."""
    text = _download(url, _MAX_LIST, internal_redirects).decode("utf-8", "replace")
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        match = _LINE.fullmatch(line)
        if match is None:
            raise FeedError(f"line {number} is not a time and an id")
        if moment(match[1]) <= since:
            break
        found.append(match[2])
        if len(found) > MAX_CHANGES:
            raise FeedError(f"more than {MAX_CHANGES} records have changed: import the whole feed (all.zip)")
    return found


def changed_records(
    url: str, ids: Sequence[str], progress: Progress, *, internal_redirects: bool = False
) -> Iterator[RawRecord]:
    """The records with these ids. Raises FeedError."""
    for done, each in enumerate(ids, 1):
        address = urljoin(url, f"{quote(each)}.json")
        try:
            yield address, _download(address, MAX_RECORD, internal_redirects)
        except DownloadError as error:
            raise FeedError(f"{address}: {error}") from None
        progress(done, len(ids))


def _download(url: str, limit: int, internal_redirects: bool) -> bytes:
    content = BytesIO()
    asyncio.run(fetch(url, content, limit=limit, seconds=_SECONDS, internal_redirects=internal_redirects))
    return content.getvalue()
