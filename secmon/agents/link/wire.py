"""The messages on the local socket of ``secmon-remoted``: msgpack in frames (``common.ipc``).

:class:`FollowReports` and :class:`FollowMissingKeys` are answered by a frame for each item until one side closes.
"""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

MAX_REQUEST = 16 << 20
"""Bytes of one question."""


class AgentRequest(msgspec.Struct, frozen=True, tag=True):
    """A request to a component of an agent. Answer: its bytes."""

    agent: int
    target: str
    payload: bytes
    timeout: float | None = None


class SendMessages(msgspec.Struct, frozen=True, tag=True):
    """Texts for agents. Answer: numbers of the agents that could not be reached."""

    messages: list[tuple[int, str]]


class Statistics(msgspec.Struct, frozen=True, tag=True):
    """Counters of the link, or of some of its agents. Answer: the object of agent-link.md 12.1 or 12.2."""

    agents: list[int] | None = None


class AppendEvents(msgspec.Struct, frozen=True, tag=True):
    """Events of other daemons for the journal, as lines ``<queue>:<location>:<log>``. Answer: the number taken."""

    lines: list[bytes]


class FollowReports(msgspec.Struct, frozen=True, tag=True):
    """Reports of agents on their upgrades from now on. Answers: :class:`Report`."""


class Report(msgspec.Struct, frozen=True):
    """An agent's report on its upgrade; ``payload`` is the JSON text after ``u:upgrade_module:``."""

    agent: int
    payload: bytes


class FollowMissingKeys(msgspec.Struct, frozen=True, tag=True):
    """Keys that are missing or likely wrong, from now on. Answers: :class:`MissingKey`."""


class MissingKey(msgspec.Struct, frozen=True):
    """The id that a refused agent has sent, or the address that it has (agent-link.md 2.5)."""

    kind: Literal["id", "ip"]
    value: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.value}"


Question = AgentRequest | SendMessages | Statistics | AppendEvents | FollowReports | FollowMissingKeys


class Answer(msgspec.Struct, frozen=True):
    """An answer: one of the fields is set."""

    answer: bytes | None = None
    unsent: list[int] | None = None
    statistics: Mapping[str, Any] | None = None
    recorded: int | None = None
    report: Report | None = None
    wanted: MissingKey | None = None


encode = msgspec.msgpack.Encoder().encode
decode_question = msgspec.msgpack.Decoder(Question).decode
decode_answer = msgspec.msgpack.Decoder(Answer).decode
