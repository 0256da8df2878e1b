"""Extension of a worker's security lease."""

from collections.abc import Callable

from secmon.cluster.lease import LeaseWriter
from secmon.cluster.rpc.gen import secmon_pb2 as pb


class LeaseExtender:
    """Extends the lease at an answered heartbeat, if this node has all revisions that the master had then.

    The lease starts when the heartbeat was sent, not when the answer arrives: a late answer says nothing about the
    present. It starts as much earlier as the master's own proof is old that no other node has become master.
    """

    def __init__(self, writer: LeaseWriter, security: Callable[[], pb.Position]) -> None:
        self._writer, self._security = writer, security

    def refused(self, code: int | None) -> None:
        """Record for the API why the lease is not extended; ``None``: the node has joined."""
        self._writer.refused(code)

    def heartbeat_answered(self, answer: pb.MasterHeartbeat, sent_at: float) -> bool:
        """``sent_at``: boottime when the heartbeat was sent. Returns whether the lease was extended."""
        own = self._security()
        if own.epoch != answer.security.epoch or own.revision < answer.security.revision:
            return False
        self._writer.renew(since=sent_at - max(0.0, answer.unproved))
        return True
