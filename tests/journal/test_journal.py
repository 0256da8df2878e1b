"""The journal: all appended events are read once and in order, also after deaths of the writer."""

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secmon.common.errors import SecmonError
from secmon.journal.blocks import encode
from secmon.journal.journal import JournalReader, JournalWriter
from secmon.journal.segments import consumer_path, list_segments, segment_path
from tests.filelimit import file_size_limit
from tests.manual_clock import ManualClock

CLOCK = ManualClock()


def writer(folder: Path, *, limit: int = 1 << 20, segment: int = 1 << 18) -> JournalWriter:
    return JournalWriter(folder, CLOCK, limit=limit, segment=segment)


def numbered(start: int, count: int) -> list[bytes]:
    return [b"event %06d" % number for number in range(start, start + count)]


def read_all(reader: JournalReader, *, limit: int = 1 << 20) -> list[bytes]:
    found: list[bytes] = []
    while blocks := reader.read(limit=limit):
        found += [event for block in blocks for event in block.events]
    return found


def test_appended_is_read_with_its_time_and_numbers(tmp_path: Path) -> None:
    journal, reader = writer(tmp_path), JournalReader(tmp_path, "analysis")
    assert reader.read() == []
    journal.append([b"a", b""])
    journal.append([])
    journal.append([b"c"])
    first, second = reader.read()
    assert (first.first, first.events, first.at) == (0, [b"a", b""], CLOCK.now().timestamp())
    assert (second.first, second.events) == (2, [b"c"])
    assert reader.read() == []
    journal.close()
    reader.close()


def test_a_reader_continues_at_its_commit(tmp_path: Path) -> None:
    journal, reader = writer(tmp_path), JournalReader(tmp_path, "analysis")
    journal.append(numbered(0, 10))
    journal.append(numbered(10, 10))
    assert len(read_all(reader)) == 20
    reader.commit(13)
    reader.close()
    again = JournalReader(tmp_path, "analysis")
    assert read_all(again) == numbered(13, 7)
    assert again.lost == 0
    again.close()
    journal.close()


def test_without_readers_the_oldest_make_room(tmp_path: Path) -> None:
    journal = writer(tmp_path, limit=4096, segment=1024)
    for start in range(0, 1000, 10):
        journal.append(numbered(start, 10))
        assert journal.size <= 4096 + 1024
        assert not journal.full
    reader = JournalReader(tmp_path, "late")
    kept = read_all(reader)
    assert kept == numbered(1000 - len(kept), len(kept))
    assert journal.lost == 1000 - len(kept) > 0
    reader.close()
    journal.close()


def test_the_writer_waits_for_a_slow_reader(tmp_path: Path) -> None:
    journal, reader = writer(tmp_path, limit=4096, segment=1024), JournalReader(tmp_path, "analysis")
    start = 0
    while not journal.full:
        journal.append(numbered(start, 10))
        start += 10
    got = read_all(reader)
    assert got == numbered(0, start)
    journal.make_room()
    assert journal.full  # read is not committed
    reader.commit(reader.next)
    journal.make_room()
    assert not journal.full
    assert journal.lost == 0
    assert len(list_segments(tmp_path)) == 1
    reader.close()
    journal.close()


def test_one_slow_reader_of_two_counts_until_it_is_unregistered(tmp_path: Path) -> None:
    journal = writer(tmp_path, limit=4096, segment=1024)
    fast, slow = JournalReader(tmp_path, "fast"), JournalReader(tmp_path, "slow")
    while not journal.full:
        journal.append(numbered(0, 10))
    read_all(fast)
    fast.commit(fast.next)
    journal.make_room()
    assert journal.full
    slow.close()
    consumer_path(tmp_path, "slow").unlink()
    journal.make_room()
    assert not journal.full
    fast.close()
    journal.close()


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    journal = writer(tmp_path)
    with pytest.raises(SecmonError) as caught:
        writer(tmp_path)
    assert caught.value.code == 1005
    journal.close()
    writer(tmp_path).close()


def test_names_of_readers(tmp_path: Path) -> None:
    for name in ("", "../x", "A", "a.b"):
        with pytest.raises(ValueError, match="cannot name"):
            JournalReader(tmp_path, name)


def test_a_damaged_block_costs_its_own_events(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    journal = writer(tmp_path, limit=1 << 16, segment=1024)
    reader = JournalReader(tmp_path, "analysis")
    for start in range(0, 200, 10):
        journal.append(numbered(start, 10))
    second = list_segments(tmp_path)[1]
    path = segment_path(tmp_path, second)
    flip(path, 100)
    assert read_all(reader) == numbered(0, second) + numbered(second + 10, 200 - second - 10)
    assert reader.lost == 10
    size = len(encode(0, 1.0, numbered(0, 10)))
    assert f"{path} is damaged at offset 0: {size} bytes cannot be read, and 10 events in them" in caplog.text
    reader.close()
    journal.close()


def test_skipped_damage_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    journal = writer(tmp_path)
    reader = JournalReader(tmp_path, "analysis")
    for start in range(0, 40, 10):
        journal.append(numbered(start, 10))
    flip(segment_path(tmp_path, 0), len(encode(0, 1.0, numbered(0, 10))) + 40)
    assert read_all(reader) == numbered(0, 10) + numbered(20, 20)
    reader.commit(reader.next)
    reader.close()
    assert caplog.text.count("is damaged at offset") == 1
    again = JournalReader(tmp_path, "analysis")
    journal.append(numbered(40, 10))
    assert read_all(again) == numbered(40, 10)
    assert again.lost == 0
    assert caplog.text.count("is damaged at offset") == 1
    again.close()
    journal.close()


def flip(path: Path, position: int, mask: int = 1) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        value = file.read(1)[0]
        file.seek(position)
        file.write(bytes([value ^ mask]))


@given(
    batches=st.lists(st.integers(1, 5), min_size=2, max_size=8),
    where=st.floats(0, 1, exclude_max=True),
    mask=st.integers(1, 255),
    followed=st.booleans(),
)
@settings(max_examples=100)
def test_any_damage_costs_one_block(
    tmp_path_factory: pytest.TempPathFactory, batches: list[int], where: float, mask: int, followed: bool
) -> None:
    """Of the segment being written as of those before it, for readers as for the writer that opens it again."""
    folder = tmp_path_factory.mktemp("events")
    whole, start, blocks = b"", 0, []
    for count in batches:
        block = encode(start, 1.0, numbered(start, count))
        blocks.append((len(whole), len(whole) + len(block), numbered(start, count)))
        whole, start = whole + block, start + count
    at = int(where * len(whole))
    segment_path(folder, 0).write_bytes(whole)
    flip(segment_path(folder, 0), at, mask)
    if followed:
        segment_path(folder, start).touch()
    survivors = [event for first, end, events in blocks if not first <= at < end for event in events]
    reader = JournalReader(folder, "analysis")
    early = read_all(reader)
    assert early == survivors[: len(early)]
    # A length that is damaged may reach beyond the end of a segment that is being written, as that of a block does that
    # is only there in part: the reader then waits until there is more, or the next segment.
    assert early == survivors or not followed
    journal = writer(folder, segment=1)
    journal.append([b"later"])
    assert early + read_all(reader) == [*survivors, b"later"]
    if followed or at < blocks[-1][0]:
        assert reader.lost == start - len(survivors)
    reader.close()
    journal.close()


def test_an_event_is_never_taken_for_a_block(tmp_path: Path) -> None:
    """An agent can send what looks like a block; damage to the real one must not make it one."""
    forged = encode(50, 1.0, [b"forged"])
    path = segment_path(tmp_path, 0)
    first, second = encode(0, 1.0, [forged]), encode(1, 1.0, [b"real"])
    path.write_bytes(first + second)
    flip(path, first.index(forged) - 1)  # in the lengths
    reader = JournalReader(tmp_path, "analysis")
    assert read_all(reader) == [b"real"]
    assert reader.lost == 1
    reader.close()


def test_blocks_written_while_the_reader_looks_for_damage_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    journal, reader = writer(tmp_path), JournalReader(tmp_path, "analysis")
    fstat, waiting = os.fstat, [b"second", b"first"]

    def fstat_later(file: int) -> os.stat_result:
        while waiting:
            journal.append([waiting.pop()])
        return fstat(file)

    monkeypatch.setattr("secmon.journal.journal.os.fstat", fstat_later)
    assert read_all(reader) == [b"first", b"second"]
    assert (reader.lost, caplog.records) == (0, [])
    reader.close()
    journal.close()


def test_numbers_before_a_readers_position_are_not_used_again(tmp_path: Path) -> None:
    journal, reader = writer(tmp_path), JournalReader(tmp_path, "analysis")
    journal.append(numbered(0, 10))
    read_all(reader)
    reader.commit(10)
    journal.close()
    os.truncate(segment_path(tmp_path, 0), 0)  # as a loss of power may
    journal = writer(tmp_path)
    assert journal.next == 10
    journal.append(numbered(10, 5))
    assert read_all(reader) == numbered(10, 5)
    assert reader.lost == 0
    reader.close()
    journal.close()


def test_a_position_that_is_damaged_starts_at_the_oldest(tmp_path: Path) -> None:
    journal, reader = writer(tmp_path), JournalReader(tmp_path, "analysis")
    journal.append(numbered(0, 3))
    read_all(reader)
    reader.commit(3)
    reader.close()
    consumer_path(tmp_path, "analysis").write_bytes(b"\0" * 12)
    again = JournalReader(tmp_path, "analysis")
    assert read_all(again) == numbered(0, 3)
    again.close()
    journal.close()


@given(batches=st.lists(st.integers(1, 5), min_size=1, max_size=6), cut=st.floats(0, 1), junk=st.binary(max_size=60))
@settings(max_examples=100)
def test_a_journal_torn_at_any_byte_is_repaired(
    tmp_path_factory: pytest.TempPathFactory, batches: list[int], cut: float, junk: bytes
) -> None:
    folder = tmp_path_factory.mktemp("events")
    whole, start, ends = b"", 0, [(0, 0)]
    for count in batches:
        whole += encode(start, 1.0, numbered(start, count))
        start += count
        ends.append((len(whole), start))
    size = int(cut * len(whole))
    content = whole[:size] + junk
    segment_path(folder, 0).write_bytes(content)
    survived = max(number for length, number in ends if content[:length] == whole[:length])  # junk may be what was cut
    reader = JournalReader(folder, "analysis")
    assert read_all(reader) == numbered(0, survived)  # before the repair
    journal = writer(folder)
    assert journal.next == survived
    journal.append(numbered(survived, 3))
    assert read_all(reader) == numbered(survived, 3)  # and after it
    assert reader.lost == 0
    reader.close()
    journal.close()


def test_a_failed_write_leaves_no_part_of_a_block(tmp_path: Path) -> None:
    journal, reader = writer(tmp_path), JournalReader(tmp_path, "analysis")
    journal.append(numbered(0, 5))
    with file_size_limit(journal.size + 100), pytest.raises(OSError, match="large") as caught:
        journal.append(numbered(5, 50))
    assert caught.value.filename == str(next(tmp_path.glob("*.events")))
    journal.append(numbered(5, 3))
    assert read_all(reader) == numbered(0, 8)
    assert reader.lost == 0
    reader.close()
    journal.close()


def test_a_fault_behind_a_block_does_not_cost_the_block(tmp_path: Path) -> None:
    journal, reader = writer(tmp_path, segment=800), JournalReader(tmp_path, "analysis")
    for start in range(0, 60, 20):
        journal.append(numbered(start, 20))
    assert len(list_segments(tmp_path)) == 2
    (first,) = reader.read(limit=1)
    with no_more_files():
        (second,) = reader.read()  # the folder cannot be listed
        (third,) = reader.read()  # with the descriptor of the segment that is left
    assert [event for block in (first, second, third) for event in block.events] == numbered(0, 60)
    journal.close()
    reader.close()


@contextmanager
def no_more_files() -> Iterator[None]:
    """This process can open no file."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.open(os.devnull, os.O_RDONLY)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_a_reader_that_cannot_be_registered_keeps_no_file_open(tmp_path: Path) -> None:
    before = os.listdir("/proc/self/fd")
    with file_size_limit(0), pytest.raises(OSError):
        JournalReader(tmp_path, "analysis")
    assert os.listdir("/proc/self/fd") == before


def test_a_batch_larger_than_the_journal_is_deleted_once_it_is_read(tmp_path: Path) -> None:
    journal, reader = writer(tmp_path, limit=4096, segment=1024), JournalReader(tmp_path, "analysis")
    for start in (0, 500, 1000):
        journal.append(numbered(start, 500))
        assert journal.full
        assert read_all(reader) == numbered(start, 500)
        reader.commit(reader.next)
        journal.make_room()
        assert not journal.full
    assert journal.size == 0
    assert (reader.lost, journal.lost) == (0, 0)
    reader.close()
    journal.close()


_WRITES_FOR_EVER = """
import sys
from pathlib import Path
from secmon.common.clock import SystemClock
from secmon.journal.journal import JournalWriter
journal = JournalWriter(Path(sys.argv[1]), SystemClock(), limit=1 << 22, segment=1 << 16)
print("ready", flush=True)
while not journal.full:
    journal.append([b"event %06d" % number for number in range(journal.next, journal.next + 50)])
    print(journal.next, flush=True)
"""


def test_killed_while_writing(tmp_path: Path) -> None:
    reader = JournalReader(tmp_path, "analysis")
    total = 0
    for round_number in range(3):
        process = subprocess.Popen([sys.executable, "-c", _WRITES_FOR_EVER, str(tmp_path)], stdout=subprocess.PIPE)
        assert process.stdout is not None
        said = [process.stdout.readline() for _ in range(20 * (round_number + 1))]
        process.send_signal(signal.SIGKILL)
        said += process.stdout.readlines()
        process.stdout.close()
        process.wait()
        confirmed = int([line for line in said if line.endswith(b"\n")][-1])
        got = read_all(reader, limit=10_000)
        assert got == numbered(total, len(got))
        total += len(got)
        assert total >= confirmed
        reader.commit(reader.next)
    assert reader.lost == 0
    reader.close()


def test_a_reader_at_the_end_seldom_lists_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A look is cheap, and finds the next segment at once."""
    journal, reader = writer(tmp_path, segment=800), JournalReader(tmp_path, "analysis")
    journal.append(numbered(0, 20))
    assert read_all(reader) == numbered(0, 20)
    listed: list[Path] = []

    def listing(folder: Path) -> list[int]:
        listed.append(folder)
        return list_segments(folder)

    monkeypatch.setattr("secmon.journal.journal.list_segments", listing)
    for _ in range(32):
        assert reader.read() == []
    assert len(listed) == 2
    for start in range(20, 200, 20):
        journal.append(numbered(start, 20))
        assert read_all(reader) == numbered(start, 20)
    assert len(list_segments(tmp_path)) > 2
    journal.close()
    reader.close()


def test_the_segment_after_lost_blocks_is_found_too(tmp_path: Path) -> None:
    """It is not named by the number after the last block of the one before."""
    journal, reader = writer(tmp_path), JournalReader(tmp_path, "analysis")
    journal.append(numbered(0, 20))
    assert read_all(reader) == numbered(0, 20)
    journal.close()
    other = JournalReader(tmp_path, "other")
    other.commit(50)  # so numbers before it are not used again
    journal = writer(tmp_path)
    journal.append(numbered(50, 20))
    assert list_segments(tmp_path) == [0, 50]
    blocks = [block for _ in range(16) for block in reader.read()]
    assert [event for block in blocks for event in block.events] == numbered(50, 20)
    assert reader.lost == 30
    for each in (reader, other, journal):
        each.close()
