"""Calls of the command line: executed by this node's cluster daemon, as the host's own identity."""

import asyncio
from collections.abc import Mapping
from typing import Any

from secmon.cluster.call import new_request_id
from secmon.cluster.rpc.local_client import LocalClient, local_failure
from secmon.cluster.rpc.wire import pack_request
from secmon.common.clock import SystemClock
from secmon.common.errors import SecmonError
from secmon.common.identity import local_identity
from secmon.common.outcome import Result
from secmon.common.paths import Paths
from secmon.config.main import load_main_config

_SECONDS = 30.0
_CONNECT_SECONDS = 5.0
"""Enough for a busy daemon, and short enough for a user at a terminal."""


def local_call(paths: Paths, operation: str, params: Mapping[str, Any] | None = None) -> Result:
    """Route ``operation`` through the cluster daemon of the node like a request of its API, without a token.

    Every user who may open the daemon's socket has all permissions. Raises the operation's SecmonError, 3013 on a node
    without a cluster, 3012 when the daemon does not run, 3020 when it does not take the call, 3021 after half a minute.
    """
    if load_main_config(paths).cluster.disabled:
        raise SecmonError(3013)
    failure = local_failure(paths.cluster_socket)
    if failure.code == 3012:  # until then no error is known
        raise failure
    return asyncio.run(_execute(paths, operation, dict(params or {})))


async def _execute(paths: Paths, operation: str, params: dict[str, Any]) -> Result:
    clock = SystemClock()
    request = pack_request(operation, params, identity=local_identity(), request_id=new_request_id())
    daemon = LocalClient("local", paths.cluster_socket, clock, connect_seconds=_CONNECT_SECONDS)
    try:
        return await daemon.send(request, clock.monotonic() + _SECONDS)
    finally:
        await daemon.close()
