"""Questions to all nodes: alerts are on the node that has raised them, wherever their agent is now."""

from collections.abc import Callable
from typing import Any

from secmon.alerts.conditions import AlertConditions
from secmon.alerts.question import AlertQuestion
from secmon.cluster.executor import Context
from secmon.common.outcome import Outcome
from secmon.operations.every_node import ask_every_node


async def ask_nodes(
    ctx: Context, operation: str, question: AlertQuestion, params: Callable[[str], Any]
) -> tuple[dict[str, Outcome], Outcome]:
    """See ``ask_every_node``. None is asked for alerts of no agent. Raises also the error that all nodes agree on."""
    if question.agents.nothing:
        AlertConditions(question)
        return {}, Outcome(total=0)
    return await ask_every_node(ctx, operation, params, fatal=_WRONG_QUESTION)


_WRONG_QUESTION = frozenset({1407, 1408, 1409})
"""What one node refuses, every node does."""
