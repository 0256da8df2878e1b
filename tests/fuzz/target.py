"""The cluster under test, who asks it, and how to get back in when a generated request has locked everybody out."""

import json
from base64 import b64encode
from collections.abc import Iterable

from tests.fuzz.wire import Header, Reply, Wire
from tests.integration.kit import RealCluster

LOGIN = b"/security/user/authenticate?raw=true"
LIMITS = {"access.max_request_per_minute": 10_000_000, "access.max_login_attempts": 10_000_000}
PATIENCE = 300
"""Seconds: what is answered is tested, and not how soon, on hosts that have other work too."""
API = {**LIMITS, "experimental_features": True, "intervals.request_timeout": PATIENCE}
OPTIONS = {"clusterd.security_lease": PATIENCE}
NODES = ("master-node", "worker1")

LINE_BYTES = 8000
"""Longer request lines are refused before anybody looks at them."""

ADMIN, NOBODY = "admin", "nobody"
PASSWORD = "Nobody-may-1"


class Target:
    """Both nodes of a cluster. ``ADMIN`` has all permissions, ``NOBODY`` none."""

    def __init__(self, cluster: RealCluster) -> None:
        self.cluster = cluster
        self.wires = {one.name: Wire(one.address, one.api_port) for one in cluster.nodes}
        self._passwords = {ADMIN: cluster.password, NOBODY: PASSWORD}
        self._tokens: dict[str, bytes] = {}

    def close(self) -> None:
        for wire in self.wires.values():
            wire.close()

    def ask(
        self,
        method: str,
        target: bytes,
        headers: Iterable[Header] = (),
        body: bytes | None = None,
        *,
        user: str = ADMIN,
        node: str = NODES[0],
    ) -> Reply:
        """One request of ``user``; once more with a fresh token when the old one was revoked meanwhile."""
        wire, given = self.wires[node], list(headers)
        if user in self._tokens:
            reply = wire.send(method, target, [*given, self._bearer(user)], body)
            if reply.status != 401:
                return reply
        self._log_in(user)
        return wire.send(method, target, [*given, self._bearer(user)], body)

    def token(self, user: str = ADMIN) -> bytes:
        """A fresh token."""
        self._log_in(user)
        return self._tokens[user]

    def basic(self, user: str = ADMIN) -> Header:
        """The header of a login."""
        return b"Authorization", b"Basic " + b64encode(f"{user}:{self._passwords[user]}".encode())

    def restore(self) -> None:
        """Restores the default settings and the user ``NOBODY``, which generated requests may have changed."""
        if self.ask("GET", b"/security/config").body != _DEFAULTS:
            assert self.ask("DELETE", b"/security/config").status == 200
        self._make_nobody()

    def _bearer(self, user: str) -> Header:
        return b"Authorization", b"Bearer " + self._tokens[user]

    def _log_in(self, user: str) -> None:
        reply = self.wires[NODES[0]].send("POST", LOGIN, [self.basic(user)])
        if reply.status == 401 and user == NOBODY:
            self._make_nobody()
            reply = self.wires[NODES[0]].send("POST", LOGIN, [self.basic(user)])
        assert reply.status == 200, reply
        self._tokens[user] = reply.body

    def _make_nobody(self) -> None:
        body = json.dumps({"username": NOBODY, "password": PASSWORD}).encode()
        reply = self.ask("POST", b"/security/users", [(b"Content-Type", b"application/json")], body)
        assert reply.status == 200 or json.loads(reply.body)["error"] == 5000, reply


_DEFAULTS = b'{"data": {"auth_token_exp_timeout": 900, "rbac_mode": "white"}, "error": 0}'
