"""Counters of local files."""

from pathlib import Path
from typing import Any

import pytest

from secmon.engine.input.file_counters import INTERVAL_SECONDS, LocalFileCounters
from tests.engine.input.test_local_files import SessionHarness
from tests.manual_clock import ManualClock


def files(span: dict[str, Any]) -> dict[str, tuple[int, int]]:
    assert all(each["targets"] == [{"name": "agent", "drops": 0}] for each in span["files"])
    return {each["location"]: (each["events"], each["bytes"]) for each in span["files"]}


def test_an_interval_is_shown_when_it_is_complete() -> None:
    clock = ManualClock()
    counters, start = LocalFileCounters(clock), clock.now().timestamp()
    assert counters.report() == {
        "global": {"start": start, "end": start, "files": []}, "interval": {"start": start, "end": start, "files": []}
    }  # fmt: skip
    counters.add("/a", 2, 20)
    assert files(counters.report()["interval"]) == {"/a": (2, 20)}
    clock.advance(INTERVAL_SECONDS)
    counters.add("/a", 3, 30)
    counters.add("/b", 0, 0)
    shown = counters.report()
    assert files(shown["global"]) == {"/a": (5, 50), "/b": (0, 0)}
    assert files(shown["interval"]) == {"/a": (2, 20)}
    assert shown["interval"]["end"] - shown["interval"]["start"] == INTERVAL_SECONDS
    clock.advance(INTERVAL_SECONDS)
    shown = counters.report()
    assert files(shown["interval"]) == {"/a": (3, 30), "/b": (0, 0)}
    assert (shown["global"]["start"], shown["global"]["end"]) == (start, start + 2 * INTERVAL_SECONDS)


@pytest.mark.anyio
async def test_lines_and_bytes_of_files_that_are_cut_and_replaced(tmp_path: Path) -> None:
    harness = SessionHarness(tmp_path)
    harness.write("old\n")
    await harness.tails.begin()

    async def counted() -> tuple[int, int]:
        await harness.tails.step()
        return files(harness.tails.counters.report()["global"])[str(harness.file)]

    assert await counted() == (0, 0)
    harness.write("one\r\n\ntwo\nthr")
    assert await counted() == (2, 10)
    harness.file.write_text("four\n")
    assert await counted() == (3, 15)
    harness.file.rename(tmp_path / "rotated")
    harness.write("five\n")
    assert await counted() == (3, 15)
    assert await counted() == (4, 20)
    harness.tails.close()
