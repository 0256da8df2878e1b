"""Validation of a node's ruleset, for the daemons that answer calls: they compile nothing themselves.

The analysis daemon gives the verdict. When it does not answer, and a broken ruleset may be the cause, a separate
process gives it.
"""

import asyncio
import logging
import sys
from collections.abc import Sequence

import msgspec

from secmon.cluster.analysis_client import EngineClient
from secmon.cluster.node import Changed, Finding
from secmon.common.errors import SecmonError, os_text
from secmon.common.paths import Paths

log = logging.getLogger("secmon.operations")

_MODULE = "secmon.engine.ruleset.validation_process"


class NodeRulesetValidation:
    """Implements ``cluster.node.RulesetValidation``."""

    def __init__(self, engine: EngineClient, paths: Paths) -> None:
        self._engine = engine
        self._paths = paths
        self._process = asyncio.Lock()
        """Held while a process runs: one at a time, each keeps a core busy."""
        self._present = asyncio.Lock()
        """Held while the ruleset is validated as it is."""
        self._next: asyncio.Task[Sequence[Finding]] | None = None

    async def findings(self, changed: Changed = {}) -> Sequence[Finding]:  # noqa: B006 - never changed
        if changed:
            return await self._validate(changed, blocking=False)
        # Callers that come while one runs share the next one, which sees all that they have changed before.
        if self._next is None:
            self._next = asyncio.create_task(self._validate_present())
        return await asyncio.shield(self._next)

    async def _validate_present(self) -> Sequence[Finding]:
        async with self._present:
            self._next = None
            return await self._validate({}, blocking=False)

    async def blocking_error(self, changed: Changed) -> Finding | None:
        return next(iter(await self._validate(changed, blocking=True)), None)

    async def _validate(self, changed: Changed, *, blocking: bool) -> Sequence[Finding]:
        try:
            return await self._engine.validate(changed, blocking=blocking)
        except SecmonError as error:
            log.info("The ruleset is validated by a separate process: %s", error.message)
        request = msgspec.msgpack.encode({"changed": changed, "blocking": blocking})
        try:
            async with self._process:
                return msgspec.msgpack.decode(await self._run(request), type=list[Finding])
        except (OSError, msgspec.MsgspecError) as error:
            raise SecmonError(1904, os_text(error) if isinstance(error, OSError) else str(error)) from error

    async def _run(self, request: bytes) -> bytes:
        """The answer of a validation process, which ends with this call. Raises OSError."""
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-P", "-m", _MODULE, str(self._paths.root), stdin=pipe, stdout=pipe, stderr=pipe
        )
        try:
            answer, errors = await process.communicate(request)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode:
            raise OSError(errors.decode("utf-8", "backslashreplace").strip().rpartition("\n")[2])
        return answer
