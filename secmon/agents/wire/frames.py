"""Length-prefixed frames on TCP, and the id prefix of payloads (agent-link.md 4.2, 4.3)."""

import struct

from secmon.agents.wire.errors import MessageError, Reason

MAX_PAYLOAD = 65536
PING = b"#ping"
PONG = b"#pong"
_HEAD = 4
_LENGTH = struct.Struct("<I")
_unpack = _LENGTH.unpack_from


def frame(payload: bytes) -> bytes:
    """``payload`` as a frame for TCP, in both directions."""
    return _LENGTH.pack(len(payload)) + payload


class Unframer:
    """Splits a TCP stream into payloads. Between calls it holds less than one frame: at most 65536 + 4 bytes."""

    __slots__ = ("_rest", "broken")

    def __init__(self) -> None:
        self._rest = b""
        self.broken: Reason | None = None
        """Set when a length is invalid: ``empty`` for 0, ``format`` above 65536. The stream cannot be continued."""

    @property
    def buffered(self) -> int:
        """Bytes that wait for the rest of their frame."""
        return len(self._rest)

    def feed(self, data: bytes | memoryview) -> list[bytes]:
        """The payloads that ``data`` completes, including those before an invalid length."""
        payloads: list[bytes] = []
        if self.broken:
            return payloads
        stream = self._rest + data if self._rest else bytes(data)
        position, size = 0, len(stream)
        while size - position >= _HEAD:
            (length,) = _unpack(stream, position)
            if not 0 < length <= MAX_PAYLOAD:
                self.broken = "format" if length else "empty"
                self._rest = b""
                return payloads
            end = position + _HEAD + length
            if end > size:
                break
            payloads.append(stream[position + _HEAD : end])
            position = end
        self._rest = stream[position:] if position else stream
        return payloads


def split_id(payload: bytes) -> tuple[str | None, bytes]:
    """The id prefix of a payload, or None, and the encrypted rest. Raises MessageError."""
    if payload[:1] != b"!":
        return None, payload
    end = payload.find(b"!", 1)
    digits = payload[1:end]
    if end < 0 or not digits.isdigit():
        raise MessageError("format")
    return digits.decode("ascii"), payload[end + 1 :]


def join_id(agent: str, sealed: bytes) -> bytes:
    """``sealed`` with the id of its sender as prefix; the server never sends this form."""
    return b"!%b!%b" % (agent.encode("ascii"), sealed)
