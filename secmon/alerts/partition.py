"""One partition as its readers see it: an index that another process may be writing to."""

import os
from pathlib import Path
from typing import NamedTuple

import tantivy

from secmon.alerts import document

EVERYTHING = tantivy.Query.all_query()


class Span(NamedTuple):
    """First and last time of the alerts of a partition, in milliseconds since 1970."""

    first: int
    last: int


class Partition:
    """Reads the last commit. Safe to use from several threads."""

    def __init__(self, path: Path) -> None:
        """Raises OSError and ValueError when there is no whole index."""
        self.path = path
        self._state = _state(path)
        self._index = tantivy.Index.open(str(path))
        self._index.config_reader("manual")
        self._index.reload()
        self.searcher = self._index.searcher()
        self.span = self._measure()

    def refreshed(self) -> "Partition":
        """Itself while nothing was committed, else a new one. Raises as the constructor does."""
        return self if _state(self.path) == self._state else Partition(self.path)

    def count(self, query: tantivy.Query) -> int:
        """How many alerts meet ``query``."""
        if query is EVERYTHING:
            return self.searcher.num_docs
        return int(self.searcher.search(query, 1).count)  # type: ignore[attr-defined]  # missing in its stub

    def count_terms(self, prefix: str, query: tantivy.Query, most: int) -> list[tuple[str, int]]:
        """The terms with ``prefix`` of the alerts that meet ``query``, and of how many: ``most``, the most frequent."""
        # Of all alerts the index knows the counts; nothing is ever deleted from a partition.
        chosen = None if query is EVERYTHING else query
        return self.searcher.terms_with_prefix(document.TERMS, prefix, filter_query=chosen, limit=most)

    def last(self) -> tuple[int, bytes] | None:
        """Number of the last alert, and what the writer has committed with it; None while there is none."""
        found = self.searcher.search(EVERYTHING, 1, count=False, order_by_field=document.SEQUENCE).hits
        if not found:
            return None
        sequence, address = found[0]
        position = self.searcher.doc(address).get_first(document.POSITION)
        return sequence, bytes(position or b"")

    def _measure(self) -> Span:
        if not self.searcher.num_docs:
            return Span(0, -1)
        times = {each: {each: {"field": document.TIME}} for each in ("min", "max")}
        found = self.searcher.aggregate(EVERYTHING, times)
        return Span(int(found["min"]["value"]), int(found["max"]["value"]))


def _state(path: Path) -> tuple[int, int]:
    """Differs after a commit: the list of the index's files is replaced by it."""
    status = os.stat(path / "meta.json")
    return status.st_ino, status.st_mtime_ns
