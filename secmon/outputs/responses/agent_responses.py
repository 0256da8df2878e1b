"""Responses that agents run: the message for each, by its version (agent-link.md 9)."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

from secmon.agents.link.responses import Response, response_message
from secmon.common.clock import Clock
from secmon.common.counters import Counters
from secmon.common.errors import SecmonError
from secmon.config.responses import ActiveResponse
from secmon.outputs.alert import Alert

log = logging.getLogger("secmon.responses")

MODULE = "secmon-analysisd"
MANAGER = "000"
_LARGE = ("previous_output", "previous_log", "full_log")

Versions = Callable[[Sequence[int] | None], Mapping[int, str | None]]
"""Versions of the agents with these numbers, or of all active ones. Blocks. Raises SQLAlchemyError."""
Elsewhere = Callable[[ActiveResponse, Alert], Awaitable[int]]
"""Runs a response for all agents, or for the one that is named, on other nodes; how many of these agents were not
reached. Raises SecmonError."""


class Link(Protocol):
    """The agents that are connected to this node."""

    async def send(self, messages: Sequence[tuple[int, str]]) -> Sequence[int]:
        """The numbers of those that were not reached. Raises SecmonError."""


class AgentResponses:
    """Sends responses to the agents that they are for."""

    def __init__(
        self,
        link: Link,
        versions: Versions,
        elsewhere: Elsewhere | None,
        *,
        node: str,
        clock: Clock,
        counters: Counters,
    ) -> None:
        """``elsewhere``: None without a cluster."""
        self._link = link
        self._versions = versions
        self._elsewhere = elsewhere
        self._node = node
        self._clock = clock
        self._counters = counters

    @staticmethod
    def wants(response: ActiveResponse, alert: Alert) -> bool:
        """Whether agents run it: all of them, one that is named, or the one that the alert is of."""
        return response.location in ("all", "defined-agent") or (
            response.location == "local" and alert.text("agent", "id") not in ("", MANAGER)
        )

    async def answer(self, response: ActiveResponse, alert: Alert) -> None:
        """Send a response. What cannot be sent is counted: an agent that is away has no use for it later."""
        if response.location == "all":
            numbers = None
        elif response.location == "defined-agent":
            numbers = [response.agent]
        else:
            numbers = [int(alert.text("agent", "id"))]
        try:
            unreached = await self._send(response, alert, numbers)
            if self._elsewhere is not None and response.location != "local":
                lost = await self._elsewhere(response, alert) if numbers is None or unreached else 0
            else:
                lost = len(unreached)
            if lost:
                self._counters.add("responses.unreachable", lost)
        except SecmonError as error:
            self._counters.add("responses.failed")
            log.warning("The response %s to alert %s failed: %s", response.name, alert.text("id"), error.message)

    async def _send(self, response: ActiveResponse, alert: Alert, numbers: Sequence[int] | None) -> Sequence[int]:
        """To agents of this node; the numbers of those that were not reached."""
        versions = await asyncio.to_thread(self._versions, numbers)
        made = self._messages(response, alert, versions)
        unsent = set(await self._link.send(made)) if made else set[int]()
        self._sent(alert, len(made) - len(unsent))
        if numbers is None:
            return []
        reached = {number for number, _ in made} - unsent
        return [number for number in numbers if number not in reached]

    def _messages(
        self, response: ActiveResponse, alert: Alert, versions: Mapping[int, str | None]
    ) -> list[tuple[int, str]]:
        found: list[tuple[int, str]] = []
        for number, version in versions.items():
            if not version:
                self._counters.add("responses.unknown_version")
                continue
            try:
                found.append((number, agent_message(response, alert, self._node, version)))
            except ValueError as error:
                self._counters.add("responses.too_long")
                log.warning("Agent %03d: the response %s cannot be sent: %s", number, response.name, error)
        return found

    def _sent(self, alert: Alert, count: int) -> None:
        if not count:
            return
        self._counters.add("responses.sent", count)
        if alert.time is not None:
            waited = (self._clock.now() - alert.time).total_seconds() * 1000
            self._counters.set("responses.last_delay_ms", round(max(0.0, waited), 1))


def agent_message(response: ActiveResponse, alert: Alert, node: str, version: str) -> str:
    """The message for an agent of this version. Raises ValueError when it is too long, without the logs too."""
    fields: dict[str, Any] = dict(alert.fields)
    for name in (*_LARGE, ""):
        try:
            return response_message(
                Response(
                    command=response.name,
                    arguments=response.command.arguments,
                    alert=fields,
                    node=node,
                    module=MODULE,
                ),
                version,
            )
        except ValueError:
            if not name:
                raise
            fields.pop(name, None)
    raise AssertionError("the last try raises")
