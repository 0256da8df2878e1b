"""One internal operation asked of every node, by the master or by a node without a cluster."""

from collections.abc import Callable, Collection
from typing import Any

from msgspec import structs

from secmon.cluster.executor import Context
from secmon.common.errors import SecmonError
from secmon.common.outcome import Outcome, absorb
from secmon.operations.internal import INTERNAL


async def ask_every_node(
    ctx: Context, operation: str, params: Callable[[str], Any], *, fatal: Collection[int] = ()
) -> tuple[dict[str, Outcome], Outcome]:
    """The answers by node, and an outcome with the nodes that did not answer. Nodes do not judge permissions again.

    ``params``: of the internal operation, for a node. Raises 3012, and the first error with a ``fatal`` code.
    """
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
        if isinstance(answer, SecmonError) and answer.code in fatal:
            raise answer
        if isinstance(answer, Outcome):
            found[name] = answer
        else:
            failure = absorb(answer if isinstance(answer, SecmonError) else SecmonError(3036), name)
            outcome.failures += failure.failures
            outcome.node_errors |= failure.node_errors
    return found, outcome
