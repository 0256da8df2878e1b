"""Reply paths: a TCP connection of an agent, or the address that sent a datagram."""

from typing import Protocol


class ReplyPath(Protocol):
    """The way by which a message came, and its reply goes."""

    source: str
    """The peer's address, as ``address.source_text`` writes it."""
    refused: bool
    """The agent's startup was refused here: its keepalives do not count until one is accepted."""

    @property
    def stream(self) -> bool:
        """TCP: frames in order or not at all; otherwise datagrams that may be lost."""

    @property
    def closed(self) -> bool:
        """Nothing can be sent."""

    @property
    def held(self) -> bool:
        """It is not read for now: the end of the connection would not be noticed either."""

    @property
    def superseded(self) -> bool:
        """The agent has another connection: only events count of what still comes here."""

    def supersede(self) -> None:
        """Make it :attr:`superseded`, and so :attr:`closed`."""

    def same(self, other: "ReplyPath") -> bool:
        """Whether both lead to the same peer."""

    async def room(self, seconds: float) -> None:
        """Wait until less waits to be sent, at most so long."""

    def write(self, payload: bytes) -> bool:
        """Send one payload; False when it does not fit into what may wait to be sent."""

    def close(self) -> None:
        """End a connection at once; nothing for datagrams."""
