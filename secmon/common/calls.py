"""A call on its way through the cluster."""

from typing import Any

import msgspec

from secmon.common.identity import Identity


class Call(msgspec.Struct, kw_only=True, frozen=True):
    """One operation asked for by one identity.

    ``params`` are plain builtins, checked against the operation's struct at every node that runs it. ``deadline`` is a
    reading of this host's monotonic clock in seconds; between hosts the remaining time travels as the gRPC deadline.
    ``None`` means no limit (``wait_for_complete``). ``token`` is the client's: a worker sends it to the master, which
    trusts nothing else about the caller; it is sent to no other node. ``node`` is the worker that forwarded the call,
    by its certificate; empty where the call began on this node.
    """

    operation: str
    params: dict[str, Any]
    identity: Identity
    request_id: str
    deadline: float | None = None
    client: str = ""
    token: str = ""
    node: str = ""

    def __repr__(self) -> str:
        return f"Call({self.operation!r}, {self.title})"

    @property
    def title(self) -> str:
        """How logs name it."""
        nodes = [f"from node {self.node}"] if self.node else []
        nodes += [f"token issued by node {self.identity.issuer}"] if self.identity.issuer else []
        return f"request {self.request_id}" + (f" ({', '.join(nodes)})" if nodes else "")
