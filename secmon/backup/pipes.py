"""Two steps of a stream at the same time: one writes in a thread of its own what the other one reads."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import IO


@contextmanager
def produced(produce: Callable[[IO[bytes]], None]) -> Iterator[IO[bytes]]:
    """What ``produce`` writes, to be read.

    A failure of ``produce`` is raised at the end of the block, in place of one of the block, whose cause it is. When
    the block fails by itself, ``produce`` meets a broken pipe, which is not reported.
    """
    read_end, write_end = os.pipe()

    def work() -> None:
        with open(write_end, "wb") as file:
            produce(file)

    with ThreadPoolExecutor(1, "backup-stream") as pool:
        future = pool.submit(work)
        try:
            with open(read_end, "rb") as reader:
                yield reader
        finally:
            failure = future.exception()
            if failure is not None and not isinstance(failure, BrokenPipeError):
                raise failure
