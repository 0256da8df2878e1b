"""A time limit that costs nothing for work that never waits."""

import asyncio
from collections.abc import Coroutine, Generator
from typing import Any, Generic, TypeVar

T = TypeVar("T")


async def within(seconds: float | None, work: Coroutine[Any, Any, T]) -> T:
    """The result of ``work``, which may wait for ``seconds`` altogether; ``None`` means no limit.

    Raises TimeoutError like ``asyncio.timeout``, whose timer is a good part of what a short call costs: here only work
    that has to wait gets one.
    """
    try:
        waits_for = work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    async with asyncio.timeout(seconds):
        return await _Rest(work, waits_for)


class _Rest(Generic[T]):
    """What is left of a coroutine that stands at its first wait."""

    def __init__(self, work: Coroutine[Any, Any, T], waits_for: Any) -> None:
        self._work = work
        self._waits_for = waits_for

    def __await__(self) -> Generator[Any, Any, T]:
        """Hand on what the coroutine waits for, and to the coroutine what comes back, cancellation above all."""
        work, waits_for = self._work, self._waits_for
        try:
            while True:
                try:
                    sent = yield waits_for
                except BaseException as error:  # noqa: BLE001 - not ours to judge: the coroutine gets it
                    waits_for = work.throw(error)
                else:
                    waits_for = work.send(sent)
        except StopIteration as done:
            result: T = done.value
            return result
