"""An error of a task that tries again: it is logged when it begins, not with every try."""

import logging

from secmon.common.errors import SecmonError

_MOST = 100
"""Reasons that are remembered."""


class FailureLog:
    """What keeps a task from its work. It may be used by one thread at a time."""

    def __init__(self, log: logging.Logger, trouble: str, recovery: str) -> None:
        """``trouble`` precedes the reason in the log; ``recovery`` is logged when the task has succeeded again."""
        self._log, self._trouble, self._recovery = log, trouble, recovery
        self._logged: set[str] = set()
        self.reason = ""
        """Of the last try; empty while the task succeeds."""

    def failed(self, reason: str) -> None:
        """A try has failed: each reason is logged once until a try succeeds, also where several take turns."""
        if reason not in self._logged:
            self._log.error("%s: %s", self._trouble, reason)
            self._logged = {*self._logged, reason} if len(self._logged) < _MOST else {reason}
        self.reason = reason

    def call_failed(self, error: SecmonError) -> None:
        """A try has failed at a call to the cluster daemon of this node.

        That it does not run (3012) is the supervisor's to log, with its reason: it is no error at a stop of the node,
        where the cluster daemon is stopped before those that call it (manager.md 16).
        """
        if error.code == 3012:
            self._log.debug("%s: %s", self._trouble, error.message)
        else:
            self.failed(error.message)

    def succeeded(self) -> None:
        """A try has succeeded: logged if the one before failed."""
        if self.reason:
            self._log.info("%s", self._recovery)
        self.reason = ""
        self._logged = set()
