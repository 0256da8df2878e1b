"""Outdated password hashes are replaced when their user logs in: then, and only then, the password is at hand.

The master hashes it again itself, after it has verified it: a hash that a node sends would prove nothing, and would be
a password of that node's choice.
"""

import asyncio
import logging

from secmon.cluster.call import Call, new_request_id
from secmon.cluster.node import CallRouter, Node
from secmon.common.errors import SecmonError
from secmon.common.identity import Identity, local_identity
from secmon.operations.internal import INTERNAL, HashUpgrade
from secmon.security.authentication_error import AuthenticationError
from secmon.security.passwords import MAX_TRIED_LENGTH, needs_rehash

log = logging.getLogger("secmon.api")

OPERATION = INTERNAL["PUT /internal/password-hash"]

MOST_AT_ONCE = 8
"""Upgrades that wait or run; who logs in meanwhile is upgraded at a later login."""


class HashUpgrades:
    """Upgrades in the background: no login waits for one, and one that fails is tried again at the next login."""

    def __init__(self, node: Node, router: CallRouter) -> None:
        self._node, self._router = node, router
        self._running: dict[int, asyncio.Task[None]] = {}

    def begin_if_due(self, identity: Identity, stored: str, password: str, client: str) -> None:
        """Replace ``stored``, the hash that ``password`` was just verified with, if it is of an older kind."""
        user = identity.user_id
        if not needs_rehash(stored) or user in self._running or len(self._running) >= MOST_AT_ONCE:
            return
        if len(password) > MAX_TRIED_LENGTH:  # an old hash covers all of it, a new one would not
            return
        task = asyncio.create_task(self._upgrade(identity, stored, password, client), name=f"upgrade hash of {user}")
        self._running[user] = task
        task.add_done_callback(lambda _: self._running.pop(user))

    def close(self) -> None:
        """Give up what has not been done."""
        for task in self._running.values():
            task.cancel()

    async def _upgrade(self, identity: Identity, stored: str, password: str, client: str) -> None:
        node = self._node
        call = Call(
            operation=OPERATION,
            params=HashUpgrade(user=identity.user, password=password),
            identity=local_identity(),
            request_id=new_request_id(),
            deadline=node.clock.monotonic() + node.api_config.intervals.request_timeout,
            client=client,
        )
        try:
            await self._router.route(call)
        except (SecmonError, AuthenticationError) as error:
            log.info("the password hash of %s was not upgraded: %s", identity.user, error)
