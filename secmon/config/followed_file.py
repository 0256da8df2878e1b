"""A configuration file that a daemon follows. An invalid version is logged once; the last valid one stays in force."""

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from secmon.common.counters import Counters
from secmon.common.errors import ConfigError, os_text
from secmon.common.file_io import open_regular

T = TypeVar("T")


class FollowedFile(Generic[T]):
    """One file; without it, its content is empty."""

    def __init__(
        self, path: Path, parse: Callable[[bytes, str], T], *, max_bytes: int, log: logging.Logger, counters: Counters
    ) -> None:
        """``parse`` gets the content and the path, and raises ConfigError; of a file above ``max_bytes`` it gets more.

        ``NAME.rejected`` in ``counters`` counts invalid versions, where NAME is that of the file with ``_`` for ``.``.
        """
        self._path, self._parse, self._max_bytes = path, parse, max_bytes
        self._log, self._counters = log, counters
        self._data: bytes | None = None
        self._trouble = ""

    def changed(self) -> T | None:
        """The content, if it is another one than at the last call and valid. Blocks on the disk."""
        try:
            with open(open_regular(self._path, os.O_RDONLY, follow=True), "rb") as file:
                data = file.read(self._max_bytes + 1)
        except FileNotFoundError:
            data = b""
        except OSError as error:
            self._log_once(os_text(error))
            return None
        if data == self._data:
            return None
        self._data, self._trouble = data, ""
        try:
            return self._parse(data, str(self._path))
        except ConfigError as error:
            self._counters.add(f"{self._path.name.replace('.', '_')}.rejected")
            self._log_once(f"{self._path.name} is invalid; its last valid version remains in force: {error.message}")
            return None

    def _log_once(self, trouble: str) -> None:
        if trouble != self._trouble:
            self._log.error("%s", trouble)
        self._trouble = trouble
