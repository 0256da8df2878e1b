"""The host's time zone, for tests of what is written in local time."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def zone(name: str) -> Iterator[None]:
    """Local time is that of ``name`` (``Europe/Madrid``) inside the block."""
    before = os.environ.get("TZ")
    os.environ["TZ"] = name
    time.tzset()
    try:
        yield
    finally:
        if before is None:
            del os.environ["TZ"]
        else:
            os.environ["TZ"] = before
        time.tzset()
