"""Large blocks use freed memory again."""

import platform
import resource

import pytest

from secmon.common.allocator import KEPT_BYTES, keep_freed_memory

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


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another allocator")
def test_copies_of_a_block_take_few_new_pages() -> None:
    keep_freed_memory()
    keep_freed_memory()  # both daemons of a process ask for it
    assert faults() * resource.getpagesize() < KEPT_BYTES + 4 * SIZE
