"""Malformed messages made from valid ones: damage at each layer, from the text to the frame (agent-link.md 4, 5)."""

import zlib
from collections.abc import Callable
from hashlib import md5
from random import Random

from cryptography.hazmat.decrepit.ciphers.algorithms import Blowfish
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC

from secmon.agents.wire.keys import AgentKey, derive

BOMB = zlib.compress(bytes(4 << 20), 9)
"""A few kilobytes that become four megabytes."""
_NUMBERS = (b"0", b"-1", b"00000000001", b"9999999999", b"99999999999", b"4294967296", b" 12", b"1e9", b"\xd9\xa1")
_TEXTS = (
    b"#!-agent startup ",
    b'#!-agent startup {"version":"v4.8.2"}',
    b"#!-agent shutdown ",
    b'#!-Linux |h |5 |#1 |x86_64 [Ubuntu|ubuntu: 22.04 (x)] - Wazuh v4.8.2 / ab\n"k":v\nx merged.mg\n#"_agent_ip":1\n',
    b"#!-req 1f ok {}",
    b"1:/var/log/auth.log:Jan  1 00:00:00 host sshd[1]: Failed password for root from 192.0.2.1 port 1 ssh2",
    b'8:syscheck:{"type":"event","data":{"path":"/etc/x","version":2,"type":"added","attributes":{"type":"file"}}}',
    b'5:fim_file:{"component":"fim_file","type":"integrity_check_global","data":{"id":1,"begin":"a","end":"b"}}',
    b'd:syscollector:{"type":"dbsync_ports","operation":"INSERTED","data":{"local_port":1}}',
    b'u:upgrade_module:{"command":"upgrade_update_status","parameters":{"error":0,"message":"x","status":"Done"}}',
)


class Mutator:
    """An endless, seeded source of bytes that an agent with ``key`` should never send, among some that it may."""

    def __init__(self, key: AgentKey, random: Random) -> None:
        self._key, self._random = key, random
        self._secret = derive(key)
        self._layers: tuple[Callable[[], bytes], ...] = (
            self._bad_text,
            self._bad_inner,
            self._bad_stream,
            self._bad_cipher,
            self._bad_id,
            self._noise,
        )

    def payload(self) -> bytes:
        """One payload, damaged in one layer."""
        return self._random.choice(self._layers)()

    def frame(self) -> bytes:
        """Bytes for a TCP stream: mostly whole frames, some with a length that is wrong."""
        payload = self.payload()
        length = len(payload)
        if self._random.random() < 0.15:
            wrong = (0, 1, length - 1, length + 1, 65536, 65537, 0xFFFFFFFF, self._random.randrange(1 << 32))
            length = max(0, self._random.choice(wrong))
        return length.to_bytes(4, "little") + payload

    def valid(self, text: bytes) -> bytes:
        """A payload with nothing wrong about it."""
        return self._marked(self._seal(text))

    # Layers, from the inside out

    def _text(self) -> bytes:
        return self._random.choice(_TEXTS)

    def _bad_text(self) -> bytes:
        """Valid encryption, invalid text."""
        return self._marked(self._seal(self._damage(self._text())))

    def _bad_inner(self) -> bytes:
        """Header, counters or checksum wrong."""
        random, text = self._random, self._text()
        numbers = [random.choice((b"00000000001", *_NUMBERS)) for _ in range(2)]
        body = b"%b%b:%b:%b" % (random.choice((b"12345", b"", b"abcde", b"\xff" * 5)), *numbers, text)
        if random.random() < 0.5:
            body = self._damage(b"123450000000001:0001:" + text)
        digest = md5(body, usedforsecurity=False).hexdigest().encode()
        inner = random.choice((digest, digest.upper(), digest[:-1], b"0" * 32, b"")) + body
        return self._marked(self._encrypt(b"!" + zlib.compress(inner)))

    def _bad_stream(self) -> bytes:
        """The compression wrong: damaged, cut, a bomb, or none."""
        random = self._random
        whole = zlib.compress(self._inner(self._text()), random.choice((0, 1, 9)))
        stream = random.choice((self._damage(whole), whole[: random.randrange(len(whole))], BOMB, self._text()))
        return self._marked(self._encrypt(b"!" * random.choice((0, 1, 8, 200)) + stream))

    def _bad_cipher(self) -> bytes:
        """The ciphertext, or the mark of its cipher, wrong."""
        return self._marked(self._damage(self._seal(self._text())))

    def _bad_id(self) -> bytes:
        random, sealed = self._random, self._seal(self._text())
        mark = random.choice((b"", *_NUMBERS, b"1" * 300, b"001!", b"abc", b"\x00", random.randbytes(4)))
        return random.choice((b"!%b!%b", b"!%b%b", b"%b!%b")) % (mark, sealed)

    def _noise(self) -> bytes:
        random = self._random
        start = random.choice((b"", b"!", b"!!", b":", b"#AES", b"#AES:", b"#ping", b"!001!", b"!001!:", b"!001!#AES:"))
        return start + random.randbytes(random.choice((0, 1, 7, 8, 16, 64, 900)))

    # Tools

    def _damage(self, data: bytes) -> bytes:
        """Bits turned, bytes cut out, put in, doubled or swapped."""
        random, made = self._random, bytearray(data)
        for _ in range(random.choice((1, 1, 1, 2, 5))):
            if not made:
                break
            at, length = random.randrange(len(made)), random.choice((1, 1, 4, 16))
            match random.randrange(6):
                case 0:
                    made[at] ^= 1 << random.randrange(8)
                case 1:
                    del made[at : at + length]
                case 2:
                    made[at:at] = random.randbytes(length)
                case 3:
                    made[at:at] = made[at : at + length] * random.choice((1, 2, 50))
                case 4:
                    del made[at:]
                case _:
                    made[at : at + length] = random.choice((b"\x00", b"\n", b"!", b":", b"\xff\xfe", b"{", b"|"))
        return bytes(made)

    def _inner(self, text: bytes) -> bytes:
        body = b"12345%010d:0001:%b" % (self._random.randrange(1 << 30), text)
        return md5(body, usedforsecurity=False).hexdigest().encode() + body

    def _seal(self, text: bytes) -> bytes:
        stream = zlib.compress(self._inner(text), 9)
        return self._encrypt(b"!" * (8 - len(stream) % 8) + stream)

    def _encrypt(self, clear: bytes) -> bytes:
        """With either cipher; padded to whole blocks as each does it."""
        if self._random.random() < 0.5:
            pad = 16 - len(clear) % 16
            made = Cipher(AES(self._secret[:32]), CBC(b"FEDCBA0987654321")).encryptor()
            return b"#AES:" + made.update(clear + bytes([pad]) * pad)
        made = Cipher(Blowfish(self._secret), CBC(bytes.fromhex("fedcba9876543210"))).encryptor()
        return b":" + made.update(b"!" * (-len(clear) % 8) + clear)

    def _marked(self, sealed: bytes) -> bytes:
        return b"!%b!%b" % (self._key.id.encode(), sealed)
