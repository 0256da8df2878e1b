"""A trouble that lasts is logged when it begins, not each time that it is met."""

import logging
import re

_CAUSES = 20
_SECONDS = re.compile(r"\d+(\.\d+)? s\b")


class TroubleLog:
    """Each cause of a trouble once, until :meth:`over`."""

    def __init__(self, log: logging.Logger, level: int = logging.WARNING) -> None:
        self._log, self._level = log, level
        self._causes: set[str] = set()

    def note(self, text: str, *values: object) -> None:
        """``text`` and ``values`` are as for a logger. Causes that were met before are logged at debug.

        A number of seconds makes no other cause: how long to wait differs each time.
        """
        cause = _SECONDS.sub("", text % values)
        new = cause not in self._causes and len(self._causes) < _CAUSES
        if new:
            self._causes.add(cause)
        self._log.log(self._level if new else logging.DEBUG, text, *values)

    def over(self) -> bool:
        """It is over; whether there was any."""
        was, self._causes = bool(self._causes), set()
        return was
