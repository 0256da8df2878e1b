"""An agent's end of the encrypted channel (agent-link.md 4.3, 4.4, 5)."""

from secmon.agents.wire.counters import Counter
from secmon.agents.wire.crypto import AgentCipher, Cipher
from secmon.agents.wire.frames import join_id
from secmon.agents.wire.keys import AgentKey


class Channel:
    """Encrypts and decrypts an agent's messages with one key and one cipher."""

    __slots__ = ("_cipher", "_counter", "_id", "_sealer")

    def __init__(self, key: AgentKey, cipher: Cipher, start: int) -> None:
        """Counters begin at ``start``. Seconds since 1970 grow from run to run without a counter file."""
        self._sealer = AgentCipher(key)
        self._cipher = cipher
        self._counter = Counter(start, 0)
        # An agent whose fixed IPv4 address is registered does not send its id.
        self._id = key.id if key.address == "any" or "/" in key.address or ":" in key.address else None

    def seal(self, text: bytes) -> bytes:
        """The payload that carries ``text``. Raises ValueError for an empty or too long one."""
        self._counter = self._counter.next()
        sealed = self._sealer.seal(text, self._cipher, self._counter)
        return sealed if self._id is None else join_id(self._id, sealed)

    def open(self, payload: bytes) -> bytes:
        """The text of a payload of the server. Raises MessageError; agents take their own cipher only."""
        return self._sealer.open(payload).text
