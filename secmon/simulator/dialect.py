"""Messages and commands by version of the agent (agent-link.md 14)."""

import re
from dataclasses import dataclass

_VERSION = re.compile(r"v?(\d+)\.(\d+)(?:\.(\d+))?")


@dataclass(frozen=True)
class Dialect:
    """The dialect of one version; ``number`` is major, minor, patch."""

    version: str
    number: tuple[int, int, int]

    @classmethod
    def of(cls, version: str) -> "Dialect":
        """``vX.Y.Z``, with or without the ``v``. Raises ValueError."""
        match = _VERSION.fullmatch(version)
        if match is None:
            raise ValueError(f"{version!r} is not a version: write vX.Y.Z")
        major, minor, patch = (int(part or 0) for part in match.groups())
        return cls(f"v{major}.{minor}.{patch}", (major, minor, patch))

    def _since(self, *number: int) -> bool:
        return self.number >= number

    @property
    def aes(self) -> bool:
        return self._since(3, 5)

    @property
    def bars(self) -> bool:
        """Bars instead of spaces separate the parts of the system text."""
        return self._since(3, 2)

    @property
    def random_tail(self) -> bool:
        """Keepalives end in random characters."""
        return not self._since(3, 8)

    @property
    def own_address(self) -> bool:
        """Keepalives hold the agent's address."""
        return self._since(3, 10)

    @property
    def requests(self) -> bool:
        return self._since(3, 0)

    @property
    def getconfig(self) -> bool:
        return self._since(3, 7)

    @property
    def upgrade_module(self) -> bool:
        """Packages come as JSON for the target ``upgrade``, and their result is reported."""
        return self._since(4, 1)

    @property
    def shutdown(self) -> bool:
        return self._since(4, 2)

    @property
    def json_responses(self) -> bool:
        return self._since(4, 2)

    @property
    def getstate(self) -> bool:
        return self._since(4, 2)

    @property
    def key_hash(self) -> bool:
        """Sends the hash of its key when it enrols again; obeys ``force_reconnect``."""
        return self._since(4, 3)

    @property
    def daemon(self) -> str:
        """Location of the agent's own messages."""
        return "wazuh-agent" if self._since(4, 3) else "ossec"

    @property
    def escapes(self) -> bool:
        return self._since(4, 4)

    @property
    def newer_inventory(self) -> bool:
        """Reports users, groups and services too."""
        return self._since(4, 14)

    @property
    def startup_version(self) -> bool:
        """Sends its version at startup and at enrolment."""
        return self._since(4, 6)
