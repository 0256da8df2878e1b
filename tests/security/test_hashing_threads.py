"""Passwords are hashed on few threads, wherever they come from."""

import asyncio
import re
import threading
from pathlib import Path

import pytest

import secmon
from secmon.security.passwords import THREADS, HashingThreads, hash_password, verify_password

pytestmark = pytest.mark.anyio
_ELSEWHERE = re.compile(r"to_thread\(\s*(hash_password|verify_password|authenticate)\b")


async def test_few_threads_hash_for_many_callers() -> None:
    threads, used = HashingThreads(), set()

    def hashed() -> str:
        used.add(threading.get_ident())
        return hash_password("a password")

    results = await asyncio.gather(*(threads.run(hashed) for _ in range(12)))
    assert all(verify_password(one, "a password") for one in results)
    assert len(used) <= THREADS


async def test_errors_of_the_work_are_raised() -> None:
    def fail() -> None:
        raise LookupError("no such user")

    with pytest.raises(LookupError):
        await HashingThreads().run(fail)


def test_hashing_never_runs_on_the_threads_of_the_event_loop() -> None:
    files = list(Path(secmon.__file__).parent.rglob("*.py"))
    assert len(files) > 300
    assert [path.name for path in files if _ELSEWHERE.search(path.read_text())] == []
