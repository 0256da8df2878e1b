"""When the security lease of a worker is extended."""

from collections.abc import Callable

from secmon.cluster.lease import LeaseWriter
from secmon.cluster.rpc.gen import secmon_pb2 as pb


class LeaseExtender:
    """Extends the lease at a sign of life of the master, when this node has all that the master had then.

    The lease counts from the moment this node asked, not from the answer's arrival: an answer that was long on its way
    proves nothing about the present.
    """

    def __init__(self, writer: LeaseWriter, security: Callable[[], pb.Position]) -> None:
        self._writer, self._security = writer, security

    def refused(self, code: int | None) -> None:
        """Let the API say why the lease is not extended; ``None``: the master has let the node in."""
        self._writer.refused(code)

    def heartbeat_answered(self, beat: pb.MasterHeartbeat, asked: float) -> bool:
        """``asked``: boottime reading when the beat answered was made. Whether the lease was extended."""
        own = self._security()
        if own.epoch != beat.security.epoch or own.revision < beat.security.revision:
            return False
        self._writer.renew(since=asked)
        return True
