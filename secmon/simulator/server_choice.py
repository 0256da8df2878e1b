"""The choice of the server that an agent tries next (agent-link.md 1.11, 6.10)."""

from collections.abc import Sequence
from typing import NamedTuple

from secmon.simulator.options import Server


class NextStep(NamedTuple):
    """The step after a failure."""

    wait: bool
    """Pause before the next attempt."""
    enrol: bool
    """Enrol at the server first: it may have lost this agent."""
    other: bool
    """The next attempt goes to another server."""


class ServerChoice:
    """The servers of one agent, and its current one."""

    def __init__(self, servers: Sequence[Server], first: int, *, max_retries: int, reenrol: bool) -> None:
        if not servers:
            raise ValueError("an agent needs a server")
        self._servers, self._at = servers, first % len(servers)
        self._max_retries, self._reenrol = max(1, max_retries), reenrol
        self._attempts = 0
        self._round = 0  # servers given up since the last success

    @property
    def server(self) -> Server:
        return self._servers[self._at]

    def succeeded(self) -> None:
        """The server acknowledged."""
        self._attempts = self._round = 0

    def failed(self) -> NextStep:
        """The server did not accept the connection."""
        self._attempts += 1
        if self._attempts < self._max_retries:
            return NextStep(wait=True, enrol=False, other=False)
        if self._attempts == self._max_retries and self._reenrol:
            return NextStep(wait=False, enrol=True, other=False)  # one more attempt follows
        return self.give_up()

    def give_up(self) -> NextStep:
        """Change to the next server; after a full round with a pause."""
        self._attempts = 0
        self._at = (self._at + 1) % len(self._servers)
        self._round = (self._round + 1) % len(self._servers)
        return NextStep(wait=self._round == 0, enrol=False, other=len(self._servers) > 1)
