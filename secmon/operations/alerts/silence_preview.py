"""``GET /alerts/silences/preview``: what a silence would have covered, before it is made."""

from datetime import timedelta

import msgspec
from msgspec import Struct, structs

from secmon.alerts.silences import in_milliseconds
from secmon.cluster.catalogue import Place, operation
from secmon.cluster.executor import Context
from secmon.common.outcome import Outcome, merge
from secmon.operations.alerts.counts import COUNTED, TimeCount, ValueCount, steps_of, values_of
from secmon.operations.alerts.parameters import MAX_LEVEL, READ_ALERTS, Conditions
from secmon.operations.alerts.silences import CREATE, silenced_question

DAYS = 7
MOST = 10
"""Rules and agents that are named."""
_DAY = 86_400_000


class Preview(Struct, frozen=True):
    """Alerts of the last seven days: how many, in each day, the most frequent rules and agents.

    ``error``: how much too low a count of a rule or an agent may be at most.
    """

    alerts: int
    highest_level: int | None
    days: list[TimeCount]
    rules: list[ValueCount]
    agents: list[ValueCount]
    error: int


@operation(
    "GET", "/alerts/silences/preview", params=Conditions, place=Place.AGENT, require=(CREATE, READ_ALERTS),
    messages=COUNTED, item=Preview,
)  # fmt: skip
async def preview_silence(ctx: Context, params: Conditions) -> Outcome:
    """What a silence with these filters would have covered in the last seven days."""
    now = ctx.node.clock.now()
    since, until = in_milliseconds(now - timedelta(days=DAYS)), in_milliseconds(now)
    question = structs.replace(silenced_question(ctx, params), since=since, until=until)
    days = await steps_of(ctx, question, _DAY)
    rules, of_rules = await values_of(ctx, question, "rule.id", MOST)
    agents, of_agents = await values_of(ctx, question, "agent.id", MOST)
    levels, of_levels = await values_of(ctx, question, "rule.level", MAX_LEVEL + 1)
    outcome = merge((structs.replace(days, items=[], total=0), of_rules, of_agents, of_levels))
    preview = Preview(
        alerts=rules.total,
        highest_level=max((int(level) for level, _ in levels.counts), default=None),
        days=days.items,
        rules=[ValueCount(*one) for one in rules.counts],
        agents=[ValueCount(*one) for one in agents.counts],
        error=max(rules.error, agents.error),
    )
    outcome.items, outcome.total = [msgspec.to_builtins(preview)], 1
    return outcome
