"""Failed logins of an address count over all nodes of the cluster.

The master adds up what the nodes report, and answers with the sums: an address that is blocked on one node is blocked
on another after its first failed login there. No node learns of addresses that have not failed on it, so a node that
lies can block only addresses that have failed elsewhere too.
"""

import asyncio
import logging
from collections import Counter

import msgspec

from secmon.cluster.call import Call, new_request_id
from secmon.cluster.node import CallRouter, Node
from secmon.common.errors import SecmonError
from secmon.common.identity import local_identity
from secmon.common.outcome import Plain
from secmon.operations.internal import INTERNAL, FailedLoginCounts
from secmon.security.login_attempts import FailedLogins

log = logging.getLogger("secmon.api")

OPERATION = INTERNAL["PUT /internal/failed-logins"]
MAX_ADDRESSES = 1000
"""Of one report; more addresses that fail meanwhile count on this node only."""


class SharedLoginFailures:
    """Reports failed logins in the background: no answer waits for the master. Without a cluster it does nothing."""

    def __init__(self, node: Node, router: CallRouter, logins: FailedLogins) -> None:
        self._node, self._router, self._logins = node, router, logins
        self._unsent: Counter[str] = Counter()
        self._sending: asyncio.Task[None] | None = None

    def report(self, address: str) -> None:
        """One login from ``address`` has failed."""
        if not self._node.clustered:
            return
        if address in self._unsent or len(self._unsent) < MAX_ADDRESSES:
            self._unsent[address] += 1
        if self._sending is None:
            self._sending = asyncio.create_task(self._send(), name="report of failed logins")

    def close(self) -> None:
        """Give up what has not been sent."""
        if self._sending is not None:
            self._sending.cancel()

    async def _send(self) -> None:
        try:
            while self._unsent:
                batch, self._unsent = self._unsent, Counter()
                await self._exchange(batch)
        finally:
            self._sending = None

    async def _exchange(self, failures: Counter[str]) -> None:
        node = self._node
        call = Call(
            operation=OPERATION,
            params=FailedLoginCounts(failures=dict(failures)),
            identity=local_identity(),
            request_id=new_request_id(),
            deadline=node.clock.monotonic() + node.api_config.intervals.request_timeout,
            client=node.name,
        )
        try:
            answer = await self._router.route(call)
            sums = msgspec.convert(answer.data if isinstance(answer, Plain) else {}, dict[str, tuple[int, float]])
        except (SecmonError, msgspec.ValidationError) as error:
            node.counters.add("api.logins.unshared", failures.total())
            log.info("failed logins count on this node only: %s", error)
            return
        for address, (attempts, seconds) in sums.items():
            self._logins.learn(address, attempts, seconds)
