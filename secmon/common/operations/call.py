"""A call on its way through the cluster."""

from typing import Any

import msgspec

from secmon.common.identity import Identity


class Call(msgspec.Struct, kw_only=True, frozen=True):
    """One operation asked for by one identity.

    ``params`` are plain builtins, checked against the operation's struct at every node that runs it. ``deadline`` is a
    reading of this host's monotonic clock in seconds; between hosts the remaining time travels as the gRPC deadline.
    ``None`` means no limit (``wait_for_complete``).
    """

    operation: str
    params: dict[str, Any]
    identity: Identity
    request_id: str
    deadline: float | None = None
    client: str = ""
