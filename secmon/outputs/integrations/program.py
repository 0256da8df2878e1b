"""An integration of the operator: a program in ``integrations/`` that is run for each alert (manager.md 4.3).

Arguments, as existing programs expect them: file of the alert, API key, hook URL, ``debug`` or nothing, file of the
options or nothing, seconds and number of tries. Arguments can be seen by every user of the host; with
``secrets environment`` key and URL are in the variables SECMON_API_KEY and SECMON_HOOK_URL instead.
"""

import asyncio
import logging
import os
import secrets
from collections.abc import Sequence
from pathlib import Path

from secmon.common.child_process import Process
from secmon.common.errors import os_text
from secmon.config.outputs import Integration
from secmon.outputs.alert import Alert
from secmon.outputs.alert_filter import AlertFilter
from secmon.outputs.output import Undelivered

log = logging.getLogger("secmon.outputs")

GRACE_SECONDS = 10
"""Added to the time of all tries that the program may make."""
MOST_FAILURES = 20
"""Of the program for one alert, a quarter of an hour with the pauses in between: then the next one has its turn."""
_MOST_OUTPUT = 1 << 16
_SHOWN = 300


class ProgramIntegration:
    """Runs the program for one alert after the other. An :class:`Output`."""

    most = 20

    def __init__(self, settings: Integration, root: Path, folder: Path) -> None:
        """``folder``: of this daemon alone, for the files of alerts."""
        self._filter = AlertFilter(settings.conditions)
        self.silences = settings.conditions.silences
        self._settings = settings
        self._root = root
        self._folder = folder
        self._program = root / "integrations" / settings.name
        self._failed = ("", 0)
        self._seconds = settings.timeout * (settings.retries + 1) + GRACE_SECONDS
        self.name = f"integration {settings.name}"

    def wants(self, alert: Alert) -> bool:
        return self._filter.wants(alert)

    async def deliver(self, alerts: Sequence[Alert]) -> int:
        """An alert for which the program keeps failing is given up: it counts as refused."""
        refused = 0
        for done, alert in enumerate(alerts):
            try:
                reason = await self._run(alert)
            except OSError as error:  # it cannot be run: that is no fault of the alert
                raise Undelivered(os_text(error), done, refused) from None
            if reason and not self._gives_up(alert):
                raise Undelivered(reason, done, refused)
            if reason:
                refused += 1
                log.warning("%s: alert %s is given up: %s", self.name, alert.text("id"), reason)
        return refused

    async def close(self) -> None:
        """Nothing is kept."""

    def _gives_up(self, alert: Alert) -> bool:
        """Whether this failure is the last one for ``alert``."""
        before = self._failed[1] if self._failed[0] == alert.document_id else 0
        self._failed = (alert.document_id, before + 1)
        return before >= MOST_FAILURES

    async def _run(self, alert: Alert) -> str:
        """Why the program has failed; empty when it has not. Raises OSError when it cannot be run."""
        base = self._folder / f"{self._settings.name}-{secrets.token_hex(8)}"
        files = [base.with_suffix(".alert"), base.with_suffix(".options")]
        try:
            await asyncio.to_thread(_write, files[0], alert.line)
            if self._settings.options:
                await asyncio.to_thread(_write, files[1], self._settings.options.encode())
            return await self._outcome(files)
        finally:
            for file in files:
                file.unlink(missing_ok=True)

    async def _outcome(self, files: Sequence[Path]) -> str:
        settings = self._settings
        hidden = settings.secrets == "environment"
        known = {"SECMON_API_KEY": settings.api_key, "SECMON_HOOK_URL": settings.hook_url}
        debug = "debug" if log.isEnabledFor(logging.DEBUG) else ""
        command = [
            str(self._program), str(files[0]),
            *(("", "") if hidden else known.values()),
            debug, str(files[1]) if settings.options else "", str(settings.timeout), str(settings.retries),
        ]  # fmt: skip
        async with await Process.start(command, self._root, environment=known if hidden else {}) as process:
            try:
                async with asyncio.timeout(self._seconds):
                    said = await _read(process.output)
                    status = await process.wait()
            except TimeoutError:
                return f"it has not ended within {self._seconds} s"
        return f"it ends with status {status}: {said[:_SHOWN].decode('utf-8', 'replace')!r}" if status else ""


async def _read(output: asyncio.StreamReader) -> bytes:
    """To the end; what is beyond the bound is dropped."""
    said = b""
    while more := await output.read(_MOST_OUTPUT):
        said = (said + more)[:_MOST_OUTPUT]
    return said


def clear(folder: Path) -> None:
    """Remove files that a killed daemon has left behind. Raises OSError."""
    for pattern in ("*.alert", "*.options"):
        for file in folder.glob(pattern):
            file.unlink(missing_ok=True)


def _write(file: Path, data: bytes) -> None:
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(descriptor, "wb") as made:
        made.write(data)
