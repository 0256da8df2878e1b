"""Large blocks use freed memory again; after a flood it goes back to the kernel."""

import platform
import resource
import subprocess
import sys

import pytest

from secmon.common.allocator import KEPT_BYTES, keep_freed_memory

_AFTER_A_FLOOD = """
import asyncio, random
from pathlib import Path
from secmon.common.allocator import give_back_freed_memory

class Connection:
    def __init__(self):
        self.itself, self.buffer = self, bytearray(random.randint(600, 20_000))

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 >> 20

async def main():
    before = resident()
    connections = [Connection() for _ in range(5000)]
    full = resident()
    connections = connections[::50]  # what is left lies between what was freed
    giving = asyncio.create_task(give_back_freed_memory(0.01))
    async with asyncio.timeout(100):
        while resident() - before > 10:
            await asyncio.sleep(0.01)
    giving.cancel()
    print(full - before)

asyncio.run(main())
"""

COPIES = 200
SIZE = 350_000


def faults() -> int:
    """Page faults of copies of a block."""
    block = b"x" * SIZE
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(COPIES):
        parts = [block[1:], block[2:], bytes(bytearray(block))]
        del parts
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another allocator")


@glibc
def test_copies_of_a_block_take_few_new_pages() -> None:
    keep_freed_memory()
    keep_freed_memory()  # both daemons of a process ask for it
    assert faults() * resource.getpagesize() < KEPT_BYTES + 4 * SIZE


@glibc
def test_memory_is_given_back_after_a_flood() -> None:
    ran = subprocess.run([sys.executable, "-c", _AFTER_A_FLOOD], capture_output=True, text=True)
    assert int(ran.stdout or 0) > 40, ran.stderr  # MB that the flood took
