"""Encryption and decryption of messages (agent-link.md 5).

The protocol fixes one initialisation vector for every message of a key. :class:`AgentCipher` therefore keeps one CBC
context per direction and brings it back to that vector with block arithmetic, instead of making a context per
message: making one costs more than the rest of the work, with Blowfish fifteen times more.
"""

import hashlib
import zlib
from enum import Enum
from random import randrange
from typing import NamedTuple

from cryptography.hazmat.decrepit.ciphers.algorithms import Blowfish
from cryptography.hazmat.primitives import ciphers
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC

from secmon.agents.wire.counters import Counter
from secmon.agents.wire.errors import MessageError
from secmon.agents.wire.keys import AgentKey, derive

MAX_TEXT = 65408
"""Longest text of a message, in bytes."""
MAX_INNER = 65536
"""Longest text with its header that is inflated, in bytes."""
HEADER = 53
"""Bytes before the text: digest 32, random 5, counters 10 and 4 with a colon each."""

_PADS = tuple(b"!" * count for count in range(9))
_PKCS7 = tuple(bytes([count]) * count for count in range(17))
_STORED_UP_TO = 160
"""Texts of at most so many bytes are not compressed: compression costs ten times the time that it saves."""
_STORED_HEAD = b"\x78\x01\x01"


class Cipher(Enum):
    """Ciphers of agents; the server replies with the one that the agent last used."""

    BLOWFISH = "blowfish"
    AES = "aes"


class Opened(NamedTuple):
    """A decrypted message with a valid checksum."""

    text: bytes
    cipher: Cipher
    counter: Counter


class _Cbc:
    """CBC with the same vector for every message, on contexts that are kept as long as the key."""

    __slots__ = ("_algorithm", "_decryptor", "_encryptor", "_iv", "_last", "block")

    def __init__(self, algorithm: AES | Blowfish, iv: bytes) -> None:
        self._algorithm = algorithm
        self._iv = iv
        self.block = len(iv)
        self._decryptor: ciphers.CipherContext | None = None
        self._encryptor: ciphers.CipherContext | None = None
        self._last = iv

    def decrypt(self, data: bytes) -> bytes:
        """``data`` is a whole number of blocks."""
        decryptor = self._decryptor
        if decryptor is None:
            decryptor = self._decryptor = ciphers.Cipher(self._algorithm, CBC(self._iv)).decryptor()
        # The vector is fed as ciphertext: the context combines the first real block with it.
        return decryptor.update(self._iv + data)[self.block :]

    def encrypt(self, data: bytes) -> bytes:
        """``data`` is a whole number of blocks, at least one."""
        encryptor = self._encryptor
        if encryptor is None:
            encryptor = self._encryptor = ciphers.Cipher(self._algorithm, CBC(self._iv)).encryptor()
        block = self.block
        # The context combines the first block with the last ciphertext: XOR cancels that, and puts the vector in.
        first = (
            int.from_bytes(data[:block], "big") ^ int.from_bytes(self._last, "big") ^ int.from_bytes(self._iv, "big")
        )
        sealed = encryptor.update(first.to_bytes(block, "big") + data[block:])
        self._last = sealed[-block:]
        return sealed


class AgentCipher:
    """Encrypts and decrypts the messages of one agent. Not thread-safe."""

    __slots__ = ("_aes", "_blowfish", "_key")

    def __init__(self, key: AgentKey) -> None:
        self._key = derive(key)
        self._aes: _Cbc | None = None
        self._blowfish: _Cbc | None = None

    def seal(self, text: bytes, cipher: Cipher, counter: Counter) -> bytes:
        """The encrypted payload of ``text``, without an id prefix. Raises ValueError for an empty or too long text."""
        clear = _wrap(text, counter)
        if cipher is Cipher.AES:
            pad = 16 - len(clear) % 16
            return b"#AES:" + self._with_aes().encrypt(clear + _PKCS7[pad])
        return b":" + self._with_blowfish().encrypt(clear)

    def open(self, data: bytes) -> Opened:
        """The message in ``data``, which no longer has its id prefix. Raises MessageError."""
        if data[:5] == b"#AES:":
            return _unwrap(self._open_aes(data[5:]), Cipher.AES)
        if data[:1] == b":":
            if len(data) % 8 != 1:
                raise MessageError("auth")
            return _unwrap(self._with_blowfish().decrypt(data[1:]), Cipher.BLOWFISH)
        raise MessageError("corrupt" if data else "empty")

    def _open_aes(self, sealed: bytes) -> bytes:
        if len(sealed) % 16 or not sealed:
            raise MessageError("auth")
        clear = self._with_aes().decrypt(sealed)
        pad = clear[-1]
        if not 0 < pad <= 16 or not clear.endswith(_PKCS7[pad]):
            raise MessageError("auth")
        return clear[:-pad]

    def _with_aes(self) -> _Cbc:
        if self._aes is None:
            self._aes = _Cbc(AES(self._key[:32]), b"FEDCBA0987654321")
        return self._aes

    def _with_blowfish(self) -> _Cbc:
        if self._blowfish is None:
            self._blowfish = _Cbc(Blowfish(self._key), bytes.fromhex("fedcba9876543210"))
        return self._blowfish


def seal(key: AgentKey, text: bytes, cipher: Cipher, counter: Counter) -> bytes:
    """One message; for many of one agent keep an :class:`AgentCipher`. Raises ValueError as there."""
    return AgentCipher(key).seal(text, cipher, counter)


def _wrap(text: bytes, counter: Counter) -> bytes:
    """Header, checksum, compression and padding to whole Blowfish blocks."""
    if not 0 < len(text) <= MAX_TEXT:
        raise ValueError("a message holds 1 to 65408 bytes")
    body = b"%05d%010d:%04d:%b" % (randrange(65536), counter.major, counter.minor, text)
    inner = hashlib.md5(body, usedforsecurity=False).hexdigest().encode("ascii") + body
    squeezed = _stored(inner) if len(text) <= _STORED_UP_TO else zlib.compress(inner, 9)
    return _PADS[8 - len(squeezed) % 8] + squeezed


def _stored(data: bytes) -> bytes:
    """A zlib stream of one stored block."""
    size = len(data)
    return b"%b%b%b%b%b" % (
        _STORED_HEAD,
        size.to_bytes(2, "little"),
        (size ^ 0xFFFF).to_bytes(2, "little"),
        data,
        zlib.adler32(data).to_bytes(4, "big"),
    )


def _unwrap(clear: bytes, cipher: Cipher) -> Opened:
    if clear[:1] != b"!":
        # ":" begins the uncompressed form of very old agents, which is not supported.
        raise MessageError("corrupt" if clear[:1] == b":" else "auth")
    inner = _inflate(clear.lstrip(b"!"))
    body = inner[32:]
    if inner[:32] != hashlib.md5(body, usedforsecurity=False).hexdigest().encode("ascii"):
        raise MessageError("corrupt")
    major, minor = body[5:15], body[16:20]
    if body[15:16] != b":" or body[20:21] != b":" or not major.isdigit() or not minor.isdigit():
        raise MessageError("corrupt")
    return Opened(body[21:], cipher, Counter(int(major), int(minor)))


def _inflate(squeezed: bytes) -> bytes:
    """Inflate at most MAX_INNER bytes; bytes after the stream are ignored."""
    stream = zlib.decompressobj()
    try:
        inner = stream.decompress(squeezed, MAX_INNER + 1)
    except zlib.error:
        raise MessageError("corrupt") from None
    if not stream.eof or len(inner) > MAX_INNER:
        raise MessageError("corrupt")
    return inner
