"""Calls that name nodes: who is asked, and how the answers become one.

The master coordinates; a worker does so only for a call that names itself alone.
"""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import structs

from secmon.cluster.call import Call
from secmon.cluster.catalogue import Place
from secmon.cluster.executor import Context, Executor, authorizer, read_query, requested_ids
from secmon.cluster.fan_out import CallLimits, NodeResult, fan_out
from secmon.cluster.node import Peer
from secmon.common import query
from secmon.common.errors import SecmonError
from secmon.common.identity import node_identity
from secmon.common.outcome import Outcome, Result, absorb, merge
from secmon.security.rbac.authorization import Grant

FindPeer = Callable[[str], Peer]


class LocalPeer:
    """This node as one of the nodes of a call."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    async def execute(self, call: Call, *, part: bool) -> Result:
        return await self._executor.run_part(call)


class UnreachablePeer:
    """The peer of a node whose session ended between being listed and being asked."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def execute(self, call: Call, *, part: bool) -> Result:
        """Raises 3022."""
        raise SecmonError(3022, ids=(self.name,))


def no_peer(name: str) -> Peer:
    """``find_peer`` of a node without a cluster."""
    return UnreachablePeer(name)


class Coordinator:
    """Runs calls of places NODE and NODES; :class:`secmon.cluster.node.NodeCalls` for those of place AGENT."""

    def __init__(self, executor: Executor, find_peer: FindPeer, *, limits: CallLimits) -> None:
        """``find_peer`` gives the connection to a connected node; ``limits`` bounds the calls in flight."""
        self._executor = executor
        self._find_peer = find_peer
        self._limits = limits
        self._local = LocalPeer(executor)

    async def run(self, call: Call) -> Result:
        """The merged answer. Raises 4000, also where every node refuses; for a single node also whatever it raised."""
        operation = call.operation
        asked = None if operation.fields is None else read_query(call.params, operation.fields)
        grants = await self._executor.authorize(call)
        targets, outcome = self._targets(grants["node:id"])
        if not targets and not outcome.failures:
            self._refuse(call)
        now = self._executor.node.clock.monotonic()
        answers = await fan_out(call, {name: self._peer(name) for name in targets}, now, limits=self._limits)
        if operation.place is Place.NODE and targets:
            lone = answers[targets[0]]
            if isinstance(lone, SecmonError):
                raise lone
            if not isinstance(lone, Outcome):
                return lone
        whole = _combine(call, asked, answers, outcome)
        if operation.finish is not None:
            await operation.finish(Context(self._executor.node, call, grants), whole)
        return whole

    async def call_nodes(self, call: Call, params: Mapping[str, Any]) -> Mapping[str, NodeResult]:
        """See ``cluster.node.NodeCalls``."""
        if call.identity.local:  # this host's own authority ends at this host: workers refuse such callers
            call = structs.replace(call, identity=node_identity())
        peers = {name: self._peer(name) for name in params}
        return await fan_out(call, peers, self._executor.node.clock.monotonic(), limits=self._limits, params=params)

    def _peer(self, name: str) -> Peer:
        return self._local if name == self._executor.node.name else self._find_peer(name)

    def _targets(self, grant: Grant) -> tuple[list[str], Outcome]:
        """The nodes to ask in the order of their names, and the failures known beforehand."""
        node = self._executor.node
        membership = node.services.membership
        connected = {member.name for member in membership.members()} if membership else {node.name}
        absent = set(membership.absent()) if membership else set()
        outcome = Outcome()
        if grant.error is not None:
            outcome.fail(grant.error)
        wanted = grant.select(sorted(connected | absent))
        for name in (one for one in wanted if one not in connected):
            error = SecmonError(1730 if grant.explicit else 3022)
            outcome.fail(error, name)
            if name in absent:
                outcome.node_errors[name] = SecmonError(3022).message
        return sorted(set(wanted) & connected), outcome

    def _refuse(self, call: Call) -> None:
        """Raises 4000 where the caller may read nodes and none of them may be touched (restarted, say).

        Who may not even read one gets an empty answer, as for any collection.
        """
        node, operation = self._executor.node, call.operation
        checks = authorizer(node, call)
        membership = node.services.membership
        connected = [member.name for member in membership.members()] if membership else [node.name]
        readable = checks.check(operation.require[0], requested_ids(call, operation.require[0])).select(connected)
        if len(operation.require) > 1 and readable:
            raise SecmonError(4000, "Resource type: node:id", ids=tuple(readable))


def _combine(call: Call, asked: query.Query | None, answers: Mapping[str, NodeResult], outcome: Outcome) -> Outcome:
    """One outcome of all; collections are ordered and paged over the union."""
    shares = [_share(name, answer) for name, answer in answers.items()]
    whole = merge([*shares, outcome])
    if asked is not None and call.operation.fields is not None:
        parts = [query.Part(items=share.items, total=share.count) for share in shares]
        page = query.merge(parts, asked, call.operation.fields, call.operation.default_sort)
        whole.items, whole.total = list(page.items), page.total
    return whole


def _share(name: str, answer: NodeResult) -> Outcome:
    if isinstance(answer, SecmonError):
        return absorb(answer, name)
    return answer if isinstance(answer, Outcome) else absorb(SecmonError(3036), name)
