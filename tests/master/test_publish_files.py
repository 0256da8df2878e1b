"""What is reported of changed files that the store of record does not take."""

import asyncio
from collections.abc import Set
from pathlib import Path

import pytest

from secmon.cluster.record.file_record import FileChanged
from secmon.common.background import cancel
from secmon.common.clock import SystemClock
from secmon.common.counters import Counters
from secmon.common.errors import SecmonError
from secmon.common.files.manifest import Delta
from secmon.master.publish_files import FilePublisher
from tests.waiting import LIMIT_SECONDS

pytestmark = pytest.mark.anyio


class Record:
    """A store of record that fails with each of ``faults`` in turn, and then works."""

    def __init__(self, *faults: Exception) -> None:
        self.faults = list(faults)
        self.recorded: dict[str, bool] = {}

    def paths(self) -> Set[str]:
        return {path for path, there in self.recorded.items() if there}

    def put(self, changed: Delta) -> None:
        if self.faults:
            raise self.faults.pop(0)
        self.recorded.update({path: entry is not None for path, entry in changed.items()})


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "etc" / "rules"
    folder.mkdir(parents=True)
    (folder / "local_rules.xml").write_text("<group/>")
    return tmp_path


async def reported(root: Path, *faults: Exception) -> tuple[list[int], Record]:
    """The codes that ``settled`` raises for as many faults, and the record after it has worked."""
    record, codes = Record(*faults), list[int]()
    publisher = FilePublisher(root, clock=SystemClock(), counters=Counters(), record=record)
    for _ in faults:
        with pytest.raises(SecmonError) as caught:
            await publisher.settled()
        codes.append(caught.value.code)
    await publisher.settled()
    return codes, record


@pytest.mark.parametrize(
    ("faults", "codes"),
    [
        ([SecmonError(3051)], [3051]),
        ([SecmonError(3050, "gone")], [3052]),
        ([FileChanged("x")], [3052]),
        ([FileChanged("x"), SecmonError(3051)], [3052, 3051]),
        ([SecmonError(3050, "the answer was lost"), SecmonError(3051)], [3052, 3052]),
    ],
    ids=["no master", "no database", "changed", "no master after a change", "no master after a lost answer"],
)
async def test_what_is_reported_of_a_change(root: Path, faults: list[Exception], codes: list[int]) -> None:
    found, record = await reported(root, *faults)
    assert found == codes
    assert "etc/rules/local_rules.xml" in record.recorded


async def test_a_publisher_that_starts_without_the_database_waits_for_it(root: Path) -> None:
    """Workers keep their files meanwhile. What was removed before the start is not recorded any more."""
    record = Record(*[SecmonError(3050, "gone")] * 2)
    record.recorded = {"etc/rules/removed.xml": True, "etc/rules/local_rules.xml": True, "etc/lists/new": True}
    (root / "etc" / "lists").symlink_to(root / "elsewhere")
    publisher = FilePublisher(root, clock=SystemClock(), counters=Counters(), record=record)
    with pytest.raises(SecmonError, match="3052"):
        await publisher.settled()
    assert publisher.position().epoch == ""
    running = asyncio.create_task(publisher.run())
    async with asyncio.timeout(LIMIT_SECONDS):
        await publisher.ready()
    assert not running.done()
    await cancel(running)
    assert record.faults == []
    assert publisher.position().revision == 1
    assert record.paths() == {"etc/rules/local_rules.xml", "etc/lists/new"}, "a link says nothing of what was there"
