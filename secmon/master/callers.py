"""Who makes the calls that workers forward: verified here, whatever the worker sends.

A worker sends the token of its client. The master verifies it against its own state and draws the identity from it, so
that a worker can ask for a client only while it holds a token of that client. Without a token it asks for itself.
"""

import logging

from msgspec import structs

from secmon.cluster.call import Call
from secmon.cluster.catalogue import Operation, Place
from secmon.cluster.node import Node
from secmon.common.errors import SecmonError
from secmon.common.identity import Identity, local_identity, node_identity
from secmon.security.authentication_error import AuthenticationError

log = logging.getLogger("secmon.clusterd.callers")

MEMBER_OPERATIONS = frozenset({"GET /cluster/nodes", "GET /cluster/healthcheck"})
"""What the command line of a worker shows of the cluster: every member may know it."""


class CallerVerifier:
    """Judges the calls that workers forward."""

    def __init__(self, node: Node, *, skew_seconds: float) -> None:
        """``skew_seconds``: how far clocks of workers may differ, which have checked the times of tokens by theirs."""
        self._node, self._skew_seconds = node, skew_seconds

    def verified(self, call: Call, worker: str) -> Call:
        """``call`` as the master runs it: of whom the token names, forwarded by ``worker``.

        Raises :class:`AuthenticationError` for a token that the master would not accept itself, SecmonError 4000 for
        what a worker may not ask for.
        """
        try:
            identity = self._identity(call, worker)
        except (AuthenticationError, SecmonError) as error:
            self._node.counters.add("cluster.calls_refused")
            log.warning(
                "request %s: refused %s from worker %s: %s", call.request_id, call.operation.name, worker, error
            )
            raise
        return structs.replace(call, identity=identity, token="", node=worker)

    def _identity(self, call: Call, worker: str) -> Identity:
        operation = call.operation
        if call.token:
            # No client logs in through another node. The token of a login would be signed by this node, so that what a
            # worker has forged with its own key would lose the worker's name.
            if operation.internal or operation.auth == "basic":
                raise SecmonError(4000, f"{worker} asked for {operation.name} on behalf of a client")
            return self._node.tokens.verify(self._node.security.view(), call.token, skew_seconds=self._skew_seconds)
        if operation.name in MEMBER_OPERATIONS:
            return local_identity()
        if _for_nodes(operation):
            return node_identity()
        raise SecmonError(4000, f"{worker} asked for {operation.name} without a token")


def _for_nodes(operation: Operation) -> bool:
    """What workers ask the master for themselves; the rest of the internal operations only the master asks for."""
    return operation.internal and operation.place is Place.MASTER
