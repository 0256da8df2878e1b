"""Watches the replicated folders for changes."""

import asyncio
import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path

from watchdog.events import (
    DirCreatedEvent,
    DirDeletedEvent,
    DirMovedEvent,
    FileClosedEvent,
    FileCreatedEvent,
    FileDeletedEvent,
    FileModifiedEvent,
    FileMovedEvent,
    FileSystemEvent,
    FileSystemEventHandler,
)
from watchdog.observers.api import ObservedWatch
from watchdog.observers.inotify import InotifyObserver

from secmon.common.files.categories import CATEGORIES, FOLDER_MODE, below_category, category_of

_log = logging.getLogger(__name__)

_EVENTS: list[type[FileSystemEvent]] = [
    DirCreatedEvent,
    DirDeletedEvent,
    DirMovedEvent,
    FileClosedEvent,
    FileCreatedEvent,
    FileDeletedEvent,
    FileModifiedEvent,
    FileMovedEvent,
]
_FOLDERS = (("etc", True), ("var", False), ("var/multigroups", True))
"""Watched folders, and whether with all below. ``etc`` and ``var`` report a category folder that is created again."""

_MANY = 1000
"""Touched paths above which a full scan is cheaper."""


class FolderWatch(FileSystemEventHandler):
    """Collects the touched paths below the category folders, and calls ``wake`` on the event loop.

    If the system refuses a watch, that is logged, and only the periodic scan of the owner finds changes.
    """

    def __init__(
        self, root: Path, wake: Callable[[], None], *, quiet_seconds: float = 0.02, most_seconds: float = 0.2
    ) -> None:
        self._root = root
        self._wake = wake
        self._quiet_seconds = quiet_seconds
        self._most_seconds = most_seconds
        self._lock = threading.Lock()
        self._touched: set[str] = set()
        self._count = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._observer: InotifyObserver | None = None
        self._watches: dict[str, tuple[ObservedWatch, tuple[int, int]]] = {}
        self._recreated: set[str] = set()

    async def start(self) -> None:
        """Create missing category folders and start to watch; every change after the return is found."""
        self._loop = asyncio.get_running_loop()
        await asyncio.to_thread(self._start)

    async def stop(self) -> None:
        observer, self._observer, self._loop = self._observer, None, None
        self._watches.clear()
        if observer is not None:
            await asyncio.to_thread(_stop, observer)

    @property
    def pending(self) -> bool:
        """Whether something was touched since the last :meth:`take_touched`."""
        return bool(self._touched)

    def take_touched(self) -> set[str] | None:
        """Paths touched since the last call, below the installation folder; None if there are too many to list."""
        with self._lock:
            touched, self._touched, self._count = self._touched, set(), 0
        return touched if len(touched) <= _MANY else None

    async def debounce(self) -> None:
        """Return after a moment without changes, or at the limit, so that a burst counts as one change."""
        loop = asyncio.get_running_loop()
        end = loop.time() + self._most_seconds
        seen = -1
        while seen != self._count and loop.time() < end:
            seen = self._count
            await asyncio.sleep(self._quiet_seconds)

    def renew_watches(self) -> None:
        """Watch again what was deleted and created again. Blocks briefly on the disk."""
        observer = self._observer
        if observer is None:
            return
        with self._lock:
            recreated, self._recreated = self._recreated, set()
        for folder, recursive in _FOLDERS:
            path = self._root / folder
            identity = _identity(path)
            known = self._watches.get(folder)
            if known is not None and (known[1] != identity or folder in recreated):
                observer.unschedule(known[0])
                del self._watches[folder]
            if identity is None or folder in self._watches:
                continue
            try:
                watch = observer.schedule(self, str(path), recursive=recursive, event_filter=_EVENTS)
                self._watches[folder] = (watch, identity)
            except OSError as error:
                _log.warning("Changes below %s are found by the periodic scan only: %s", path, error.strerror)

    def on_any_event(self, event: FileSystemEvent) -> None:
        """Called on the observer's thread."""
        paths = [relative for name in (event.src_path, event.dest_path) if (relative := self._relevant(name))]
        if not paths:
            return
        with self._lock:
            first = not self._touched
            self._touched.update(paths)
            self._count += 1
            if event.is_directory:  # a new folder may even have the inode number of the old one
                self._recreated.update(path for path in paths if path in dict(_FOLDERS))
        loop = self._loop
        if first and loop is not None:
            try:
                loop.call_soon_threadsafe(self._wake)
            except RuntimeError:  # the loop was closed while the event was under way
                _log.debug("Change after the end of the event loop ignored")

    def _relevant(self, name: bytes | str) -> str | None:
        path = os.fsdecode(name)
        relative = os.path.relpath(path, self._root) if path else ""
        if category_of(relative) is not None:
            return relative
        inside = any(f"{c.folder}/".startswith(f"{relative}/") for c in CATEGORIES)
        # A file with an excluded name is ignored, but a folder may have such a name, or had one.
        return relative if inside or (below_category(relative) and not os.path.isfile(path)) else None

    def _start(self) -> None:
        for category in CATEGORIES:
            folder = self._root / category.folder
            try:
                if not folder.exists():
                    folder.mkdir(mode=FOLDER_MODE, parents=True)
                    folder.chmod(FOLDER_MODE)  # whatever the umask is
            except OSError as error:
                _log.warning("%s could not be made: %s", folder, error.strerror)
        try:
            self._observer = InotifyObserver()
        except OSError as error:
            _log.warning("Changes below %s are found by the periodic scan only: %s", self._root, error.strerror)
            return
        self._observer.start()
        self.renew_watches()


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return None
    return (status.st_dev, status.st_ino)


def _stop(observer: InotifyObserver) -> None:
    observer.stop()
    observer.join()
