"""A worker registers the key that it signs with, whenever there is none."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from secmon.cluster.call import Call
from secmon.cluster.node import Peer
from secmon.common.errors import SecmonError
from secmon.common.outcome import Plain, Result
from secmon.security.key_rotation import register_signing_key, replace_signing_key, rotate_signing_key
from secmon.security.signing_keys import KEY_LIFE_SECONDS
from secmon.security.store.security_store import SecurityStore
from secmon.worker.signing_key import REGISTER, SigningKeyRegistration
from tests.manual_clock import ManualClock
from tests.security.store.rows import put_user
from tests.waiting import until

pytestmark = pytest.mark.anyio


class Pair:
    """The stores of a master and of the worker ``w``, and the master as ``w`` reaches it."""

    def __init__(self, folder: Path) -> None:
        self.clock = ManualClock()
        self.master = SecurityStore(folder / "m.db")
        self.worker = SecurityStore(folder / "w.db", writable=False)
        with self.master.write() as tx:
            put_user(tx, 1)
            rotate_signing_key(tx, self.clock)
        self.connected = True
        self.asked = 0
        self.refusal: SecmonError | None = None

    def follow(self) -> None:
        self.worker.apply_snapshot(self.master.snapshot())

    async def find_master(self, seconds: float) -> Peer | None:
        await asyncio.sleep(0)
        return self if self.connected else None

    async def execute(self, call: Call, *, part: bool) -> Result:
        """See ``cluster.node.Peer``."""
        assert (call.operation, part) == (REGISTER, False)
        assert "PRIVATE" not in str(call.params)
        self.asked += 1
        if self.refusal is not None:
            raise self.refusal
        with self.master.write() as tx:
            register_signing_key(tx, "w", call.params.kid, call.params.public_pem, self.clock)
        self.follow()
        assert self.worker.view().signing_key is None, "used before all know it"
        return Plain()

    def signs_with(self) -> str | None:
        key = self.worker.view().signing_key
        return key.kid if key else None


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[Pair]:
    made = Pair(tmp_path)
    running = asyncio.create_task(
        SigningKeyRegistration(made.worker, made.find_master, made.clock, poll_seconds=0.01).run()
    )
    yield made
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    made.master.close()
    made.worker.close()


async def test_nothing_is_registered_before_there_is_a_state(pair: Pair) -> None:
    await asyncio.sleep(0.05)
    assert pair.asked == 0
    pair.follow()
    await until(pair.signs_with)
    key = pair.master.view().keys[str(pair.signs_with())]
    assert (key.node, key.private_pem) == ("w", None)
    assert pair.asked == 1


async def test_keys_that_all_nodes_forget_or_that_are_old_are_replaced(pair: Pair) -> None:
    pair.follow()
    first = await until(pair.signs_with)
    with pair.master.write() as tx:
        replace_signing_key(tx, pair.clock)
    pair.follow()
    second = await until(lambda: pair.signs_with() if pair.signs_with() != first else None)
    assert first not in pair.master.view().keys
    pair.clock.advance(KEY_LIFE_SECONDS + 1)
    # The master knows it before the worker uses it: the present one lives on meanwhile.
    third = await until(lambda: pair.signs_with() if pair.signs_with() != second else None)
    assert pair.master.view().keys[str(second)].retired_at is not None
    assert pair.master.view().keys[str(third)].retired_at is None


async def test_without_the_master_it_waits(pair: Pair) -> None:
    pair.connected = False
    pair.follow()
    await asyncio.sleep(0.05)
    assert (pair.asked, pair.signs_with()) == (0, None)
    pair.connected = True
    await until(pair.signs_with)
