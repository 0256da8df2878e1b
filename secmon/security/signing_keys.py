"""Token signing keys: P-256 pairs. Each node has its own; all nodes know the public halves, by the security store."""

import uuid
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from secmon.common.clock import Clock
from secmon.common.errors import SecmonError

KEY_LIFE_SECONDS = 30 * 24 * 3600
"""Age at which a node replaces its key; the old one verifies until its last token has expired."""


@dataclass(frozen=True)
class SigningKey:
    """``created`` and ``retired_at`` are seconds since the epoch; a retired key only verifies.

    ``node`` is the worker that signs with it, empty for the master. ``private_pem`` is None for keys of other nodes.
    """

    kid: str
    node: str
    public_pem: str
    created: int
    retired_at: int | None
    private_pem: str | None = None

    def __repr__(self) -> str:
        return f"SigningKey(kid={self.kid!r})"

    def row(self) -> dict[str, Any]:
        """The public part, as a row of the security store."""
        return {
            "kid": self.kid,
            "node": self.node,
            "public_pem": self.public_pem,
            "created": self.created,
            "retired_at": self.retired_at,
        }

    @cached_property
    def private(self) -> ec.EllipticCurvePrivateKey:
        """Raises 6003 when the stored key cannot be read, or is not here."""
        try:
            key = serialization.load_pem_private_key((self.private_pem or "").encode(), password=None)
        except ValueError as error:
            raise SecmonError(6003) from error
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise SecmonError(6003)
        return key

    @cached_property
    def public(self) -> ec.EllipticCurvePublicKey:
        """Raises 6003 when the stored key cannot be read."""
        try:
            key = serialization.load_pem_public_key(self.public_pem.encode())
        except ValueError as error:
            raise SecmonError(6003) from error
        if not isinstance(key, ec.EllipticCurvePublicKey):
            raise SecmonError(6003)
        return key


def new_signing_key(clock: Clock, node: str = "") -> SigningKey:
    """A new key pair of ``node`` with a random kid."""
    private = ec.generate_private_key(ec.SECP256R1())
    private_pem = private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public_pem = private.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    now = int(clock.now().timestamp())
    return SigningKey(uuid.uuid4().hex, node, public_pem.decode(), now, None, private_pem.decode())
