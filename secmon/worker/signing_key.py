"""The key that this worker signs tokens with: made here, its public half registered at the master."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from secmon.cluster.call import Call, new_request_id
from secmon.cluster.node import Peer
from secmon.common.clock import Clock
from secmon.common.errors import SecmonError
from secmon.common.identity import node_identity
from secmon.operations.internal import INTERNAL, NewSigningKey
from secmon.security.authentication_error import AuthenticationError
from secmon.security.signing_keys import KEY_LIFE_SECONDS, new_signing_key
from secmon.security.store.security_store import SecurityStore

log = logging.getLogger("secmon.clusterd.signing")

REGISTER = INTERNAL["PUT /internal/signing-key"]
REPLY_SECONDS = 10.0
RETRY_SECONDS = 2.0


class SigningKeyRegistration:
    """Sees to it that this node has a key that all nodes know.

    The private half is stored, and used, once the master has answered: by then every connected node verifies with it.
    """

    def __init__(
        self,
        store: SecurityStore,
        find_master: Callable[[float], Awaitable[Peer | None]],
        clock: Clock,
        *,
        poll_seconds: float = 0.05,
    ) -> None:
        """``find_master`` waits so many seconds for the master's session."""
        self._store, self._find_master, self._clock = store, find_master, clock
        self._poll_seconds = poll_seconds

    async def run(self) -> None:
        """Register a key whenever there is none, or an old one, until cancelled."""
        while True:
            pause = self._poll_seconds
            try:
                if self._renewal_due():
                    await self._register()
            except (SecmonError, AuthenticationError) as error:
                log.warning("the key that this node signs tokens with is not registered: %s", error)
                pause = RETRY_SECONDS
            await asyncio.sleep(pause)

    def _renewal_due(self) -> bool:
        view = self._store.view()
        key = view.signing_key
        old = key is None or self._clock.now().timestamp() - key.created > KEY_LIFE_SECONDS
        return old and view.store_id != ""

    async def _register(self) -> None:
        master = await self._find_master(REPLY_SECONDS)
        if master is None:
            return
        key = new_signing_key(self._clock)
        assert key.private_pem is not None
        call = Call(
            operation=REGISTER,
            params=NewSigningKey(kid=key.kid, public_pem=key.public_pem),
            identity=node_identity(),
            request_id=new_request_id(),
            deadline=self._clock.monotonic() + REPLY_SECONDS,
            client="secmon-clusterd",
        )
        await master.execute(call, part=False)
        await asyncio.to_thread(self._store.keep_private_key, key.kid, key.private_pem)
        log.info("this node signs tokens with key %s from now on", key.kid)
        await self._wait_published(key.kid)

    async def _wait_published(self, kid: str) -> None:
        """Wait until the new key has come back with the security state, lest another be made meanwhile."""
        for _ in range(int(REPLY_SECONDS / self._poll_seconds)):
            if kid in self._store.view().keys:
                return
            await asyncio.sleep(self._poll_seconds)
