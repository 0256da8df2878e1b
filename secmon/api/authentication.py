"""Who is asking: a token, or name and password on the login operations (conventions.md 7)."""

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address, ip_network

from secmon.api.rehash import HashUpgrades
from secmon.api.request import Request
from secmon.cluster.catalogue import Auth
from secmon.cluster.node import CallRouter, Node
from secmon.common.errors import SecmonError
from secmon.common.identity import Identity, scraper_identity
from secmon.security.authentication_error import NO_TOKEN, AuthenticationError
from secmon.security.credentials import authenticate, decode_basic
from secmon.security.login_attempts import FailedLogins

REVISION_POLL = 0.005
"""Seconds between two looks at a replica that has not yet reached the revision of a token."""


class Authenticator:
    """Turns an Authorization header into an identity, from this node's own state."""

    def __init__(self, node: Node, logins: FailedLogins, router: CallRouter) -> None:
        self._node = node
        self._logins = logins
        # One password hash per core at once: they are CPU and memory. Those who wait are bounded by the connections.
        self._workers = os.cpu_count() or 1
        self._threads = ThreadPoolExecutor(self._workers, "api-login")
        self._slots = asyncio.Semaphore(self._workers)
        self._upgrades = HashUpgrades(node, router)
        self._scrapers = [ip_network(each) for each in node.api_config.metrics.scrapers]

    def close(self) -> None:
        """Let the threads go; a password check that runs is finished by its thread."""
        self._upgrades.close()
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def identify(self, request: Request, auth: Auth) -> Identity:
        """Who asks, by the means that the operation takes. Raises as these do."""
        match auth:
            case "basic":
                return await self.basic(request)
            case "scraper" if self.is_scraper(request):
                return scraper_identity()
            case _:
                return await self.bearer(request)

    async def bearer(self, request: Request) -> Identity:
        """The holder of the request's token.

        Raises :class:`AuthenticationError`; 3043 when the security lease of this node has run out; 3044 when the token
        is newer than this node's state and stays so for the time limit of a request.
        """
        self._check_lease()
        token = bearer_token(request.header(b"authorization"))
        try:
            return self._node.tokens.verify(self._node.security.view(), token)
        except SecmonError as error:
            if error.code != 3044:
                raise
            return await self._when_reached(token)

    async def _when_reached(self, token: str) -> Identity:
        clock = self._node.clock
        deadline = clock.monotonic() + self._node.api_config.intervals.request_timeout
        while True:
            await asyncio.sleep(REVISION_POLL)
            try:
                return self._node.tokens.verify(self._node.security.view(), token)
            except SecmonError as error:
                if error.code != 3044 or clock.monotonic() >= deadline:
                    raise

    def is_scraper(self, request: Request) -> bool:
        """Whether the request has no token and comes from an address that ``api.yaml`` names for scrapers."""
        if not self._scrapers or request.header(b"authorization") is not None:
            return False
        try:
            address = ip_address(request.client)
        except ValueError:  # a unix socket has none
            return False
        return any(address in network for network in self._scrapers)

    async def basic(self, request: Request) -> Identity:
        """The user whose name and password the request gives; the identity carries the revision they were checked at.

        Raises :class:`AuthenticationError`; 3021 when the turn does not come within the time limit of a request; 6000
        when the address was blocked meanwhile, so that a burst of attempts gains nothing; 3043 as :meth:`bearer`.
        """
        self._check_lease()
        name, password = decode_basic(request.header(b"authorization"))
        try:
            async with asyncio.timeout(self._node.api_config.intervals.request_timeout), self._slots:
                self._logins.check(request.client)
                view = self._node.security.view()
                loop = asyncio.get_running_loop()
                user = await loop.run_in_executor(self._threads, authenticate, view, name, password)
        except TimeoutError:
            raise SecmonError(3021) from None
        identity = Identity(
            user=user.username,
            user_id=user.id,
            roles=user.roles,
            run_as=False,
            mode=view.settings.rbac_mode,
            revision=view.revision,
        )
        self._upgrades.begin_if_due(identity, user.password, password, request.client)
        return identity

    def _check_lease(self) -> None:
        lease = self._node.services.lease
        if lease.remaining() <= 0:
            refusal = lease.refusal()
            # The caller is not authenticated yet: the text of the catalogue, and nothing about this cluster.
            raise SecmonError(3043, f"the master refuses it: {SecmonError(refusal)}" if refusal else None)


def bearer_token(header: str | None) -> str:
    """The token of a Bearer header. Raises ``No authorization token provided`` for anything else."""
    parts = (header or "").split()
    if len(parts) != 2 or parts[0].lower() != "bearer":
        raise AuthenticationError(NO_TOKEN)
    return parts[1]


def claimed_user(header: str | None) -> str | None:
    """The name in a Basic header, for the log; None without one."""
    try:
        return decode_basic(header)[0]
    except AuthenticationError:
        return None
