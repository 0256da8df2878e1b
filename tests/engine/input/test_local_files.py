"""Following log files: new lines, rotation, truncation, restarts."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from secmon.config.main import parse_main_config
from secmon.engine.input.file_counters import LocalFileCounters
from secmon.engine.input.local_files import LocalFileFollower, local_files
from secmon.engine.input.predecode import split_message
from tests.manual_clock import ManualClock

pytestmark = pytest.mark.anyio


class Stored:
    """Messages that were stored; ``full`` refuses them."""

    def __init__(self) -> None:
        self.logs: list[str] = []
        self.locations: set[str] = set()

    async def __call__(self, messages: Sequence[bytes]) -> None:
        for message in messages:
            found = split_message(message)
            assert found is not None
            self.logs.append(found.log.decode())
            self.locations.add(found.location.decode())


class SessionHarness:
    """A file that is followed."""

    def __init__(self, root: Path) -> None:
        self.file = root / "app:x.log"
        self.file.touch()
        self.root = root
        self.stored = Stored()
        self.tails = self.again()

    def again(self) -> LocalFileFollower:
        clock = ManualClock()
        counters = LocalFileCounters(clock)
        return LocalFileFollower([str(self.root / "*.log")], self.root / "places", clock, self.stored, counters)

    def write(self, text: str) -> None:
        with self.file.open("a") as file:
            file.write(text)


async def test_whole_lines_from_now_on(tmp_path: Path) -> None:
    harness = SessionHarness(tmp_path)
    harness.write("old\n")
    await harness.tails.begin()
    harness.write("one\r\n\ntwo\nthr")
    await harness.tails.step()
    assert harness.stored.logs == ["one", "two"]
    harness.write("ee\n")
    await harness.tails.step()
    assert harness.stored.logs == ["one", "two", "three"]
    assert harness.stored.locations == {str(harness.file)}
    harness.tails.close()


async def test_a_restart_continues_at_the_saved_position(tmp_path: Path) -> None:
    harness = SessionHarness(tmp_path)
    await harness.tails.begin()
    harness.write("one\n")
    await harness.tails.step()
    harness.tails.close()
    harness.write("two\n")
    again = harness.again()
    await again.begin()
    await again.step()
    assert harness.stored.logs == ["one", "two"]
    again.close()


async def test_rotated_truncated_and_new_files(tmp_path: Path) -> None:
    harness = SessionHarness(tmp_path)
    await harness.tails.begin()
    harness.write("one\n")
    await harness.tails.step()
    harness.write("late\n")
    harness.file.rename(tmp_path / "app.1")
    harness.write("two, in a line that is longer than all of the old file\n")
    (tmp_path / "new.log").write_text("first\n")
    for _ in range(3):
        await harness.tails.step()
    assert sorted(one[:5] for one in harness.stored.logs) == ["first", "late", "one", "two, "]
    harness.file.write_text("3\n")
    await harness.tails.step()
    assert harness.stored.logs[-1] == "3"
    harness.tails.close()


async def test_lines_that_are_too_long_are_cut(tmp_path: Path) -> None:
    harness = SessionHarness(tmp_path)
    await harness.tails.begin()
    harness.write("x" * 70_000 + "\nshort\n")
    await harness.tails.step()
    assert [len(one) for one in harness.stored.logs] == [65_000, 5]
    assert harness.tails.cut == 1
    harness.tails.close()


async def test_many_lines_come_in_turns(tmp_path: Path) -> None:
    harness = SessionHarness(tmp_path)
    await harness.tails.begin()
    harness.write("".join(f"{number}\n" for number in range(25_000)))
    rounds = 1
    while await harness.tails.step():
        rounds += 1
    assert harness.stored.logs == [str(number) for number in range(25_000)]
    assert rounds >= 3
    harness.tails.close()


def test_sections() -> None:
    config = parse_main_config(
        "<ossec_config><localfile><log_format>syslog</log_format><location>/var/log/a</location></localfile>"
        "<localfile><log_format>command</log_format><command>df</command></localfile></ossec_config>"
    )
    assert local_files(config) == ["/var/log/a"]
    assert local_files(parse_main_config("<ossec_config></ossec_config>")) == []
