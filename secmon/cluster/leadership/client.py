"""Requests of the other processes of a node to ``secmon-leaderd``."""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from secmon.cluster.leadership.term import Term
from secmon.common.errors import SecmonError
from secmon.common.ipc.commands import command
from secmon.common.paths import Paths

_SECONDS = 3.0


class Unable(msgspec.Struct, frozen=True):
    """A node that cannot become master now."""

    node: str
    address: str
    reason: str


class LeaderStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What the node knows of who is master.

    ``contacted``: boottime at which the last answered question to the database was sent. ``trouble``: why it does not
    answer now, and since when. ``candidates``: nodes that could become master at the last contact; ``may_follow``:
    these and the ones that soon could; ``unable``: those that could not, and why. ``expired_since``: by the clock of
    the database, if the term has expired.
    """

    role: Literal["master", "worker"]
    term: Term | None
    since: str | None
    reason: str
    resigned: bool
    expired_since: str | None
    candidates: list[str]
    may_follow: list[str]
    unable: list[Unable]
    contacted: float | None
    trouble: str
    trouble_since: str | None


class LeaderClient:
    """Every method raises SecmonError 1121 when ``secmon-leaderd`` does not run, 1013, 1014."""

    def __init__(self, paths: Paths) -> None:
        self._socket = paths.leader_socket

    async def status(self) -> LeaderStatus:
        """What the node knows of who is master."""
        answer = await self._send("status")
        try:
            return msgspec.convert(answer, LeaderStatus)
        except msgspec.ValidationError as error:
            raise SecmonError(1014, str(error)) from error

    async def mastership(self) -> Mapping[str, Any]:
        """See ``cluster.node.MastershipSource``."""
        found = await self.status()
        term = found.term
        shown = {
            "term": term.number if term else 0,
            "holder": term.holder if term else "",
            "since": found.since,
            "reason": found.reason,
            "candidates": found.candidates,
            "unable": msgspec.to_builtins(found.unable),
        }
        return shown | ({"trouble": found.trouble} if found.trouble else {})

    async def failed(self, reason: str) -> None:
        """This node cannot be the master for now."""
        await self._send("failed", reason=reason)

    async def shown(self, number: int, by: str) -> None:
        """The node ``by`` knows the term ``number``."""
        await self._send("shown", number=number, by=by)

    async def switch_over(self, successor: str) -> Term:
        """See ``Leader.switch_over``."""
        return msgspec.convert(await self._send("switchover", successor=successor), Term)

    async def _send(self, name: str, **arguments: Any) -> Any:
        return await command(self._socket, name, seconds=_SECONDS, **arguments)
