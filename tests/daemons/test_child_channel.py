"""The inherited socket between a supervisor and its processes."""

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from secmon.daemons.child_channel import ChildChannel, ParentChannel
from tests.waiting import until

pytestmark = pytest.mark.anyio


def end(child: ChildChannel) -> None:
    """Close what the kernel closes when a process ends."""
    child._socket.close()


@contextmanager
def connected(secrets: dict[str, str]) -> Iterator[tuple[ParentChannel, ChildChannel]]:
    parent = ParentChannel()
    descriptor = os.dup(parent.child)
    parent.opened(secrets)
    child = ChildChannel(descriptor)
    try:
        yield parent, child
    finally:
        parent.close()
        end(child)


@pytest.mark.parametrize("secrets", [{}, {"https.key": "a\nb \u00e9" * 2000}])
async def test_secrets_go_down_and_the_outcome_comes_up(secrets: dict[str, str]) -> None:
    with connected(secrets) as (parent, child):
        assert (child.secrets, child.orphaned) == (secrets, False)
        child.ready()
        assert await parent.outcome() is None


async def test_a_failure_is_one_line() -> None:
    with connected({}) as (parent, child):
        child.failed("no\n  port")
        assert await parent.outcome() == "no port"


async def test_a_child_that_dies_before_it_is_ready() -> None:
    with connected({}) as (parent, child):
        end(child)
        assert await parent.outcome() == "it ended before it was ready"


async def test_a_starter_that_dies_before_it_has_sent_the_secrets() -> None:
    parent = ParentChannel()
    descriptor = os.dup(parent.child)
    parent.close()
    child = ChildChannel(descriptor)
    assert (child.orphaned, child.secrets) == (True, {})
    child.ready()  # without a reader: no error
    end(child)


async def test_the_end_of_the_supervisor_is_noticed() -> None:
    with connected({}) as (parent, child):
        gone = asyncio.create_task(child.supervisor_gone())
        await asyncio.sleep(0)
        assert not gone.done()
        parent.close()
        await until(gone.done)
