"""How much may be under way between two nodes: heartbeats share a narrow link with files, snapshots and reports.

A heartbeat has a connection of its own, but the network sends what lies before it first. So every stream has a window
of fixed size instead of one that grows with the link, and what can be split travels in small messages: gRPC extends the
window by the rest of a message that is being read. At 64 kbit/s a stream then delays a heartbeat by 12 s at most; the
price is a transfer of at most ``WINDOW_BYTES + PIECE_BYTES`` in a round trip.
"""

from typing import Any, Final

WINDOW_BYTES: Final = 32 * 1024
"""Of each stream, on top of the message that is being read."""
PIECE_BYTES: Final = 64 * 1024
"""About the largest message of whatever is streamed or can be fetched instead of pushed."""

OPTIONS: Final[tuple[tuple[str, Any], ...]] = (
    ("grpc.http2.bdp_probe", 0),  # it would let the window grow to megabytes
    ("grpc.http2.lookahead_bytes", WINDOW_BYTES),
)
"""For channels and servers."""
