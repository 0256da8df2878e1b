"""Running a call on this node: position, readiness, permission, function, query, deadline. In this order, for all."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec import Struct, msgpack, structs

from secmon.cluster.call import Call
from secmon.cluster.known_resources import Inventory
from secmon.cluster.node import Node
from secmon.common import query
from secmon.common.errors import Kind, SecmonError
from secmon.common.outcome import Outcome, Result
from secmon.common.sqlite.faults import storage_error
from secmon.common.sqlite.recording import Commits, counted_commits
from secmon.common.trace import span
from secmon.security.audit import Actor, audited_write
from secmon.security.authentication_error import AuthenticationError
from secmon.security.rbac.authorization import Authorizer, Grant, Require, named_ids
from secmon.security.rbac.evaluate import Scope
from secmon.security.store.transaction import WriteTransaction

log = logging.getLogger("secmon.operations")

BASE_DAEMONS = ("secmon-modulesd", "secmon-analysisd", "secmon-remoted", "secmon-authd")
"""Daemons whose failure stops ordinary operations (conventions.md 0, step 13)."""

NUMBERED = frozenset({"user:id", "role:id", "policy:id", "rule:id"})
"""Kinds whose ids are numbers: policies write them without leading zeros."""

QUERY_PARAMETERS = ("q", "sort", "search", "select", "distinct", "offset", "limit")
"""What a collection's parameters may hold (see ``parameters.Listing``); not every operation has all."""

UNCHANGED = frozenset({3050, 3051, 3053})
"""The store of record has refused a change."""

REVISION_POLL = 0.005
"""Seconds between two reads of the local security revision while a call waits for its own."""
REVISION_SECONDS = 30.0
"""How long a call waits for its revision at most, also without a deadline: one that never comes must not hold it."""


@dataclass(frozen=True)
class Context:
    """What an operation's function gets to work with."""

    node: Node
    call: Call
    grants: dict[str, Grant] = field(default_factory=dict)

    @property
    def origin(self) -> str:
        """Name of the node where the call began."""
        return self.call.node or self.node.name

    def grant(self, kind: str) -> Grant:
        """What the caller may touch of ``kind``; the operation declared a requirement on it."""
        return self.grants[kind]

    async def remembered(self, version: Hashable, make: Callable[[], Outcome]) -> Outcome:
        """The outcome of ``make``, which blocks; or the one that it gave when ``version`` was the same.

        It depends on the parameters, on the grants, and on state of which ``version`` was read before this call.
        None: on something else too.
        """
        call, answers = self.call, self.node.answers
        if version is None or not call.text:
            return await asyncio.to_thread(make)
        question = call.operation.name, msgpack.encode(call.params), tuple(self.grants.items())
        known = answers.find(question, version)
        if known is None:
            known = await asyncio.to_thread(lambda: _page(call, make()).with_text())
            answers.keep(question, version, known)
        return known

    async def change_security(self, change: Callable[[WriteTransaction], object]) -> None:
        """One transaction on the security store, off the event loop, written to the audit log. On the master only.

        Raises 1005, and changes nothing, when the audit log cannot be written.
        """
        identity, node = self.call.identity, self.node
        author = Actor(
            user=identity.user,
            user_id=identity.user_id,
            operation=self.call.operation.name,
            client=self.call.client,
            request=self.call.request_id,
            context=identity.context_hash,
            node=self.call.node,
            issuer=identity.issuer,
        )
        await asyncio.to_thread(audited_write, node.security, node.paths.audit_log, author, change, node.clock)

    async def unconfirmed_nodes(self) -> list[str]:
        """Wait until every connected node has confirmed the change just made; a note with those that have not."""
        acknowledgements = self.node.services.acknowledgements
        if acknowledgements is None:
            return []
        with span("confirmation"):
            names = await acknowledgements.confirmed(self.node.security.revision())
        if not names:
            return []
        log.warning("%s: security state not yet confirmed by %s", self.call.title, ", ".join(names))
        return [f"Not yet confirmed by: {', '.join(names)}"]

    async def allows(self, require: Require) -> bool:
        """Whether the caller meets ``require`` too: for what an answer shows, not for whether there is one.

        Judged on this node, at the revision of the call: a part that another node asked for is not judged elsewhere.
        Raises 3044 when this node does not reach that revision in time.
        """
        await wait_for_revision(self.node, self.call)
        try:
            authorizer(self.node, self.call).check(require, requested_ids(self.call, require))
        except SecmonError as error:
            if error.code != 4000:
                raise
            return False
        return True


class Executor:
    """Runs calls on this node."""

    def __init__(self, node: Node) -> None:
        self.node = node

    async def run(self, call: Call) -> Result:
        """The whole answer of this node: authorized, run, filtered, paged."""
        result = await self._bounded(call, self._authorized(call))
        with span("query"):
            return _page(call, result) if isinstance(result, Outcome) else result

    async def run_part(self, call: Call) -> Result:
        """This node's share of a call that the coordinator has authorized and will page."""
        call = structs.replace(call, text=False)
        result = await self._bounded(call, self._granted(call, {}))
        fields = call.operation.fields
        if isinstance(result, Outcome) and fields is not None:
            with span("query"):
                share = query.part(result.items, read_query(call.params, fields), fields, call.operation.default_sort)
            result.items, result.total = list(share.items), share.total
        return result

    async def authorize(self, call: Call) -> dict[str, Grant]:
        """Check every requirement of the operation; raises 4000. Waits for the revision the caller was judged at."""
        await wait_for_revision(self.node, call)
        grants: dict[str, Grant] = {}
        if not call.operation.require:
            return grants
        with span("permission"):
            checks = authorizer(self.node, call)
            for require in call.operation.require:
                grant = checks.check(require, requested_ids(call, require))
                grants[require.resource] = _narrower(grants.get(require.resource), grant)
        return grants

    async def _authorized(self, call: Call) -> Result:
        return await self._granted(call, await self.authorize(call))

    async def _granted(self, call: Call, grants: dict[str, Grant]) -> Result:
        if not call.operation.exempt:
            await self._ready()
        with span("function"):
            result = await call.operation.function(Context(self.node, call, grants), call.params)
        if call.operation.changes_files and self.node.services.file_changes is not None:
            with span("confirmation"):
                await self.node.services.file_changes.settled()
        if isinstance(result, Outcome):
            _add_denied(result, grants)
        return result

    async def _ready(self) -> None:
        """Raises 1017 while one of the base daemons is down."""
        with span("states"):
            states = await self.node.services.control.known_states()
        down = [
            f"{name}->{state}"
            for name, state in states.items()
            if name in BASE_DAEMONS and state in ("failed", "restarting")
        ]
        if down:
            raise SecmonError(1017, f"in node {self.node.name!r} ({', '.join(down)})")

    async def _bounded(self, call: Call, running: Coroutine[Any, Any, Result]) -> Result:
        """Await ``running`` up to the deadline; every error that leaves names this node."""
        with counted_commits() as commits:
            try:
                return await self._in_time(call, running)
            except SecmonError as error:
                raise self._named(_of_all(error, commits)) from error.__cause__

    async def _in_time(self, call: Call, running: Coroutine[Any, Any, Result]) -> Result:
        limit = None if call.deadline is None else max(0.0, call.deadline - self.node.clock.monotonic())
        try:
            async with asyncio.timeout(limit):
                return await running
        except TimeoutError:
            log.warning("%s: %s did not finish in time", call.title, call.operation.name)
            raise SecmonError(3021) from None
        except (SecmonError, AuthenticationError):  # the second, a 401: the caller has ceased to exist meanwhile
            raise
        except Exception as error:  # the one place where an unforeseen fault becomes an answer
            failure = storage_error(error)
            if failure is not None:
                self.node.counters.add("operations.storage_errors")
                name = call.operation.name
                log.error("node %s: request %s: %s failed: %s", self.node.name, call.request_id, name, error)
                raise failure from error
            self.node.counters.add("operations.unexpected_errors")
            log.exception("node %s: %s: operation %s failed", self.node.name, call.title, call.operation.name)
            raise SecmonError(1000) from error

    def _named(self, error: SecmonError) -> SecmonError:
        if not error.nodes and error.kind is not Kind.TOO_MANY_REQUESTS:
            error.nodes = {self.node.name: error.message}
        return error


def _of_all(error: SecmonError, commits: Commits) -> SecmonError:
    """``error`` of the last change of a call; 3052 when it says that nothing was changed, and earlier changes were."""
    if commits.made and error.code in UNCHANGED:
        return SecmonError(3052, f"a part of it was made: {error.message}", nodes=error.nodes)
    return error


def _page(call: Call, whole: Outcome) -> Outcome:
    """The page that ``call`` asks for; ``whole`` itself where the operation has made it."""
    fields = call.operation.fields
    if fields is not None and not whole.text:
        page = query.run(whole.items, read_query(call.params, fields), fields, call.operation.default_sort)
        whole.items, whole.total = list(page.items), page.total
    return whole


async def wait_for_revision(node: Node, call: Call) -> None:
    """Wait until ``node``'s security state is at the revision that the identity was judged at. Raises 3044."""
    wanted, store = call.identity.revision, node.security
    if store.known_revision >= wanted:
        return
    end = node.clock.monotonic() + REVISION_SECONDS
    end = end if call.deadline is None else min(end, call.deadline)
    with span("revision"):
        while store.view().revision < wanted:
            if node.clock.monotonic() >= end:
                behind = f"{node.name} is at {store.view().revision}, the request at {wanted}"
                raise SecmonError(3044, behind, nodes={node.name: behind})
            await asyncio.sleep(REVISION_POLL)


def authorizer(node: Node, call: Call) -> Authorizer:
    """The checks of ``call`` against the present security state of ``node``."""
    return Authorizer(call.identity, node.security.view(), Inventory(node), node=node.name)


def requested_ids(call: Call, require: Require) -> Sequence[str] | None:
    """The ids that the request names for ``require``, each once and in its order; ``None`` when it names none.

    ``007`` means the number 7.
    """
    ids = None if require.param is None else named_ids(getattr(call.params, require.param))
    if ids is None:
        return None
    if require.resource in NUMBERED:
        ids = tuple(one.lstrip("0") or "0" for one in ids)
    return list(dict.fromkeys(ids))


def read_query(params: Struct, fields: query.Fields) -> query.Query:
    """What ``params`` holds of q, sort, search, select, distinct, offset and limit. Raises 14xx and 1724."""
    given = {name: getattr(params, name) for name in QUERY_PARAMETERS if hasattr(params, name)}
    return query.Query.parse(fields=fields, **given)


def _narrower(before: Grant | None, grant: Grant) -> Grant:
    """Two requirements on one kind (read and restart, say) leave what both permit. Raises 4000 where that is no id."""
    if before is None:
        return grant
    if grant.explicit and before.explicit:
        ids = tuple(one for one in grant.ids if one in before.ids)
        denied = tuple(dict.fromkeys((*before.denied, *grant.denied)))
        both = Grant(kind=grant.kind, explicit=True, ids=ids, denied=denied)
        if not ids and both.error is not None:
            raise both.error
        return both
    if grant.explicit != before.explicit:
        return grant if grant.explicit else before
    return Grant(kind=grant.kind, explicit=False, scope=_both(before.scope, grant.scope))


def _both(left: Scope, right: Scope) -> Scope:
    if left.complement and right.complement:
        return Scope(left.ids | right.ids, complement=True)
    if left.complement or right.complement:
        named, excluded = (right, left) if left.complement else (left, right)
        return Scope(named.ids - excluded.ids)
    return Scope(left.ids & right.ids)


def _add_denied(result: Outcome, grants: dict[str, Grant]) -> None:
    for grant in grants.values():
        if grant.error is not None:
            result.fail(grant.error)
