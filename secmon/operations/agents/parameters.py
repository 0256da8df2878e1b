"""Parameters that operations on agents share, and the conditions they mean (conventions.md 5.8).

Fields have their names on the wire.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from secmon.agents.registry.agent_fields import Condition, of_version, older_than, with_value
from secmon.cluster.parameters import Alphanumeric, Common, Names, text_format
from secmon.common.query.dates import Age, moment

# Up to 18 digits after leading zeros: at most ``parameters.MAX_NUMBER``.
AgentId = Annotated[str, text_format("numbers", "0*[0-9]{1,18}"), Meta(min_length=3, max_length=64)]
AgentIdOrAll = Annotated[str, text_format("numbers_or_all", "0*[0-9]{1,18}|all"), Meta(min_length=3, max_length=64)]
GroupName = Annotated[str, text_format("group_names", r"(?!(?:\.{1,2}|all)$)[A-Za-z0-9.\-_]+")]
Timeframe = Annotated[str, text_format("timeframe", r"[0-9]+[dhms]?")]
Status = Literal["active", "pending", "never_connected", "disconnected"]

STAYS_BELOW = r"(?!.*(?:\.\.[/\\]|[/\\]\.\.))"
"""In front of a pattern: the text must not lead to a folder above."""

OlderThan = Annotated[
    Timeframe | None,
    Meta(description="Only agents not heard of for so long (`7d`, `12h`), or registered so long ago without a word."),
]
NO_AGE = "0s"
"""The value that disables ``older_than``."""


class AgentFields(Common, frozen=True, kw_only=True):
    """Fields that agents must have; letter case aside, and ``null`` means that they are empty."""

    os_platform: Alphanumeric | None = msgspec.field(name="os.platform", default=None)
    os_version: Alphanumeric | None = msgspec.field(name="os.version", default=None)
    os_name: Alphanumeric | None = msgspec.field(name="os.name", default=None)
    manager: Alphanumeric | None = None
    version: Annotated[Alphanumeric | None, Meta(description="`4.8.2`, `v4.8.2` or the whole text.")] = None
    group: GroupName | None = None
    node_name: Names | None = None
    name: Alphanumeric | None = None
    ip: Alphanumeric | None = None
    registerIP: Alphanumeric | None = None


class AgentFilters(AgentFields, frozen=True, kw_only=True):
    """Fields that agents must have, and how long they have been silent."""

    older_than: OlderThan = None


_EQUAL = ("os.platform", "os.version", "os.name", "manager", "group", "node_name", "name", "ip", "registerIP")


def conditions(
    filters: AgentFields,
    now: datetime,
    *,
    status: Sequence[str] | None = None,
    extra: Mapping[str, str | None] | None = None,
) -> list[Condition]:
    """The conditions of ``filters``, of ``status`` if given, and of the fields and values in ``extra``."""
    given = {name: getattr(filters, name.replace(".", "_")) for name in _EQUAL} | dict(extra or {})
    found = [with_value(name, value) for name, value in given.items() if value is not None]
    if status is not None:
        found.append(with_value("status", *status))
    if filters.version is not None:
        found.append(of_version(filters.version))
    return found + (silent_for(filters.older_than, now) if isinstance(filters, AgentFilters) else [])


def silent_for(text: str | None, now: datetime) -> list[Condition]:
    """The condition of ``older_than``; none without one, and for ``0s``."""
    age = None if text is None or text == NO_AGE else moment(text)
    return [older_than(age, now)] if isinstance(age, Age) else []
