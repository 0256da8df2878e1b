import fcntl
import gzip
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secmon.common.logfile import AppendFile
from secmon.common.logfile.checksums import checksum_path
from secmon.common.logfile.log_series import LogSeries, api_series, cluster_series, daemon_series
from secmon.common.logfile.rotation import (
    LogRotation,
    RotationPolicy,
    compress_parts,
    first_day,
    purge,
    rotate_day,
    rotate_size,
)
from secmon.common.paths import Paths

TODAY = date(2026, 3, 6)


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    (tmp_path / "logs").mkdir()
    return Paths(tmp_path)


@pytest.fixture
def series(paths: Paths) -> LogSeries:
    return daemon_series(paths)[0]


def fill(series: LogSeries, day: str = "2026/03/05", text: str = "x") -> bytes:
    data = f"{day} 10:00:00 secmon-apid: INFO: {text}\n".encode()
    series.current.write_bytes(data)
    return data


@contextmanager
def held(folder: Path) -> Iterator[None]:
    descriptor = os.open(folder, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    yield
    os.close(descriptor)


def test_names(paths: Paths) -> None:
    plain, as_json = daemon_series(paths)
    api, api_json = api_series(paths)
    day = date(2026, 3, 5)
    names = [
        plain.part(day),
        plain.part(day, 7),
        as_json.part(day),
        api.part(day),
        api_json.part(day, 12),
        cluster_series(paths).part(day),
    ]
    assert [str(path.relative_to(paths.logs)) for path in names] == [
        "secmon/2026/Mar/ossec-05.log",
        "secmon/2026/Mar/ossec-05-007.log",
        "secmon/2026/Mar/ossec-05.json",
        "api/2026/Mar/api.log-05",
        "api/2026/Mar/api.json-05_12",
        "cluster/2026/Mar/cluster.log-05",
    ]


def test_day_change(series: LogSeries) -> None:
    data = fill(series)
    assert rotate_day(series, date(2026, 3, 5)) is None
    before = os.umask(0o077)
    try:
        part = rotate_day(series, TODAY)
        assert part == series.archive / "2026/Mar/ossec-05.log"
        assert not series.current.exists()
        (packed,) = compress_parts(series)
    finally:
        os.umask(before)
    assert gzip.decompress(packed.read_bytes()) == data
    assert [path.name for path in packed.parent.iterdir()] == ["ossec-05.log.gz"]
    assert stat.S_IMODE(packed.stat().st_mode) == 0o640
    for folder in (series.archive, packed.parent, packed.parent.parent):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o750
    assert rotate_day(series, TODAY) is None
    assert compress_parts(series) == []


def test_silent_days_belong_to_the_first_entries(series: LogSeries) -> None:
    fill(series, "2025/12/31")
    assert rotate_day(series, TODAY) == series.archive / "2025/Dec/ossec-31.log"


def test_clock_set_back_over_midnight_closes_nothing(series: LogSeries) -> None:
    fill(series, "2026/03/06")
    assert rotate_day(series, date(2026, 3, 5)) is None
    assert rotate_day(series, date(2026, 3, 4)) is not None


def test_existing_parts_are_never_overwritten(series: LogSeries) -> None:
    contents = []
    for number in range(3):
        contents.append(fill(series, text=str(number)))
        assert rotate_day(series, TODAY)
        compress_parts(series)
    assert sorted(gzip.decompress(path.read_bytes()) for _, _, path in series.parts()) == contents


@pytest.mark.parametrize(
    ("content", "day"),
    [
        (b"", None),
        (b"    a traceback's end\n2026/03/05 00:00:00 x\n", date(2026, 3, 5)),
        (b'{"timestamp": "2026/03/05 00:00:00", "tag"', date(2026, 3, 5)),
        (b'{"timestamp":"2026/03/05 00:00:00","tag"', date(2026, 3, 5)),
        (b"2026/02/30 00:00:00 x\n2026/03/05 00:00:00 x\n", date(2026, 3, 5)),
        (b"no date at all\n", date(2026, 1, 1)),
    ],
)
def test_first_day(tmp_path: Path, content: bytes, day: date | None) -> None:
    path = tmp_path / "log"
    assert first_day(path) is None
    path.write_bytes(content)
    os.utime(path, (1767268800, 1767268800))  # 2026-01-01 12:00 UTC
    assert first_day(path) == day


def test_size(series: LogSeries) -> None:
    size = len(fill(series))
    assert rotate_size(series, TODAY, size + 1) is None
    for number in (1, 2):
        fill(series)
        assert rotate_size(series, TODAY, size, per_day=2) == series.part(TODAY, number)
    fill(series)
    assert rotate_size(series, TODAY, size, per_day=2) is None
    assert rotate_size(series, date(2026, 3, 7), size, per_day=2)
    series.current.touch()
    assert rotate_size(series, TODAY, 0) is None


def test_parts_are_in_the_order_they_were_closed(series: LogSeries) -> None:
    folder = series.archive / "2026/Mar"
    folder.mkdir(parents=True)
    names = ["ossec-05-001.log.gz", "ossec-05-002.log", "ossec-05.log.gz", "ossec-06.log.gz"]
    for name in [*reversed(names), "ossec-32.log.gz", "ossec-05.json.gz", ".ossec-05.log.gz.tmp", "notes.txt"]:
        (folder / name).touch()
    assert [path.name for _, _, path in series.parts()] == names


@pytest.mark.parametrize("left", ["only renamed", "half compressed", "not removed"])
def test_an_interrupted_rotation_is_completed(series: LogSeries, left: str) -> None:
    data = fill(series)
    part = rotate_day(series, TODAY)
    assert part
    if left == "half compressed":
        (part.parent / f".{part.name}.gz.tmp").write_bytes(b"\x1f\x8b half")
    elif left == "not removed":
        part.with_name(part.name + ".gz").write_bytes(gzip.compress(data))
    compress_parts(series)
    assert [path.name for path in part.parent.iterdir()] == [f"{part.name}.gz"]
    assert gzip.decompress(part.with_name(part.name + ".gz").read_bytes()) == data


def test_a_part_that_a_writer_holds_is_left_for_later(series: LogSeries) -> None:
    fill(series)
    with open(series.current, "rb") as writer:  # stopped in the middle of a record
        fcntl.flock(writer, fcntl.LOCK_SH)
        assert rotate_day(series, TODAY)
        assert compress_parts(series) == []
    assert len(compress_parts(series)) == 1


def test_one_process_at_a_time(series: LogSeries) -> None:
    fill(series)
    with held(series.current.parent):
        assert rotate_day(series, TODAY, wait_seconds=0) is None
    assert rotate_day(series, TODAY, wait_seconds=0)
    with held(series.archive):
        assert compress_parts(series) == []
    assert len(compress_parts(series)) == 1


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give files away")
def test_root_leaves_everything_to_the_folder_s_owner(series: LogSeries) -> None:
    os.chown(series.current.parent, 12345, 12346)
    file = AppendFile(series.current)
    file.write(b"2026/03/05 10:00:00 secmon: INFO: x\n")
    file.close()
    assert rotate_day(series, TODAY)
    (packed,) = compress_parts(series)
    AppendFile(series.current).write(b"x\n")
    for path in (packed, packed.parent, packed.parent.parent, series.archive, series.current):
        assert (path.stat().st_uid, path.stat().st_gid) == (12345, 12346)


def test_purge(series: LogSeries) -> None:
    for name in ("2026/Jan/ossec-01.log.gz", "2026/Feb/ossec-02.log", "2026/Feb/ossec-03.log.gz", "2026/Jan/notes"):
        path = series.archive / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert purge(series, TODAY, 0) == []
    assert [path.name for path in purge(series, TODAY, 31)] == ["ossec-01.log.gz", "ossec-02.log"]
    assert sorted(str(path.relative_to(series.archive)) for path in series.archive.rglob("*.*")) == [
        "2026/Feb/ossec-03.log.gz"
    ]
    assert (series.archive / "2026/Jan/notes").exists()
    purge(series, date(2027, 1, 1), 31)
    assert not (series.archive / "2026/Feb").exists()


@settings(max_examples=100)
@given(days=st.lists(st.dates(date(2020, 1, 1), date(2030, 1, 1)), max_size=12, unique=True), data=st.data())
def test_parts_read_back_what_part_names(
    tmp_path_factory: pytest.TempPathFactory, days: list[date], data: st.DataObject
) -> None:
    series = LogSeries(Path("log"), tmp_path_factory.mktemp("archive"), "log-")
    numbers = data.draw(st.lists(st.integers(0, 20), min_size=len(days), max_size=len(days)))
    for day, number in zip(days, numbers, strict=True):
        path = series.part(day, number)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert [part[:2] for part in series.parts()] == sorted(zip(days, numbers, strict=True))


def entry(series: LogSeries, day: date, text: str = "x") -> None:
    with series.current.open("a") as file:
        file.write(f"{day:%Y/%m/%d} 10:00:00 INFO: {text}\n")


def noon(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, 12)


def test_one_policy_rotates_by_day_and_by_size(series: LogSeries) -> None:
    fifth, sixth = date(2026, 3, 5), date(2026, 3, 6)
    rotation = LogRotation(series, RotationPolicy(max_bytes=100, per_day=1, day_wait_seconds=10))
    entry(series, fifth)
    assert rotation.rotate(noon(fifth)) is None
    assert rotation.rotate(datetime(2026, 3, 6, 0, 0, 9)) is None, "the day begins ten seconds late"
    assert rotation.rotate(datetime(2026, 3, 6, 0, 0, 10)) == series.part(fifth)
    entry(series, sixth, "y" * 100)
    assert rotation.rotate(noon(sixth)) == series.part(sixth, 1)
    entry(series, sixth, "y" * 100)
    assert rotation.rotate(noon(sixth)) is None, "once a day"
    assert [day for day, _, _ in series.parts()] == [fifth, sixth]


def test_a_file_is_closed_before_an_entry_that_does_not_fit(series: LogSeries) -> None:
    day = date(2026, 3, 5)
    entry(series, day)
    size = series.current.stat().st_size
    rotation = LogRotation(series, RotationPolicy(by_day=False, max_bytes=size + 10))
    assert rotation.rotate(noon(day), addition=10) is None
    assert rotation.rotate(noon(day + timedelta(days=9)), addition=10) is None, "not by day"
    assert rotation.rotate(noon(day), addition=11) == series.part(day, 1)


def test_tidy_deletes_old_parts_although_a_compression_fails(series: LogSeries) -> None:
    old, day = date(2026, 1, 1), date(2026, 3, 5)
    rotation = LogRotation(series, RotationPolicy(keep_days=31))
    for each in (old, day):
        entry(series, each)
        assert rotation.rotate(noon(each + timedelta(days=5)))
    temporary = series.part(day).with_name(f".{series.part(day).name}.gz.tmp")
    temporary.mkdir()
    with pytest.raises(OSError):
        rotation.tidy(day)
    assert [path for _, _, path in series.parts()] == [series.part(day)]
    temporary.rmdir()
    rotation.tidy(day)
    assert [path.suffix for _, _, path in series.parts()] == [".gz"]


def test_parts_of_today_are_left_alone_where_one_is_the_live_file(series: LogSeries, tmp_path: Path) -> None:
    day = date(2026, 3, 5)
    for each in (day - timedelta(days=1), day):
        series.make_folders(series.part(each))
        series.part(each).write_text("x\n")
    rotation = LogRotation(series, RotationPolicy(checksums_from=tmp_path, live_is_part=True))
    rotation.tidy(day)
    yesterday = series.part(day - timedelta(days=1))
    assert [path.name for _, _, path in series.parts()] == [f"{yesterday.name}.gz", series.part(day).name]
    assert checksum_path(yesterday).exists()
    assert not checksum_path(series.part(day)).exists()
