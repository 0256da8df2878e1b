"""Encryption of archives in the age format (https://age-encryption.org/v1), by pyrage.

An archive is encrypted for a key pair that is made for it, and for the public keys of the operator, if there are any.
The private half stays in memory until the archive has been read back. With a passphrase it is written, too: in front of
the archive, as a private key of OpenSSH with that passphrase. So large archives need no memory, and every archive can
be opened without secmon, by the program ``age``.

The passphrases of age itself are not used: its library chooses their cost by measuring the host of the moment, and one
that is busy later refuses what another one has encrypted.
"""

import base64
import re
import struct
from collections.abc import Sequence
from io import BufferedIOBase
from typing import IO, Any, NamedTuple, cast

import pyrage
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_ssh_private_key,
)

from secmon.backup.fault import BackupError

Recipient = pyrage.x25519.Recipient | pyrage.ssh.Recipient
Identity = pyrage.x25519.Identity | pyrage.ssh.Identity

MIN_PASSPHRASE = 12
_ROUNDS = 64
_MAX_ROUNDS = 1024
"""Of bcrypt, for a passphrase; 64 take about half a second."""
_BEGIN = b"-----BEGIN OPENSSH PRIVATE KEY-----"
_END = b"-----END OPENSSH PRIVATE KEY-----"
_MAX_HEAD = 4096
_KEY_LINE = re.compile(r"AGE-SECRET-KEY-1[0-9A-Z]+")


class Seal(NamedTuple):
    """How one archive is encrypted: what is in front of it, the keys that open it, and one of them to read it back."""

    head: bytes
    recipients: Sequence[Recipient]
    identity: Identity


def passphrase_seal(passphrase: str) -> Seal:
    """Raises BackupError for a passphrase that is too short."""
    if len(passphrase) < MIN_PASSPHRASE:
        raise BackupError(f"the passphrase is shorter than {MIN_PASSPHRASE} characters")
    key = Ed25519PrivateKey.generate()
    closed = PrivateFormat.OpenSSH.encryption_builder().kdf_rounds(_ROUNDS).build(passphrase.encode())
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    return Seal(
        key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, closed),
        [pyrage.ssh.Recipient.from_str(public)],
        _identity(key),
    )


def _identity(key: PrivateKeyTypes) -> Identity:
    return pyrage.ssh.Identity.from_buffer(key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))


def public_key_seal(text: str) -> Seal:
    """``text``: public keys of age (``age1...``) or SSH (``ssh-ed25519 ...``), one a line. Raises BackupError."""
    lines = [line.strip() for line in text.splitlines()]
    keys = [_public_key(number, line) for number, line in enumerate(lines, 1) if line and not line.startswith("#")]
    if not keys:
        raise BackupError("the file holds no public key")
    identity = pyrage.x25519.Identity.generate()
    return Seal(b"", [identity.to_public(), *keys], identity)


def _public_key(number: int, line: str) -> Recipient:
    try:
        if line.startswith("age1"):
            return pyrage.x25519.Recipient.from_str(line)
        return pyrage.ssh.Recipient.from_str(line)
    except (pyrage.RecipientError, ValueError) as error:
        raise BackupError(
            f"line {number} is no public key of age (age1...) or SSH (ssh-ed25519 or ssh-rsa): {error}"
        ) from error


def private_key(data: bytes) -> Identity:
    """The key in a file of age, or in one of SSH without a passphrase. Raises BackupError; never shows the data."""
    try:
        if found := _KEY_LINE.search(data.decode("utf-8", "replace")):
            return pyrage.x25519.Identity.from_str(found[0])
        return pyrage.ssh.Identity.from_buffer(data)
    except (pyrage.IdentityError, ValueError) as error:
        raise BackupError("the file holds no private key of age, or of SSH without a passphrase") from error


def read_head(archive: IO[bytes]) -> bytes:
    """What is in front of the archive, at which the file is then; empty: it is for public keys. Raises BackupError."""
    start = archive.tell()
    head = archive.read(_MAX_HEAD)
    if not head.startswith(_BEGIN):
        archive.seek(start)
        if not head.startswith(b"age-encryption.org/"):
            raise BackupError("the file is no backup of secmon")
        return b""
    end = head.find(_END)
    if end < 0:
        raise BackupError("the file is damaged: its key does not end")
    end = head.find(b"\n", end) + 1 or len(head)
    archive.seek(start + end)
    return head[:end]


def passphrase_identity(head: bytes, passphrase: str) -> Identity:
    """The key of an archive from what is in front of it. Raises BackupError."""
    try:
        if _rounds(head) > _MAX_ROUNDS:
            raise BackupError("the file is refused: its passphrase would take hours to check")
        return _identity(load_ssh_private_key(head, passphrase.encode()))
    except (pyrage.IdentityError, ValueError, TypeError, struct.error, UnsupportedAlgorithm) as error:
        raise BackupError("the passphrase is wrong, or the file is damaged") from error


def _rounds(head: bytes) -> int:
    """What the key asks for (PROTOCOL.key of OpenSSH: magic, cipher, function, its salt and rounds)."""
    data = base64.b64decode(b"".join(head.split(b"\n")[1:-2]), validate=True)
    place = len(b"openssh-key-v1\0")
    for _ in range(2):
        place += 4 + int(struct.unpack_from(">I", data, place)[0])
    salt = int(struct.unpack_from(">I", data, place + 4)[0])
    return int(struct.unpack_from(">I", data, place + 8 + salt)[0])


def encrypt(plain: IO[bytes], sealed: IO[bytes], seal: Seal) -> None:
    """Write all that ``plain`` has, after the head. Raises BackupError, OSError of ``sealed``."""
    sealed.write(seal.head)
    sink = _Sink(sealed)
    try:
        pyrage.encrypt_io(cast(BufferedIOBase, plain), sink, list(seal.recipients))
    except (pyrage.EncryptError, OSError) as error:
        raise sink.failure or BackupError(f"the backup cannot be encrypted: {error}") from error


def decrypt(sealed: IO[bytes], plain: IO[bytes], identity: Identity) -> None:
    """``sealed`` is behind its head. Raises BackupError for a wrong key and for an archive that is cut or changed."""
    sink = _Sink(plain)
    try:
        pyrage.decrypt_io(cast(BufferedIOBase, sealed), sink, [identity])
    except (pyrage.DecryptError, OSError) as error:
        raise sink.failure or BackupError(f"the key does not open the file, or the file is damaged: {error}") from error


class _Sink(BufferedIOBase):
    """Keeps the failure of a file that is written to, which the library may turn into a text."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__()
        self._file = file
        self.failure: OSError | None = None

    def write(self, data: Any) -> int:
        try:
            return self._file.write(data)
        except OSError as error:
            self.failure = error
            raise

    def flush(self) -> None:
        self._file.flush()
