"""The contract of a daemon with the process that runs it: its methods, its factory, and the failures of its start.

The order of a start decides which steps can have the rights of root. For a daemon that needs them
(``ProcessSpec.needs_root``):

1. the factory builds the daemon with the rights of the service user, and with those of root for single steps, such as
   reading a key or binding a port (``common.privileges.as_root``);
2. privileges are dropped permanently (when the supervisor's settings name a service user);
3. ``start()`` runs as the service user; when it returns the daemon serves and is reported as running.

The order for other daemons is 2, 1, 3.
"""

import errno
import logging
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Protocol, runtime_checkable

import msgspec

from secmon.cluster.slow_requests import SlowRequest
from secmon.common.background import Background
from secmon.common.errors import ConfigError, SecmonError
from secmon.common.paths import Paths

log = logging.getLogger("secmon.daemon")

EXIT_START = 1
"""Process status of a start that failed (conventions.md 11)."""
EXIT_CRASH = 70
"""Process status of a daemon whose work failed after it had started."""

START_FAILURES = {
    1000: "The program failed",
    2000: "The configuration is not valid",
    2003: "The TLS certificate, key or settings cannot be used",
    2004: "A file cannot be read",
    2010: "The address is already in use or cannot be used",
    2011: "The log settings cannot be used",
    2012: "The database cannot be used",
}
"""Process codes of conventions.md 11."""


class StartError(Exception):
    """A start that has failed: one line, no traceback. ``code`` is one of :data:`START_FAILURES`."""

    def __init__(self, code: int, detail: str) -> None:
        self.code = code
        self.detail = detail
        super().__init__(f"{code} - {START_FAILURES[code]}: {detail}")

    def line(self, daemon: str) -> str:
        """The line that the operator sees."""
        what = "the secmon API" if daemon == "secmon-apid" else daemon
        return f"Error when trying to start {what}. {self}".rstrip(".") + "."


class StartFailed(Exception):
    """A process did not become ready; the text is the reason."""

    @property
    def in_use(self) -> bool:
        """Whether an address is in use (2010). Processes pass the reason on as text."""
        return f"2010 - {START_FAILURES[2010]}" in str(self)


def start_error(error: BaseException) -> StartError:
    """``error`` as the failure of a start. Unknown errors become 1000 and are logged with their traceback."""
    match error:
        case StartError():
            return error
        case SecmonError() if error.code in START_FAILURES:
            return StartError(error.code, error.extra or error.message)
        case ConfigError():
            return StartError(2000, error.extra or error.message)
        case SecmonError():
            return StartError(2000, error.message)
        case ssl.SSLError():
            return StartError(2003, str(error))
        case PermissionError() | FileNotFoundError() if error.filename is not None:
            return StartError(2004, f"{error.filename}: {error.strerror}")
        case OSError() if error.errno in {errno.EADDRINUSE, errno.EADDRNOTAVAIL, errno.EACCES}:
            return StartError(2010, error.strerror or str(error))
        case _ if (fault := _store_fault(error)) is not None:
            return StartError(2004, fault)
        case _:
            log.error("Start failed", exc_info=error)
            return StartError(1000, f"{type(error).__name__}: {error}")


def _store_fault(error: BaseException) -> str | None:
    """The fault of the disk or of a store's file, with the remedy; ``None`` for other errors."""
    from secmon.common.sqlite.faults import StoreFault  # not before: most commands use no store

    return str(error) if isinstance(error, StoreFault) else None


class Daemon(Protocol):
    """The work of one daemon. Built by a factory, then started once and stopped once."""

    @property
    def name(self) -> str:
        """Full name, such as ``secmon-apid``."""

    @property
    def tasks(self) -> Background:
        """Its long-lived tasks."""

    async def start(self) -> None:
        """Serve; returns when ready. Must not wait for other daemons or nodes. Any error ends the start."""

    async def finished(self) -> None:
        """Wait while the daemon works. Raises when a part has failed that cannot be restarted alone."""

    async def stop(self) -> None:
        """Accept no work, finish the work in flight. Cancelled when that takes too long.

        Also called after a start that has failed or was cancelled, to close what the start has opened.
        """

    async def reload(self) -> None:
        """Apply the options that can change while it runs. Raises ConfigError, and keeps the old values."""

    def counters(self) -> Mapping[str, Any]:
        """Counters of this daemon, for ``/daemons/stats``."""

    def active_config(self) -> Mapping[str, Any]:
        """Configuration in force by section, for ``/configuration/{component}/{configuration}``."""


class SlowRequestsWanted(msgspec.Struct, frozen=True):
    """The slowest ``limit`` requests of the last ``seconds_back``."""

    seconds_back: float
    limit: int


@runtime_checkable
class AnswersClients(Protocol):
    """A daemon that answers requests of clients."""

    def slow_requests(self, wanted: SlowRequestsWanted) -> Sequence[SlowRequest]:
        """Those whose answers were late."""


@dataclass(frozen=True, kw_only=True)
class Context:
    """The argument of a factory. ``secrets`` were typed on the terminal, such as :data:`KEY_PASSWORD`."""

    name: str
    paths: Paths
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    single_process: bool = False


KEY_PASSWORD = "https.key"
"""Name in :attr:`Context.secrets` of the pass phrase of the API's TLS key."""

Factory = Callable[[Context], Daemon]


def find_factory(reference: str) -> Factory:
    """The factory that ``module:function`` names."""
    module, _, function = reference.partition(":")
    factory: Factory = getattr(import_module(module), function)
    return factory
