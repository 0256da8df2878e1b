"""Datagrams of agents."""

import asyncio
import socket
from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeAlias

from secmon.agentlink.agent_table import Agent
from secmon.agentlink.reply_path import ReplyPath
from secmon.agents.wire.address import source_text

Address: TypeAlias = tuple[Any, ...]
"""Host and port; for IPv6 also flow and scope."""

LARGEST = 65536
A_TURN = 128
"""Datagrams read before other callbacks run."""


class DatagramPeer:
    """The sender of a datagram; a :class:`~secmon.agentlink.receiving.Sender`."""

    __slots__ = ("_address", "_endpoint", "agent", "refused", "source")

    stream = False
    closed = False
    held = False
    superseded = False

    def __init__(self, endpoint: socket.socket, address: Address, source: str) -> None:
        self._endpoint = endpoint
        self._address = address
        self.source = source
        self.agent: Agent | None = None
        self.refused = False

    def same(self, other: ReplyPath) -> bool:
        return isinstance(other, DatagramPeer) and other._address == self._address and other._endpoint is self._endpoint

    def authenticated(self, agent: Agent) -> None:
        self.agent = agent

    def accepts_event(self, _agent: Agent, _size: int) -> bool:
        """Always: datagrams are dropped before they are decrypted, or not at all."""
        return True

    def write(self, payload: bytes) -> bool:
        try:
            self._endpoint.sendto(payload, self._address)
        except OSError:  # no room, or no route to the peer: datagrams may be lost
            return False
        return True

    async def room(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def supersede(self) -> None:
        """Nothing to do: datagrams have no connection."""

    def close(self) -> None:
        """Nothing to do: datagrams have no connection."""


_source = lru_cache(maxsize=65536)(source_text)


def read_datagrams(endpoint: socket.socket, take: Callable[[str, Address, bytes], None]) -> None:
    """Read at most ``A_TURN`` datagrams; ``take`` gets the sender's address as text and as a tuple, and the data.

    Call it when ``endpoint`` is readable.
    """
    for _ in range(A_TURN):
        try:
            data, address = endpoint.recvfrom(LARGEST)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:  # the error of an earlier reply is reported here
            continue
        take(_source(address[0]), address, data)
