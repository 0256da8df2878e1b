"""The events of one agent as texts (agent-link.md 11.1)."""

from collections.abc import Callable, Sequence
from datetime import datetime
from random import Random

import msgspec

from secmon.agents.wire.location import escape
from secmon.simulator.dialect import Dialect
from secmon.simulator.log_lines import LogLines, WindowsEvents
from secmon.simulator.profiles import Profile
from secmon.simulator.scans import Scans

KINDS = ("logs", "fim", "inventory", "sca", "rootcheck", "simulator")


class Events:
    """An endless source with a seed. ``now`` is the host's clock."""

    def __init__(
        self,
        name: str,
        profile: Profile,
        dialect: Dialect,
        kinds: Sequence[str],
        *,
        random: Random,
        now: Callable[[], datetime],
    ) -> None:
        """Raises ValueError for a kind that is not in KINDS."""
        self._dialect, self._random = dialect, random
        self._lines = LogLines(name, random, now)
        self._channel = WindowsEvents(name, random, now) if profile.family == "windows" else None
        if unknown := set(kinds) - set(KINDS):
            raise ValueError(f"no such kind of event: {', '.join(sorted(unknown))}; there are {', '.join(KINDS)}")
        makers: dict[str, Callable[[], bytes]] = {"logs": self._log}
        if set(kinds) != {"logs"}:  # the tables of a host take time and memory
            scans = Scans(name, profile, dialect, random, now)
            makers |= {
                "fim": lambda: self._report(*scans.file()),
                "inventory": lambda: self._report(*scans.inventory()),
                "sca": lambda: self._report(*scans.assessment()),
                "rootcheck": lambda: self._report(*scans.rootkit()),
                "simulator": lambda: self._report(*scans.simulator()),
            }
        self._makers = [makers[kind] for kind in kinds]

    def next(self) -> bytes:
        """The text of one more event."""
        return self._makers[0]() if len(self._makers) == 1 else self._random.choice(self._makers)()

    def _log(self) -> bytes:
        if self._channel is not None:
            return self._report("f", "EventChannel", self._channel.next())
        return self._report("1", *self._lines.next())

    def _report(self, queue: str, location: str, body: object) -> bytes:
        place = escape(location) if self._dialect.escapes else location
        data = body.encode() if isinstance(body, str) else msgspec.json.encode(body)
        return f"{queue}:{place}:".encode() + data
