"""Calls of the command line: executed by this node's cluster daemon, as the host's own identity."""

import asyncio
import uuid
from collections.abc import Mapping
from typing import Any

from secmon.common.clock import SystemClock
from secmon.common.errors import SecmonError
from secmon.common.identity import local_identity
from secmon.common.operations.call import Call
from secmon.common.outcome import Result
from secmon.common.paths import Paths
from secmon.common.rpc.channels import local_channel
from secmon.common.rpc.peer import RemotePeer

_SECONDS = 30.0


def local_call(paths: Paths, operation: str, params: Mapping[str, Any] | None = None) -> Result:
    """Have the cluster daemon of the node route ``operation`` as if its API had been asked, without a token.

    Who may open the daemon's socket may do everything. Raises the operation's SecmonError, 3012 when the daemon does
    not run, 3021 after half a minute.
    """
    if not paths.cluster_socket.exists():
        raise SecmonError(3012)
    return asyncio.run(_execute(paths, operation, dict(params or {})))


async def _execute(paths: Paths, operation: str, params: dict[str, Any]) -> Result:
    clock = SystemClock()
    call = Call(
        operation=operation,
        params=params,
        identity=local_identity(),
        request_id=uuid.uuid4().hex,
        deadline=clock.monotonic() + _SECONDS,
    )
    async with local_channel(paths.cluster_socket) as channel:
        return await RemotePeer("local", channel, clock, unreachable=3012).execute(call, part=False)
