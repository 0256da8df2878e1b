"""The end of a file that records are appended to: a crash or a full disk may have cut the last record.

The incomplete record is not removed: readers follow such files and remember their position, so a file never shrinks.
They skip an incomplete record. The next record must not become a part of it.
"""

import os


def missing_end(file: int, ending: bytes = b"\n") -> bytes:
    """What of ``ending`` the last record of ``file`` lacks; empty when nothing was cut, or nothing is there.

    ``file`` is open for reading. A writer appends this before the next record. Raises OSError.
    """
    size = os.fstat(file).st_size
    tail = os.pread(file, len(ending), max(0, size - len(ending)))
    if not tail:
        return b""
    there = next(count for count in range(len(ending), -1, -1) if tail.endswith(ending[:count]))
    return ending[there:]
