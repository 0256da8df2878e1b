"""``python -m tests.daemons.delivering ROOT``: all outputs of an installation in one process, until it is killed."""

import asyncio
import sys
from pathlib import Path

from secmon.common.paths import Paths
from secmon.daemons import csyslogd, integratord, maild
from secmon.daemons.daemon import Context


async def main(paths: Paths) -> None:
    """Start the daemons as their supervisor would."""
    for module in (csyslogd, integratord, maild):
        await module.build(Context(name=module.NAME, paths=paths)).start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Paths(Path(sys.argv[1]))))
