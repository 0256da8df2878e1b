"""Reading alert files: every alert once and in order, whatever becomes of the files."""

import os
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secmon.alerts import alert_reader
from secmon.alerts.alert_reader import AlertReader, Position
from secmon.common.logfile.log_series import alert_series
from secmon.common.paths import Paths
from secmon.outputs.alert import Alert
from tests.outputs.alert_files import AlertFiles, alert

DAY = timedelta(days=1)


@pytest.fixture
def files(tmp_path: Path) -> Iterator[AlertFiles]:
    """Three alerts fill a file."""
    made = AlertFiles(tmp_path, max_bytes=2000)
    yield made
    made.close()


def numbers(reader: AlertReader) -> list[int]:
    """Numbers of all alerts that can be read now."""
    found: list[int] = []
    while lines := reader.read():
        found += [int(Alert(line.data).text("id").partition(".")[2]) for line in lines]
    return found


def restarted(reader: AlertReader, files: AlertFiles) -> AlertReader:
    """As after a kill: from the position as it is stored."""
    reader.close()
    stored = msgspec.json.encode(reader.position)
    return files.reader(msgspec.json.decode(stored, type=Position))


def test_only_what_is_written_from_now_on(files: AlertFiles) -> None:
    files.number(1, 2)
    reader = files.reader(None)
    assert numbers(reader) == []
    assert reader.idle()
    files.number(3)
    assert not reader.idle()
    assert numbers(reader) == [3]


def test_before_there_is_any_file(tmp_path: Path) -> None:
    reader = AlertReader(alert_series(Paths(tmp_path)), None)
    assert numbers(reader) == []
    files = AlertFiles(tmp_path)
    files.number(1)
    assert numbers(reader) == [1]
    files.close()
    reader.close()


def test_rotations_within_a_day_and_over_days(files: AlertFiles) -> None:
    reader = files.reader()
    for number in range(12):  # three alerts fill a file
        files.number(number)
    files.now += DAY
    files.number(12)
    assert len(files.series.parts()) > 3
    assert numbers(reader) == list(range(13))
    assert reader.idle()


def test_compressed_files_are_read_on(files: AlertFiles) -> None:
    reader = files.reader()
    files.number(1, 2)
    assert numbers(reader) == [1, 2]
    files.number(3)
    files.now += 3 * DAY
    files.number(4)
    files.compress()
    assert [path.suffix for *_, path in files.series.parts()] == [".gz", ".json"]
    fresh = restarted(reader, files)
    assert numbers(fresh) == [3, 4], "the rest of the compressed file"
    assert (fresh.lost_files, fresh.unread()) == (0, 0)


def test_a_file_that_is_compressed_while_it_is_read(files: AlertFiles) -> None:
    files.number(1, 2, 3)
    reader = files.reader()
    first = reader.read()
    assert len(first) == 3
    files.number(4)
    files.now += DAY
    files.number(5)
    files.compress()
    assert numbers(reader) == [4, 5], "the open file is read to its end"


def test_files_that_are_gone_are_counted(files: AlertFiles) -> None:
    reader = files.reader()
    files.number(1)
    assert numbers(reader) == [1]
    files.number(2)
    lost = files.series.part(files.now.date())
    files.now += DAY
    files.number(3)
    lost.unlink()
    fresh = restarted(reader, files)
    assert numbers(fresh) == [3]
    assert fresh.lost_files == 1


def test_a_file_that_is_emptied_is_read_from_its_start(files: AlertFiles) -> None:
    files.number(1, 2)
    reader = files.reader()
    assert numbers(reader) == [1, 2]
    os.truncate(files.series.current, 0)
    assert numbers(reader) == []
    files.number(3)
    assert numbers(reader) == [3]
    assert reader.lost_files == 1


def test_a_clock_that_is_set_back_over_midnight(files: AlertFiles) -> None:
    files.number(1)
    files.now += DAY
    files.number(2)
    reader = files.reader()
    assert numbers(reader) == [1, 2]
    files.now -= DAY
    files.number(3)
    assert numbers(reader) == [3]
    reader = restarted(reader, files)
    files.now += DAY
    files.number(4)
    assert numbers(reader) == [4]


def test_a_line_without_its_end_waits(files: AlertFiles) -> None:
    reader = files.reader()
    whole = msgspec.json.encode(alert(1)) + b"\n"
    with files.series.current.open("ab") as file:
        file.write(whole[:40])
        file.flush()
        assert numbers(reader) == []
        file.write(whole[40:])
    assert numbers(reader) == [1]
    with files.series.current.open("ab") as file:
        file.write(whole[:40])  # cut by a crash
    files.now += DAY
    files.number(2)
    assert numbers(reader) == [2]
    assert reader.skipped == 1


def test_lines_that_are_longer_than_a_chunk(files: AlertFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alert_reader, "CHUNK", 64)
    monkeypatch.setattr(alert_reader, "MAX_LINE", 4096)
    reader = files.reader()
    files.number(1, full_log="x" * 1500)
    files.number(2, full_log="y" * 9000)
    files.number(3)
    assert numbers(reader) == [1, 3]
    assert reader.skipped == 1


@settings(max_examples=40, deadline=None)
@given(steps=st.lists(st.sampled_from(["write", "write", "read", "restart", "day", "compress"]), max_size=40))
def test_any_history(steps: list[str], tmp_path_factory: pytest.TempPathFactory) -> None:
    files = AlertFiles(tmp_path_factory.mktemp("h"), max_bytes=1500)
    reader = files.reader()
    found: list[int] = []
    for step in steps:
        match step:
            case "write":
                files.number(files.written)
            case "read":
                found += [int(Alert(line.data).text("id").partition(".")[2]) for line in reader.read()]
            case "restart":
                reader = restarted(reader, files)
            case "day":
                files.now += DAY
            case "compress":
                files.compress()
    found += numbers(reader)
    assert found == list(range(files.written))
    assert (reader.lost_files, reader.skipped) == (0, 0)
    files.close()
