"""Questions to all nodes: alerts are on the node that has raised them, wherever their agent is now."""

from collections.abc import Callable
from typing import Any

from msgspec import structs

from secmon.alerts.conditions import AlertConditions
from secmon.alerts.question import AlertQuestion
from secmon.cluster.executor import Context
from secmon.common.errors import SecmonError
from secmon.common.outcome import Outcome, absorb
from secmon.operations.internal import INTERNAL


async def ask_nodes(
    ctx: Context, operation: str, question: AlertQuestion, params: Callable[[str], Any]
) -> tuple[dict[str, Outcome], Outcome]:
    """The answers by node, and an outcome with the nodes that did not answer. None is asked for alerts of no agent.

    ``params``: of the internal operation, for a node. Raises 3012, and the error that all nodes agree on.
    """
    if question.agents.nothing:
        AlertConditions(question)
        return {}, Outcome(total=0)
    nodes = ctx.node.services.nodes
    if nodes is None:
        raise SecmonError(3012)
    membership = ctx.node.services.membership
    connected = [member.name for member in membership.members()] if membership else [ctx.node.name]
    outcome = Outcome(total=0)
    for name in membership.absent() if membership else ():
        outcome.fail(SecmonError(3022), name)
        outcome.node_errors[name] = SecmonError(3022).message
    call = structs.replace(ctx.call, operation=INTERNAL[operation])
    answers = await nodes.call_nodes(call, {name: params(name) for name in connected})
    found: dict[str, Outcome] = {}
    for name, answer in sorted(answers.items()):
        if isinstance(answer, SecmonError) and answer.code in _WRONG_QUESTION:
            raise answer
        if isinstance(answer, Outcome):
            found[name] = answer
        else:
            failure = absorb(answer if isinstance(answer, SecmonError) else SecmonError(3036), name)
            outcome.failures += failure.failures
            outcome.node_errors |= failure.node_errors
    return found, outcome


_WRONG_QUESTION = frozenset({1407, 1408, 1409})
"""What one node refuses, every node does."""
