"""Starts a supervisor in a process of its own, for ``secmon start --daemonize`` and the demo."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from secmon.common.paths import Paths
from secmon.common.privileges import root_ids
from secmon.daemons.child_channel import ParentChannel
from secmon.daemons.daemon import StartFailed
from secmon.daemons.run_files import daemon_states


@dataclass(frozen=True)
class LaunchedSupervisor:
    """A supervisor that was started; ``output`` is where it and its daemons print."""

    process: subprocess.Popen[bytes]
    channel: ParentChannel
    output: Path
    paths: Paths

    async def ready(self, seconds: float) -> None:
        """Wait until the node runs. Raises StartFailed with the reason."""
        try:
            async with asyncio.timeout(seconds):
                reason = await self.channel.outcome()
        except TimeoutError:
            late = [daemon for daemon, state in daemon_states(self.paths).items() if state in ("starting", "failed")]
            reason = f"{', '.join(late) or 'the node'}: not ready within {seconds:g} s"
        if reason is not None:
            raise StartFailed(f"{reason} (details: {self.output})")


def launch(
    paths: Paths, *, secrets: Mapping[str, str] | None = None, bound: bool, single_process: bool = False
) -> LaunchedSupervisor:
    """Start the supervisor of ``paths`` in a session of its own; ``bound``: it stops when this process ends."""
    channel = ParentChannel()
    output = paths.logs / "start.log"
    output.unlink(missing_ok=True)
    command = [sys.executable, "-P", "-m", "secmon.cli", "start", "--root", str(paths.root)]
    command += ["--channel-fd", str(channel.child)] + ([] if bound else ["--unbound"])
    command += ["--single-process"] if single_process else []
    descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o640)
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=descriptor,
            stderr=descriptor,
            pass_fds=(channel.child,),
            start_new_session=True,
            **root_ids(),
        )
    finally:
        os.close(descriptor)
    channel.opened(secrets or {})
    return LaunchedSupervisor(process, channel, output, paths)
