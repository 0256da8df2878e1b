"""Whatever an agent's table goes through, and whatever is lost on the way: silence means that the store equals it."""

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from sqlalchemy import select

from secmon.common.counters import Counters
from secmon.inventory.handlers import HANDLERS
from secmon.inventory.reader import InventoryReader
from secmon.inventory.schema import hotfixes
from secmon.inventory.store import InventoryStore
from secmon.journal.journal import JournalWriter
from tests.inventory.synchronization.model_agent import ModelAgent
from tests.manual_clock import ManualClock

CLOCK = ManualClock()
KEYS = st.sampled_from(["", "1", "10", "2", "B", "a", "b", "bb", "c", "é", "\U0001f600", "ﬀ"])
FATES = st.sampled_from(["arrives", "arrives", "lost", "killed before the commit", "killed after the commit"])
_ROUNDS = 12


class Synchronization(RuleBasedStateMachine):
    """An agent with a table, and a node whose reader is killed now and then."""

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory()
        folder = Path(self._folder.name)
        self.messages = JournalWriter(folder / "messages", CLOCK, limit=1 << 20, segment=1 << 16)
        self.events = JournalWriter(folder / "events", CLOCK, limit=1 << 20, segment=1 << 16)
        self.store = InventoryStore(folder / "inventory.db")
        self.agent = ModelAgent("syscollector_hotfixes")
        self.started = False
        self.reader = self._start()

    def _start(self) -> InventoryReader:
        folder = Path(self._folder.name)
        return InventoryReader(self.store, folder / "messages", self.events, HANDLERS, clock=CLOCK, counters=Counters())

    def teardown(self) -> None:
        self.reader.close()
        self.store.close()
        self.messages.close()
        self.events.close()
        self._folder.cleanup()

    @rule(key=KEYS, checksum=st.sampled_from(["x", "y"]), delta=FATES)
    def change(self, key: str, checksum: str, delta: str) -> None:
        """A row is added or modified; its delta may be lost, as those of a first scan are."""
        key = key or "k"
        attributes = {"hotfix": key, "checksum": checksum}
        operation = "MODIFIED" if key in self.agent.rows else "INSERTED"
        self.agent.rows[key] = {"index": key, "timestamp": "", "attributes": attributes}
        self._delta(operation, attributes, delta)

    @rule(key=KEYS, delta=FATES)
    def remove(self, key: str, delta: str) -> None:
        if row := self.agent.rows.pop(key, None):
            self._delta("DELETED", dict(row["attributes"]), delta)

    @rule(fates=st.lists(FATES, max_size=40))
    def synchronize(self, fates: list[str]) -> None:
        """A round, in which messages of either side are lost and the reader is killed."""
        self._round(fates)

    @rule()
    def rest(self) -> None:
        """Rounds without losses end in silence, and the store then has the agent's rows."""
        for _ in range(_ROUNDS):
            if not self._round([]):
                break
        else:
            raise AssertionError("the rounds do not end")
        with self.store.read() as connection:
            rows = connection.execute(select(hotfixes.c.hotfix, hotfixes.c.checksum))
            stored = {name: checksum for name, checksum in rows}  # noqa: C416 - rows are no pairs to a type checker
        assert stored == {key: row["attributes"]["checksum"] for key, row in self.agent.rows.items()}

    @invariant()
    def nothing_waits(self) -> None:
        assert self.reader.step() == (False, ())

    def _round(self, fates: list[str]) -> int:
        """One round; returns how many answers there were."""
        waiting, answered = self.agent.begin(self.agent.round + 1), 0
        while waiting:
            fate = fates.pop() if fates else "arrives"
            answers = self._deliver(f"5:[004] (web-4) any->syscollector:{waiting.pop(0)}", fate)
            answered += len(answers)
            waiting += [message for text in answers for message in self.agent.answered(text)]
        return answered

    def _delta(self, operation: str, data: dict[str, str], fate: str) -> None:
        body = json.dumps({"type": "dbsync_hotfixes", "operation": operation, "data": data})
        assert self._deliver(f"d:[004] (web-4) any->syscollector:{body}", fate) == []

    def _deliver(self, message: str, fate: str) -> list[str]:
        """A message on its way. A kill loses what the reader has not committed, and all of its answers."""
        if fate == "lost":
            return []
        self.messages.append([message.encode()])
        if fate == "killed before the commit":
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("secmon.inventory.reader._write_position", _killed)
                with pytest.raises(OSError, match="killed"):
                    self.reader.step()
            self._kill()
        answers = [text for _, text in self.reader.step()[1]]
        if fate == "killed after the commit":
            self._kill()
            return []
        return answers

    def _kill(self) -> None:
        self.reader.close()
        self.reader = self._start()


def _killed(*_: object) -> None:
    raise OSError("killed")


def test_silence_means_that_the_store_equals_the_agent() -> None:
    run_state_machine_as_test(
        Synchronization, settings=settings(max_examples=15, stateful_step_count=15, deadline=None)
    )
