"""Positions of a node's replicated state, as it reports them to the other end of the link."""

from collections.abc import Callable

from secmon.cluster.rpc.gen import secmon_pb2 as pb

Positions = Callable[[], tuple[pb.Position, pb.Position]]
"""Positions of this node's security state and of its files."""


def no_positions() -> tuple[pb.Position, pb.Position]:
    """Positions of a node that replicates nothing."""
    return pb.Position(), pb.Position()
