"""What a daemon is to the process that runs it: its contract, its factory, and how its start may fail.

The order of a start decides what may need root. A daemon that needs it (``ProcessSpec.needs_root``):

1. the factory builds the daemon with the service user's rights, and has root's for what needs them: reading a key,
   binding a port (``common.privileges.as_root``);
2. privileges are dropped for good (when the node's plan names a service user);
3. ``start()`` runs as the service user; when it returns the daemon serves and is reported as running.

Any other is built as the service user: 2, 1, 3.
"""

import errno
import logging
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Protocol

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
    2012: "The access-control database cannot be used",
}
"""Process codes of conventions.md 11."""


class StartError(Exception):
    """A start that cannot go on: one clear line, no traceback. ``code`` stands in :data:`START_FAILURES`."""

    def __init__(self, code: int, detail: str) -> None:
        self.code = code
        self.detail = detail
        super().__init__(f"{code} - {START_FAILURES[code]}: {detail}")

    def line(self, daemon: str) -> str:
        """The one line that an operator sees."""
        what = "the secmon API" if daemon == "secmon-apid" else daemon
        return f"Error when trying to start {what}. {self}".rstrip(".") + "."


class StartFailed(Exception):
    """A process that was started did not become ready; the text says why."""

    @property
    def in_use(self) -> bool:
        """Whether an address could not be had (2010). Processes hand their reasons on as text."""
        return f"2010 - {START_FAILURES[2010]}" in str(self)


def start_error(error: BaseException) -> StartError:
    """What ``error`` means for a start; unknown ones become 1000 and are logged with their trace."""
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
    """What is wrong with the disk or the file of a store, and what to do; ``None`` for other errors."""
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
        """Serve; returns when ready. Must not wait for other daemons or nodes. Raises what stops the start."""

    async def finished(self) -> None:
        """Wait while the daemon works; raise when a part that cannot be restarted alone has failed."""

    async def stop(self) -> None:
        """Take nothing new, finish what is in flight; cancelled when that takes too long.

        Also called after a start that failed or was cancelled half-way, to let go of what it had opened.
        """

    async def reload(self) -> None:
        """Take over what may change while running. Raises ConfigError; the old values then stay in force."""

    def counters(self) -> Mapping[str, Any]:
        """Numbers of this daemon, for ``/daemons/stats``."""

    def active_config(self) -> Mapping[str, Any]:
        """Configuration in force by section, for ``/configuration/{component}/{configuration}``."""


@dataclass(frozen=True, kw_only=True)
class Context:
    """What a factory gets. ``secrets`` holds what was asked for on the terminal, such as :data:`KEY_PASSWORD`."""

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
