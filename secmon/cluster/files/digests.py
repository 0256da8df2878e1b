"""Content hashes of this node's files, for comparison between nodes (cluster.md 6.5)."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

from secmon.common.clock import Clock
from secmon.common.files.scan import Scanner


class LocalFileDigests:
    """``FileDigests`` of any node: scans the disk on each call, and reads only files that have changed."""

    def __init__(self, root: Path, *, clock: Clock) -> None:
        self._scanner = Scanner(root, clock=clock)
        self._lock = asyncio.Lock()

    async def hashes(self, folders: Sequence[str]) -> Mapping[str, str]:
        """Path below the installation folder to BLAKE2b-256 hex, of all replicated files in ``folders``."""
        wanted = [folder.strip("/") for folder in folders]
        async with self._lock:
            await asyncio.to_thread(self._scanner.rescan_paths, wanted)
            entries = self._scanner.manifest.entries()
        inside = tuple(f"{folder}/" for folder in wanted)
        return {path: entry.hash.hex() for path, entry in sorted(entries.items()) if path.startswith(inside)}
