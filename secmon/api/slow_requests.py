"""Requests whose answers are late: remembered with what they have spent their time on."""

from datetime import timedelta

from secmon.api.request import Request
from secmon.cluster.node import Node
from secmon.cluster.slow_requests import SlowRequest, spent_by
from secmon.common.logfile.text import one_line

_MAX_PATH = 256


def note_slow(node: Node, request: Request, seconds: float, status: int) -> SlowRequest | None:
    """Remember the request when it has taken longer than the node's threshold: ``seconds`` since it was there.

    Requests without a valid token or password are not remembered: they would push out those of users.
    """
    slow = node.slow_requests
    if not slow.threshold_seconds or seconds < slow.threshold_seconds:
        return None
    if request.trace is None or request.identity is None:
        return None
    found = SlowRequest(
        time=node.clock.now() - timedelta(seconds=seconds),
        id=request.id,
        seconds=round(seconds, 6),
        operation=request.operation,
        method=request.method,
        path=one_line(request.shown_path[:_MAX_PATH]),
        status=status,
        user=request.identity.user,
        client=request.client,
        node=node.name,
        spent=spent_by(request.trace, node.name),
    )
    slow.add(found)
    node.counters.add("api.requests.slow")
    return found
