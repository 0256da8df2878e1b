"""The sources that are silent, as the master's watch has written them and the API reads them."""

from pathlib import Path

import msgspec
from msgspec import Struct

from secmon.common.file_io import write_file


class SilentSource(Struct, frozen=True, kw_only=True):
    """A silent source. Times in seconds since 1970.

    ``location``: empty for the agent as a whole. An event was expected within ``expected_seconds`` of ``last_event``.
    """

    agent: int
    name: str
    location: str
    last_event: int
    expected_seconds: int
    since: int


_decoder = msgspec.msgpack.Decoder(list[SilentSource])


def write_silent(path: Path, sources: list[SilentSource]) -> None:
    """Replace the list. Blocks. Raises OSError."""
    path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
    write_file(path, msgspec.msgpack.encode(sources))


def read_silent(path: Path) -> list[SilentSource]:
    """Empty where nothing was written yet. Blocks. Raises OSError, and MsgspecError for a damaged file."""
    try:
        return _decoder.decode(path.read_bytes())
    except FileNotFoundError:
        return []
