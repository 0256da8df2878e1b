"""The cluster's certificate authority in the store of record, its key sealed with the cluster key."""

import base64

from cryptography.fernet import Fernet, InvalidToken
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from sqlalchemy import Connection, delete, insert, select

from secmon.cluster.record.schema import authority
from secmon.common.errors import SecmonError

_INFO = b"secmon certificate authority"


def put_authority(connection: Connection, cluster_key: str, certificate: bytes, key: bytes) -> None:
    """Replace the authority: certificate and key as PEM."""
    connection.execute(delete(authority))
    values = {"one": 1, "certificate": certificate.decode("ascii"), "sealed_key": _box(cluster_key).encrypt(key)}
    connection.execute(insert(authority).values(values))


def get_authority(connection: Connection, cluster_key: str) -> tuple[bytes, bytes] | None:
    """Certificate and key; None before there is one. Raises SecmonError 3025 when the cluster key is another one."""
    row = connection.execute(select(authority.c.certificate, authority.c.sealed_key)).one_or_none()
    if row is None:
        return None
    try:
        return row.certificate.encode("ascii"), _box(cluster_key).decrypt(bytes(row.sealed_key))
    except InvalidToken:
        raise SecmonError(3025, "the authority in the store of record is sealed with another one") from None


def _box(cluster_key: str) -> Fernet:
    derived = HKDF(SHA256(), 32, salt=None, info=_INFO).derive(cluster_key.encode())
    return Fernet(base64.urlsafe_b64encode(derived))
