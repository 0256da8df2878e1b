"""Silences and their times, as clients write and see them."""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from secmon.alerts.silences import LONGEST, Silence, State, in_milliseconds
from secmon.cluster.parameters import text_format
from secmon.common.clock import iso_z
from secmon.common.errors import SecmonError
from secmon.common.query.dates import Age, instant
from secmon.common.query.syntax import EXCERPT
from secmon.operations.alerts.parameters import age_of

SilenceTime = Annotated[str, text_format("silence_time", r"now(?:\+(?:[0-9]{1,9}[dhmsw])+)?|[0-9T:.\- ]+Z?")]
Line = Annotated[str, text_format("line", r"[^\x00-\x1f\x7f]*"), Meta(max_length=1024)]
"""A text of one line."""
_BY_NAME = {"rule.id": "rule_ids", "rule.groups": "rule_groups", "rule.mitre.id": "mitre"}


class Agents(Struct, frozen=True):
    """Exactly these agents, or all but these."""

    ids: list[str]
    excluded: bool


class SilenceItem(Struct):
    """A silence. ``filters``: those that its author has given. ``alerts``: stored ones that it has covered so far."""

    id: int
    state: State
    since: str
    until: str
    created: str
    user: str
    reason: str
    filters: dict[str, Any]
    agents: Agents
    alerts: int | UnsetType = UNSET


def item_of(silence: Silence, now: datetime, alerts: int | UnsetType = UNSET) -> dict[str, Any]:
    """What the API shows of it."""
    question = silence.question
    filters: dict[str, Any] = {"q": question.q, "search": question.search, "group": silence.group}
    if question.levels is not None:
        filters["level"] = "-".join(map(str, question.levels))
    filters |= {_BY_NAME[name]: list(values) for name, values in question.values.items()}
    item = SilenceItem(
        id=silence.id,
        state=silence.state(in_milliseconds(now)),
        since=_shown(silence.since),
        until=_shown(silence.until),
        created=iso_z(datetime.fromtimestamp(silence.created_at, UTC)),
        user=silence.user,
        reason=silence.reason,
        filters={name: value for name, value in filters.items() if value is not None},
        agents=Agents([*question.agents.ids], question.agents.excluded),
        alerts=alerts,
    )
    built: dict[str, Any] = msgspec.to_builtins(item)
    return built


def moment_of(text: str, now: datetime) -> int:
    """Milliseconds since 1970 of ``now``, ``now+4h`` or a date and time. Raises 1412, 1776."""
    if not text.startswith("now"):
        found = instant(text)
        if found is None:
            raise SecmonError(1412, repr(text[:EXCERPT]))
        return in_milliseconds(found)
    ahead = age_of(text.removeprefix("now").removeprefix("+"))
    if not isinstance(ahead, Age) or ahead.seconds > 2 * LONGEST.total_seconds():
        raise SecmonError(1776, repr(text[:EXCERPT]))
    return in_milliseconds(now + timedelta(seconds=ahead.seconds))


def _shown(milliseconds: int) -> str:
    return iso_z(datetime.fromtimestamp(milliseconds / 1000, UTC))
