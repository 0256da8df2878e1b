"""What was read of the files of the previous load: a load in which few files differ reads only these again."""

import hashlib
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Generic, TypeVar

from secmon.engine.ruleset.diagnostics import Diagnostics, Message

if TYPE_CHECKING:
    from secmon.engine.decoders.decoder import Decoder
    from secmon.engine.rules.rule_draft import Draft
    from secmon.engine.ruleset.cdb_list import CdbList

T = TypeVar("T")


class ReadFiles(Generic[T]):
    """Files with what was read of each. It depends on the file and on settings alone, and never changes."""

    def __init__(self) -> None:
        self._depends_on: object = None
        self._known: dict[tuple[str, bytes], tuple[Sequence[T], list[Message]]] = {}
        self._used: dict[tuple[str, bytes], tuple[Sequence[T], list[Message]]] = {}

    def begin(self, depends_on: object) -> None:
        """Start a load. ``depends_on``: settings; if they differ from those of the previous load, nothing is known."""
        if depends_on != self._depends_on:
            self._known = {}
        self._depends_on, self._used = depends_on, {}

    def finish(self) -> None:
        """End a load: files that it did not use are dropped."""
        self._known = self._used

    def read(
        self, file: str, data: bytes, diagnostics: Diagnostics, reader: Callable[[str, bytes, Diagnostics], Sequence[T]]
    ) -> Sequence[T]:
        """What ``reader`` reads, now or at the previous load; its warnings go to ``diagnostics``."""
        key = (file, hashlib.blake2b(data, digest_size=16).digest())
        known = self._known.get(key)
        if known is None:
            own = Diagnostics()
            known = (reader(file, data, own), own.messages)
        self._used[key] = known
        for message in known[1]:
            diagnostics.add(message)
        return known[0]


class LoadCache:
    """For all loads of one installation, in any threads: one load at a time."""

    def __init__(self) -> None:
        self.decoders: ReadFiles[Decoder] = ReadFiles()
        self.rules: ReadFiles[Draft] = ReadFiles()
        self.lists: ReadFiles[CdbList] = ReadFiles()
        self._lock = threading.Lock()

    @contextmanager
    def loading(self, settings: object) -> Iterator[None]:
        """A load with ``settings``. Waits for the end of another one."""
        with self._lock:
            files = (self.decoders, self.rules, self.lists)
            for one in files:
                one.begin(settings)
            yield
            for one in files:
                one.finish()
