"""Event loops for tests, of which a process of tests has many, one after the other.

gRPC has one queue of completions for all loops of a process, and whichever loop reads it hands what belongs to other
loops to them. So what a connection of an earlier test left, such as a wait for its next state, comes to a loop that is
closed, in the middle of another test. A process of secmon has one loop.
"""

import asyncio
from collections.abc import Callable
from contextvars import Context

import uvloop

Backend = tuple[str, dict[str, Callable[[], asyncio.AbstractEventLoop]]]
"""What a fixture ``anyio_backend`` returns."""


def _is_late(loop: asyncio.AbstractEventLoop, callback: Callable[..., object]) -> bool:
    """Whether gRPC calls after the end of ``loop``."""
    return loop.is_closed() and str(getattr(callback, "__module__", "")).startswith("grpc.")


class _AsyncioLoop(asyncio.SelectorEventLoop):
    def call_soon_threadsafe(
        self, callback: Callable[..., object], *args: object, context: Context | None = None
    ) -> asyncio.Handle:
        if _is_late(self, callback):
            return asyncio.Handle(callback, args, self)  # never run
        return super().call_soon_threadsafe(callback, *args, context=context)


class _UvLoop(uvloop.Loop):
    def call_soon_threadsafe(
        self, callback: Callable[..., object], *args: object, context: Context | None = None
    ) -> asyncio.Handle:
        if _is_late(self, callback):
            return asyncio.Handle(callback, args, self)
        return super().call_soon_threadsafe(callback, *args, context=context)


ASYNCIO: Backend = "asyncio", {"loop_factory": _AsyncioLoop}
UVLOOP: Backend = "asyncio", {"loop_factory": _UvLoop}
"""What daemons run on."""
