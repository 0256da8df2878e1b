"""A second connection of an agent that has one already."""

from collections.abc import Callable

from secmon.simulator.fleet_state import FleetState
from secmon.simulator.options import Server
from secmon.simulator.transport import Link, open_link

_SECONDS = 1.0


class SecondConnection:
    """Sends the agent's startup, ignores the replies, and closes after a second."""

    def __init__(self, fleet: FleetState, server: Server, introduce: Callable[[Link], None]) -> None:
        self._fleet, self._server, self._introduce = fleet, server, introduce

    async def open(self) -> None:
        try:
            await open_link(self._server, self, self._fleet.options)
        except (OSError, TimeoutError):
            self._fleet.counters.connects_failed += 1

    def link_made(self, link: Link) -> None:
        self._introduce(link)
        self._fleet.wheel.later(_SECONDS, link.close)

    def link_received(self, link: Link, payload: bytes) -> None:
        """Incoming messages are ignored."""

    def link_lost(self, link: Link) -> None:
        """Nothing to do: the server refused the connection, or it was closed."""
