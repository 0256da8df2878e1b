"""The key of an agent, and values derived from it (agent-link.md 2.4, 5.2)."""

import base64
import hashlib
from dataclasses import dataclass

_NAME_PART = 15


@dataclass(frozen=True, slots=True)
class AgentKey:
    """One line of the key file. ``id`` is the text with its leading zeros, ``address`` an address, CIDR or ``any``."""

    id: str
    name: str
    address: str
    key: str

    @property
    def line(self) -> str:
        """The line of the key file, without a newline."""
        return f"{self.id} {self.name} {self.address} {self.key}"


def agent_id(number: int) -> str:
    """The id as text: at least three digits."""
    return f"{number:03d}"


def derive(key: AgentKey) -> bytes:
    """The 47 bytes that Blowfish uses; AES-256 uses the first 32 of them."""
    name_and_id = _md5(_md5(key.name) + _md5(key.id))
    return (_md5(key.key) + name_and_id[:_NAME_PART]).encode("ascii")


def enrolment_hash(key: AgentKey) -> str:
    """The hash by which an agent that enrols again proves its key (agent-link.md 1.8)."""
    text = f"{key.id}{key.name}{key.key}"
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


def export_key(key: AgentKey) -> str:
    """The key in the form of the API, which operators import on the agent (agent-link.md 2.4)."""
    return base64.b64encode(key.line.encode()).decode("ascii")


def _md5(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
