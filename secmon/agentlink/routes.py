"""Ways to a peer: a TCP connection, or an address that sent a datagram."""

from typing import Protocol


class Route(Protocol):
    """Where a message came from, and where its answer goes."""

    source: str
    """The peer's address, as ``address.source_text`` writes it."""
    refused: bool
    """The agent's startup was refused here: its keepalives do not count until one is accepted."""

    @property
    def stream(self) -> bool:
        """TCP: frames in order or not at all; otherwise datagrams that may be lost."""

    @property
    def closed(self) -> bool: ...

    def room_for(self, size: int) -> bool:
        """Whether ``size`` bytes fit what may wait to be sent."""

    def write(self, payload: bytes) -> bool:
        """Send one payload; whether it was taken."""

    def close(self) -> None:
        """End a connection at once; nothing for datagrams."""
