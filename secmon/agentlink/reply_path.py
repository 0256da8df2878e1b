"""Ways to a peer: a TCP connection, or an address that sent a datagram."""

from typing import Protocol


class ReplyPath(Protocol):
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

    @property
    def held(self) -> bool:
        """Nothing is read of it for now: the end of the connection would not be noticed either."""

    @property
    def superseded(self) -> bool:
        """The agent has another connection now: of what still comes here only events count."""

    def supersede(self) -> None:
        """Make it :attr:`superseded`, and so ``closed``: nothing is sent here any more."""

    def same(self, other: "ReplyPath") -> bool:
        """Whether both lead to the same place."""

    async def room(self, seconds: float) -> None:
        """Wait until less waits to be sent, at most so long."""

    def write(self, payload: bytes) -> bool:
        """Send one payload; whether it was taken: what does not fit what may wait to be sent is not."""

    def close(self) -> None:
        """End a connection at once; nothing for datagrams."""
