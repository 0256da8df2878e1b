import gzip
import json
import logging
import os
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secmon.common.clock import iso_z
from secmon.common.errors import SecmonError
from secmon.common.logfile import setup_daemon_log
from secmon.common.logfile.backward import MAX_LINE
from secmon.common.logfile.daemon_log import level_word
from secmon.common.logfile.log_series import daemon_series
from secmon.common.logfile.reader import Limits, LogEntry, read_logs, summary
from secmon.common.logfile.rotation import compress_parts, rotate_day, rotate_size
from secmon.common.logfile.text import INDENT, escape
from secmon.common.paths import Paths
from tests.localtime import zone
from tests.manual_clock import ManualClock


@pytest.fixture
def paths(tmp_path: Path) -> Iterator[Paths]:
    (tmp_path / "logs").mkdir()
    with zone("Europe/Madrid"):
        yield Paths(tmp_path)


def write(paths: Paths, *lines: str | bytes, name: str = "ossec.log", mtime: datetime | None = None) -> None:
    path = paths.logs / name
    path.parent.mkdir(parents=True, exist_ok=True)
    data = b"".join((line.encode() if isinstance(line, str) else line) + b"\n" for line in lines)
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    if mtime:
        os.utime(path, (mtime.timestamp(), mtime.timestamp()))


def descriptions(entries: list[LogEntry]) -> list[str]:
    return [entry["description"] for entry in entries]


def line(second: int, text: str, level: str = "INFO", tag: str = "secmon-apid", day: str = "2026/02/03") -> str:
    return f"{day} 09:15:{second:02d} {tag}: {level}: {text}"


def test_one_entry(paths: Paths) -> None:
    write(paths, "2026/02/03 09:15:42 secmon-modulesd:syscollector: WARNING: text")
    assert read_logs(paths) == [
        {
            "timestamp": "2026-02-03T08:15:42Z",
            "tag": "secmon-modulesd:syscollector",
            "level": "warning",
            "description": " text",
        }
    ]


def test_newest_first_and_equal_stamps_in_file_order(paths: Paths) -> None:
    write(paths, line(1, "a"), line(2, "b"), line(2, "c"), line(1, "late"), line(3, "d"))
    assert descriptions(read_logs(paths)) == [" d", " b", " c", " a", " late"]


def test_debug_form_and_tag_correction(paths: Paths) -> None:
    write(
        paths,
        "2026/02/03 09:15:42 secmon-apid[12] server.py:33 at main(): DEBUG: x: INFO: y",
        "2026/02/03 09:15:43 secmon-syscheckd:rootcheck: INFO: z",
    )
    assert [(entry["tag"], entry["level"], entry["description"]) for entry in read_logs(paths)] == [
        ("secmon-rootcheck", "info", " z"),
        ("secmon-apid", "debug", " x: INFO: y"),
    ]


def test_multi_line_entries(paths: Paths) -> None:
    write(paths, "an orphan", line(1, "a"), "    b", "      c", "foreign", "", line(2, "d"))
    assert descriptions(read_logs(paths)) == [" d", " a\nb\n  c\nforeign\n"]


def test_a_record_that_is_being_written_is_not_shown(paths: Paths) -> None:
    for unfinished in ("2026/02/03 09:15:02 ", line(2, "half a te")):
        (paths.logs / "ossec.log").write_text(f"{line(1, 'a')}\n{unfinished}")
        assert descriptions(read_logs(paths)) == [" a"]
    (paths.logs / "ossec.log").write_text(line(1, "a"))
    assert read_logs(paths) == []


def test_filters(paths: Paths) -> None:
    write(paths, line(1, "a", "ERROR"), line(2, "b"), line(3, "c", "ERROR", "secmon-remoted"))
    assert descriptions(read_logs(paths, level="error")) == [" c", " a"]
    assert descriptions(read_logs(paths, tag="Secmon-APID")) == [" b", " a"]
    assert descriptions(read_logs(paths, tag="secmon-apid", level="error")) == [" a"]
    assert read_logs(paths, level="debug2") == read_logs(paths, tag="secmon") == []


def test_a_log_that_was_removed_has_no_entries(paths: Paths) -> None:
    assert read_logs(paths) == []
    assert summary(paths) == []


def test_no_folder_of_logs(paths: Paths) -> None:
    paths.logs.rmdir()
    for reading in (read_logs, summary):
        with pytest.raises(SecmonError) as raised:
            reading(paths)
        assert raised.value.code == 1020


def test_json_only_when_there_is_no_plain_log(paths: Paths) -> None:
    entry = {"timestamp": "2026/02/03 09:15:42", "tag": "secmon-apid", "level": "info", "description": "a\nb"}
    broken: list[str | bytes] = ['{"timestamp"', "[]", '{"timestamp": "x", "tag": "", "level": "info"}', b"\xff\x00"]
    other = [json.dumps(entry | change) for change in ({"level": "loud"}, {"timestamp": "2026/02/30 00:00:00"})]
    write(paths, json.dumps(entry), *broken, *other, name="ossec.json")
    assert read_logs(paths) == [entry | {"timestamp": "2026-02-03T08:15:42Z"}]
    write(paths, line(1, "plain"))
    assert descriptions(read_logs(paths)) == [" plain"]


def test_closed_parts_are_read_on(paths: Paths) -> None:
    write(paths, line(1, "one"), name="secmon/2026/Feb/ossec-01.log.gz")
    write(paths, line(2, "two"), name="secmon/2026/Feb/ossec-02-001.log.gz")
    write(paths, line(3, "three"), name="secmon/2026/Feb/ossec-02.log")
    write(paths, line(4, "four"))
    assert descriptions(read_logs(paths)) == [" four", " three", " two", " one"]
    assert descriptions(read_logs(paths, limits=Limits(entries=2))) == [" four", " three"]
    (paths.logs / "ossec.log").unlink()  # the moment after a rotation
    assert descriptions(read_logs(paths)) == [" three", " two", " one"]


def test_limits_cut_the_oldest(paths: Paths) -> None:
    lines = [line(number % 60, f"{number:06d}", day="2026/02/03") for number in range(60)]
    write(paths, *lines, name="secmon/2026/Feb/ossec-02.log.gz")
    write(paths, *lines)
    length = len(lines[0]) + 1
    assert len(read_logs(paths)) == 120
    assert len(read_logs(paths, limits=Limits(text_bytes=90 * length + 5))) == 90
    assert len(read_logs(paths, limits=Limits(lines=70))) == 70
    assert len(read_logs(paths, limits=Limits(inflated_bytes=10))) == 60


def test_damaged_part_costs_only_itself(paths: Paths) -> None:
    write(paths, line(1, "one"), name="secmon/2026/Feb/ossec-01.log.gz")
    write(paths, *[line(2, str(number) * 50) for number in range(500)], name="secmon/2026/Feb/ossec-02.log.gz")
    damaged = paths.logs / "secmon/2026/Feb/ossec-02.log.gz"
    damaged.write_bytes(damaged.read_bytes()[:-20])
    (paths.logs / "secmon/2026/Feb/ossec-03.log.gz").write_bytes(b"no gzip at all")
    write(paths, line(4, "four"))
    found = descriptions(read_logs(paths))
    assert found[0] == " four"
    assert found[-1] == " one"


def test_hostile_content(paths: Paths) -> None:
    write(
        paths,
        line(1, "before"),
        b"\x00\xff\xfe" * 1000,
        b"x" * (3 * MAX_LINE),
        line(2, "y" * (3 * MAX_LINE)),
        *[b""] * 1000,
        b"2026/13/45 99:99:99 secmon: INFO: no date",
        b"9999/12/31 23:59:59 secmon: INFO: at the end of time",
        b"0001/01/01 00:00:00 secmon: INFO: at its beginning",
        line(3, "after\x00"),
        b"2026/02/03 09:15:04 " + b"t" * 300 + b": INFO: too long a tag",
    )
    entries = {entry["timestamp"]: entry["description"] for entry in read_logs(paths)}
    assert entries["2026-02-03T08:15:03Z"].startswith(" after\x00\n2026/02/03 09:15:04 ttt")
    assert entries["2026-02-03T08:15:02Z"].startswith(" yyy")
    assert entries["2026-02-03T08:15:01Z"].startswith(" before\n\x00\ufffd")
    assert all(len(text) <= 2 * MAX_LINE + 2 for text in entries.values())


def test_memory_is_bounded(paths: Paths) -> None:
    with open(paths.logs / "ossec.log", "wb") as file:
        file.write(line(1, "first").encode())
        file.seek(200 << 20)  # a line of 200 MiB of NULs
        file.write(b"\n")
    tracemalloc.start()
    try:
        assert len(read_logs(paths, limits=Limits(text_bytes=300 << 20))) == 1
        assert tracemalloc.get_traced_memory()[1] < 8 * MAX_LINE
    finally:
        tracemalloc.stop()


def test_the_repeated_hour(paths: Paths) -> None:
    """On 2026-10-25 Madrid's clocks go from 03:00 summer time (UTC+2) back to 02:00 (UTC+1)."""
    clock_texts = ["01:59:00", "02:30:00", "02:50:00", "02:10:00", "02:40:30", "02:40:00", "03:05:00"]
    write(paths, *[f"2026/10/25 {text} secmon-apid: INFO: {number}" for number, text in enumerate(clock_texts)])
    found = {entry["description"]: entry["timestamp"][11:19] for entry in read_logs(paths)}
    expected = ["23:59:00", "00:30:00", "00:50:00", "01:10:00", "01:40:30", "01:40:00", "02:05:00"]
    assert [found[f" {number}"] for number in range(7)] == expected


def test_the_file_s_last_change_decides_in_the_repeated_hour(paths: Paths) -> None:
    write(paths, "2026/10/25 02:30:00 secmon-apid: INFO: x", mtime=datetime(2026, 10, 25, 0, 30, tzinfo=UTC))
    assert read_logs(paths)[0]["timestamp"] == "2026-10-25T00:30:00Z"


def test_the_skipped_hour_is_still_a_time(paths: Paths) -> None:
    write(paths, "2026/03/29 02:30:00 secmon-apid: INFO: x")
    assert read_logs(paths)[0]["timestamp"] == "2026-03-29T01:30:00Z"


def test_summary(paths: Paths) -> None:
    write(paths, line(1, "a", "ERROR", "secmon-remoted"), name="secmon/2026/Feb/ossec-02.log.gz")
    write(paths, line(1, "a"), line(2, "b", "DEBUG"), line(3, "c", "CRITICAL"), line(4, "d"), line(5, "e", "WARNING"))
    zero = {"all": 0, "info": 0, "error": 0, "critical": 0, "warning": 0, "debug": 0}
    assert summary(paths) == [
        {"secmon-apid": {"all": 5, "info": 2, "error": 0, "critical": 1, "warning": 1, "debug": 1}},
        {"secmon-remoted": zero | {"all": 1, "error": 1}},
    ]
    assert summary(paths, limits=Limits(entries=1)) == [{"secmon-apid": zero | {"all": 1, "warning": 1}}]


messages = st.lists(
    st.tuples(
        st.sampled_from(["secmon.apid", "secmon.clusterd.link", "secmon.remoted"]),
        st.sampled_from([logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL]),
        st.one_of(st.text(max_size=200), st.from_regex(r"(\d{4}/\d\d/\d\d \d\d:\d\d:\d\d [a-z]+: INFO: .*\n)+")),
        st.integers(0, 3 * 86400),
    ),
    max_size=25,
)


@settings(max_examples=100)
@given(messages=messages, form=st.sampled_from(["plain", "json"]), rotations=st.sets(st.integers(0, 25), max_size=5))
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory,
    messages: list[tuple[str, int, str, int]],
    form: str,
    rotations: set[int],
) -> None:
    paths = Paths(tmp_path_factory.mktemp("node"))
    paths.logs.mkdir()
    clock = ManualClock(datetime(2026, 10, 24, 20, tzinfo=UTC))
    series = daemon_series(paths)[form == "json"]
    expected: list[LogEntry] = []
    with zone("Europe/Madrid"):
        log = setup_daemon_log(paths, "secmon-apid", "debug", (form,), clock=clock)
        logging.getLogger("secmon.apid").info("first")
        expected.append(entry_of(clock, "secmon.apid", logging.INFO, "first", form))
        for number, (logger, level, text, pause) in enumerate(messages):
            clock.advance(pause)
            logging.getLogger(logger).log(level, "%s", text)
            expected.append(entry_of(clock, logger, level, text, form))
            today = clock.now().astimezone().date()
            if number in rotations:
                rotate_day(series, today) or rotate_size(series, today, 1)
                if number % 2:
                    compress_parts(series)
        log.close()
        expected.sort(key=lambda entry: entry["timestamp"], reverse=True)
        found = read_logs(paths)
    near_fold = [e for e in expected if "2026-10-24T23:59" < e["timestamp"] < "2026-10-25T02:01"]
    if near_fold:  # one entry of the repeated hour may be read as the other instant
        assert sorted(descriptions(found)) == sorted(descriptions(expected))
    else:
        assert found == expected


def entry_of(clock: ManualClock, logger: str, level: int, text: str, form: str) -> LogEntry:
    text = text.rstrip("\n")
    return {
        "timestamp": iso_z(clock.now()),
        "tag": {"secmon.clusterd.link": "secmon-clusterd:link"}.get(logger, logger.replace(".", "-")),
        "level": level_word(level).lower(),
        "description": " " + escape(text) if form == "plain" else text,
    }


def test_reading_while_the_log_rotates(paths: Paths) -> None:
    """Every reading sees each entry at most once and, up to the newest it sees, all of them."""
    code = (
        "import sys\nfrom pathlib import Path\nfrom secmon.common.logfile import AppendFile\n"
        "file = AppendFile(Path(sys.argv[1]))\n"
        "for n in range(20000): file.write(f'2026/02/03 09:15:00 secmon-apid: INFO: {n}\\n'.encode())\n"
    )
    series = daemon_series(paths)[0]
    series.current.touch()
    rounds = 0
    with subprocess.Popen([sys.executable, "-c", code, str(series.current)]) as writer:
        while writer.poll() is None or rounds < 3:
            found = [int(text) for text in descriptions(read_logs(paths))]
            assert found == list(range(len(found)))
            rotate_size(series, date(2026, 2, 3) + timedelta(days=rounds), 40_000)
            if rounds % 3 == 0:
                compress_parts(series)
            rounds += 1
    assert writer.returncode == 0
    assert len(read_logs(paths)) == 20000


def test_indentation_is_taken_off_once(paths: Paths) -> None:
    write(paths, line(1, "a"), f"{INDENT}{INDENT}b")
    assert descriptions(read_logs(paths)) == [f" a\n{INDENT}b"]
