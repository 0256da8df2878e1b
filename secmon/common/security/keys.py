"""Token signing keys: P-256 pairs, kept in the security store and copied to every node."""

import uuid
from dataclasses import dataclass
from functools import cached_property

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from secmon.common.clock import Clock
from secmon.common.errors import SecmonError


@dataclass(frozen=True)
class SigningKey:
    """``created`` and ``retired_at`` are seconds since the epoch; a retired key only verifies."""

    kid: str
    private_pem: str
    public_pem: str
    created: int
    retired_at: int | None

    def __repr__(self) -> str:
        return f"SigningKey(kid={self.kid!r})"

    @cached_property
    def private(self) -> ec.EllipticCurvePrivateKey:
        """Raises 6003 when the stored key cannot be read."""
        try:
            key = serialization.load_pem_private_key(self.private_pem.encode(), password=None)
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


def new_signing_key(clock: Clock) -> SigningKey:
    """A fresh pair with a random kid."""
    private = ec.generate_private_key(ec.SECP256R1())
    private_pem = private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public_pem = private.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return SigningKey(uuid.uuid4().hex, private_pem.decode(), public_pem.decode(), int(clock.now().timestamp()), None)
