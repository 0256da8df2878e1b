"""Real change notification."""

import asyncio
import shutil
from pathlib import Path

import pytest

from secmon.common.files.watch import FolderWatch
from tests.common.files.folders import write
from tests.waiting import LIMIT_SECONDS

# The watching library warns, on its own thread, when a new folder is registered twice; that is harmless.
pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore:Callback with id:RuntimeWarning")]


class Watching:
    """A started watch, and the paths it has reported so far."""

    def __init__(self, root: Path) -> None:
        self._woken = asyncio.Event()
        self.watch = FolderWatch(root, self._woken.set)
        self.seen: set[str] = set()

    async def until(self, *paths: str) -> None:
        """Wait until all of ``paths`` were reported."""
        async with asyncio.timeout(LIMIT_SECONDS):
            while not self.seen.issuperset(paths):
                await self._woken.wait()
                self._woken.clear()
                self.watch.renew_watches()
                await self.watch.debounce()
                taken = self.watch.take_touched()
                assert taken is not None
                self.seen |= taken


async def test_every_kind_of_change_is_reported(tmp_path: Path) -> None:
    watching = Watching(tmp_path)
    await watching.watch.start()
    try:
        assert (tmp_path / "var/multigroups").is_dir()
        write(tmp_path, "etc/rules/a.xml", b"1")
        await watching.until("etc/rules/a.xml")
        write(tmp_path, "etc/shared/new/deep/f", b"1")
        await watching.until("etc/shared/new")
        (tmp_path / "etc/shared/new").rename(tmp_path / "etc/shared/other")
        await watching.until("etc/shared/other")
        write(tmp_path, "etc/shared/other/deep/g", b"1")
        await watching.until("etc/shared/other/deep/g")
        (tmp_path / "etc/rules/a.xml").unlink()
        write(tmp_path, "etc/lists/keys", b"001")
        await watching.until("etc/lists/keys")
    finally:
        await watching.watch.stop()


async def test_a_category_folder_made_again_is_watched(tmp_path: Path) -> None:
    watching = Watching(tmp_path)
    await watching.watch.start()
    try:
        for folder, file in (("var/multigroups", "1/merged.mg"), ("etc/lists", "l")):
            shutil.rmtree(tmp_path / folder)
            await watching.until(folder)
            watching.seen.clear()
            (tmp_path / folder).mkdir()
            await watching.until(folder)
            write(tmp_path, f"{folder}/{file}", b"1")
            await watching.until(f"{folder}/{file.partition('/')[0]}")
    finally:
        await watching.watch.stop()


async def test_files_that_are_not_replicated_are_ignored(tmp_path: Path) -> None:
    watching = Watching(tmp_path)
    await watching.watch.start()
    try:
        write(tmp_path, "etc/ossec.conf", b"1")
        write(tmp_path, "etc/rules/x.tmp", b"1")
        write(tmp_path, "var/run/pid", b"1")
        write(tmp_path, "etc/rules/end", b"1")
        await watching.until("etc/rules/end")
        assert watching.seen == {"etc/rules/end"}
    finally:
        await watching.watch.stop()


async def test_very_many_changes_count_as_all(tmp_path: Path) -> None:
    woken = asyncio.Event()
    watch = FolderWatch(tmp_path, woken.set)
    await watch.start()
    try:
        await asyncio.to_thread(lambda: [write(tmp_path, f"etc/lists/{n}", b"") for n in range(1500)])
        async with asyncio.timeout(LIMIT_SECONDS):
            await woken.wait()
            touched: set[str] | None = set()
            while touched is not None and "etc/lists/1499" not in touched:
                touched = (watch._touched | touched) if len(watch._touched) <= 1000 else None
                await asyncio.sleep(0)
        assert watch.take_touched() is None
        assert watch.take_touched() == set()
    finally:
        await watch.stop()
