"""Which alerts a request means: parameters that the operations on alerts share, and the question that they become."""

import re
from datetime import datetime
from typing import Annotated

from msgspec import Meta
from msgspec.structs import replace

from secmon.alerts.question import AgentSelection, AlertQuestion
from secmon.cluster.executor import Context
from secmon.cluster.parameters import Alphanumeric, Common, Q, text_format
from secmon.common.errors import SecmonError
from secmon.common.outcome import Messages
from secmon.common.query.dates import Age, instant, moment
from secmon.common.query.syntax import EXCERPT
from secmon.operations.agents.listing import scope_of
from secmon.operations.agents.parameters import AgentId, GroupName
from secmon.security.rbac.authorization import Require
from secmon.security.rbac.evaluate import Scope

READ_ALERTS = Require("alerts:read", "agent:id", param="agents_list", mode="each")
READ = Messages(all="The alerts were read", some="Some alerts were not read", none="No alert was found")
MAX_LEVEL = 16

Time = Annotated[str, text_format("alert_time", r"now(?:-(?:[0-9]{1,9}[dhmsw])+)?|[0-9T:.\- ]+Z?")]
LevelRange = Annotated[str, text_format("range", r"[0-9]{1,2}|[0-9]{1,2}-[0-9]{1,2}")]
_WEEKS = re.compile(r"(\d+)w", re.ASCII)


class Conditions(Common, frozen=True, kw_only=True):
    """What alerts must have; all of it, of lists one value."""

    q: Q = None
    search: Annotated[str | None, Meta(description='Words, or phrases in `"`; `-` in front for their absence.')] = None
    level: Annotated[LevelRange | None, Meta(description="Level of the rule, or a range such as `7-15`.")] = None
    rule_ids: Annotated[list[Alphanumeric] | None, Meta(description="Ids of rules.")] = None
    rule_groups: Annotated[list[Alphanumeric] | None, Meta(description="Groups of rules.")] = None
    mitre: Annotated[list[Alphanumeric] | None, Meta(description="Ids of ATT&CK techniques.")] = None
    agents_list: Annotated[list[AgentId] | None, Meta(description="Ids of agents.")] = None
    group: Annotated[GroupName | None, Meta(description="A group of agents, as its members are now.")] = None


class AlertFilters(Conditions, frozen=True, kw_only=True):
    """What alerts must have, and when they were raised."""

    since: Annotated[Time | None, Meta(description="First moment: `now-24h`, `2026-11-22` or a date and time.")] = None
    until: Annotated[Time | None, Meta(description="The moment after the last one, written in the same way.")] = None
    acknowledged: Annotated[bool | None, Meta(description="Whether they are acknowledged.")] = None


def question_of(ctx: Context, params: AlertFilters, *, since: str | None = None) -> AlertQuestion:
    """The question, limited to the alerts that the caller may read. ``since``: where the request names none.

    Raises 1411 and 1412 for times. What is wrong with ``q`` and ``search`` is found by each node alike.
    """
    now = ctx.node.clock.now()
    return replace(
        conditions_of(ctx, params),
        since=_time(params.since or since, now),
        until=_time(params.until, now),
        acknowledged=params.acknowledged,
    )


def conditions_of(ctx: Context, params: Conditions) -> AlertQuestion:
    """The question without times, limited to the alerts of agents that the caller may see."""
    lists = {"rule.id": params.rule_ids, "rule.groups": params.rule_groups, "rule.mitre.id": params.mitre}
    return AlertQuestion(
        agents=selection(ctx, params.group),
        q=params.q,
        search=params.search,
        levels=_levels(params.level),
        values={name: tuple(values) for name, values in lists.items() if values is not None},
    )


def selection(ctx: Context, group: str | None = None) -> AgentSelection:
    """The agents that the caller may see, and that the request names. Groups are those of this moment."""
    scope = scope_of(ctx.grant(READ_ALERTS.resource))
    if group is not None:
        scope = Scope(frozenset(scope.among(ctx.node.memberships.members(group))))
    return AgentSelection(ids=tuple(sorted(scope.ids)), excluded=scope.complement)


def some_agents(ctx: Context) -> AgentSelection:
    """The agents that the caller may do something to. Raises 4000 when there are none."""
    found = selection(ctx)
    if found.nothing:
        raise SecmonError(4000, "Resource type: agent:id")
    return found


def age_of(text: str) -> Age | datetime | None:
    """What ``5m`` or ``1w2d`` means; nothing means none at all. Raises 1411, 1412."""
    return moment(_WEEKS.sub(lambda one: f"{int(one[1]) * 7}d", text or "0s"))


def _levels(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    low, _, high = text.partition("-")
    return int(low), min(int(high or low), MAX_LEVEL)


def _time(text: str | None, now: datetime) -> int | None:
    """Milliseconds since 1970. Raises 1411, 1412."""
    if text is None:
        return None
    if text.startswith("now"):
        age = age_of(text.removeprefix("now").lstrip("-"))
        found = age.before(now) if isinstance(age, Age) else None
    else:
        found = instant(text)
    if found is None:
        raise SecmonError(1412, repr(text[:EXCERPT]))
    return int(found.timestamp() * 1000)
