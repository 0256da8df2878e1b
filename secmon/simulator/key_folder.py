"""The folder of a fleet: keys and states of its agents, from which the same fleet can be started again."""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from secmon.agents.wire.keys import AgentKey
from secmon.common.file_io import write_file

_KEYS, _STATE = "client.keys", "fleet.json"


class SavedState(msgspec.Struct, omit_defaults=True):
    """State that an agent keeps over a restart: its version and its group file."""

    version: str = ""
    merged_sum: str = ""
    config_sum: str = ""


@dataclass(frozen=True)
class KeyFolder:
    """``client.keys`` (agent-link.md 2.1) beside ``fleet.json``; agents are distinguished by name."""

    folder: Path

    def keys(self) -> dict[str, AgentKey]:
        """Keys by name; invalid lines are skipped, as agents do."""
        try:
            text = (self.folder / _KEYS).read_text("utf-8")
        except FileNotFoundError:
            return {}
        found = {}
        for line in text.splitlines():
            fields = line.split(" ")
            if len(fields) == 4 and not line.startswith(("#", " ")) and fields[1][0] not in "!#":
                found[fields[1]] = AgentKey(*fields)
        return found

    def saved_states(self) -> dict[str, SavedState]:
        """States by name. Raises msgspec.DecodeError for an invalid file."""
        try:
            return msgspec.json.decode((self.folder / _STATE).read_bytes(), type=dict[str, SavedState])
        except FileNotFoundError:
            return {}

    def save(self, keys: dict[str, AgentKey], saved_states: dict[str, SavedState]) -> None:
        """Write both files, each atomically."""
        self.folder.mkdir(parents=True, exist_ok=True)
        lines = [f"{key.id} {key.name} {key.address} {key.key}\n" for key in keys.values()]
        write_file(self.folder / _KEYS, "".join(lines).encode(), 0o600)
        write_file(self.folder / _STATE, msgspec.json.encode(saved_states), 0o600)

    def remove(self) -> None:
        """Delete both files, and the folder if it is then empty."""
        for name in (_KEYS, _STATE):
            (self.folder / name).unlink(missing_ok=True)
        with suppress(OSError):  # not there, or not empty
            self.folder.rmdir()
