import json
import logging
import os
import re
import stat
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from secmon.common.counters import Counters
from secmon.common.logfile import DaemonLog, cluster_logger, setup_daemon_log
from secmon.common.logfile.daemon_log import level_word, tag_of
from secmon.common.paths import Paths
from tests.filelimit import file_size_limit
from tests.localtime import zone
from tests.manual_clock import ManualClock


@pytest.fixture
def paths(tmp_path: Path) -> Iterator[Paths]:
    (tmp_path / "logs").mkdir()
    with zone("Europe/Madrid"):
        yield Paths(tmp_path)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(datetime(2026, 2, 3, 8, 15, 42, tzinfo=UTC))


@pytest.fixture
def daemon_log(paths: Paths, clock: ManualClock) -> Iterator[DaemonLog]:
    log = setup_daemon_log(paths, "secmon-clusterd", "debug", ("plain", "json"), clock=clock, node="worker-1")
    yield log
    log.close()


def read(paths: Paths, name: str = "ossec.log") -> str:
    return (paths.logs / name).read_text()


def test_plain_and_json_lines_in_local_time(paths: Paths, daemon_log: DaemonLog) -> None:
    logging.getLogger("secmon.clusterd.link").info("Connected to %s", "master")
    assert read(paths) == "2026/02/03 09:15:42 secmon-clusterd:link: INFO: Connected to master\n"
    assert json.loads(read(paths, "ossec.json")) == {
        "timestamp": "2026/02/03 09:15:42",
        "tag": "secmon-clusterd:link",
        "level": "info",
        "description": "Connected to master",
    }


def test_text_without_utf8_form(paths: Paths, daemon_log: DaemonLog) -> None:
    record = logging.makeLogRecord({"name": "secmon.apid", "levelno": logging.INFO, "msg": "name \udcff"})
    for handler in daemon_log.handlers:  # ours only: what others do with such a text is not tested here
        handler.handle(record)
    assert read(paths).endswith(r"INFO: name \udcff" + "\n")
    assert json.loads(read(paths, "ossec.json"))["description"] == r"name \udcff"


def test_mode_is_independent_of_the_umask(paths: Paths, daemon_log: DaemonLog) -> None:
    before = os.umask(0o077)
    try:
        logging.getLogger("secmon.apid").warning("x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((paths.logs / "ossec.log").stat().st_mode) == 0o660


def test_traceback_stays_with_its_entry_and_cannot_forge_one(paths: Paths, daemon_log: DaemonLog) -> None:
    try:
        raise ValueError("bad\n2026/01/01 00:00:00 secmon: ERROR: forged\r")
    except ValueError:
        logging.getLogger("secmon.apid").exception("Failed")
    first, *rest = read(paths).splitlines()
    assert first == "2026/02/03 09:15:42 secmon-apid: ERROR: Failed"
    assert rest[0] == "    Traceback (most recent call last):"
    assert all(line.startswith("    ") for line in rest)
    assert rest[-1] == r"    2026/01/01 00:00:00 secmon: ERROR: forged\r"


def test_debug2_shows_where(paths: Paths, clock: ManualClock) -> None:
    log = setup_daemon_log(paths, "secmon-apid", "debug2", ("plain", "json"), clock=clock)
    logging.getLogger("secmon.apid").debug("x")
    log.close()
    where = rf"secmon-apid\[{os.getpid()}\] test_daemon_log.py:\d+ at test_debug2_shows_where\(\): DEBUG: x"
    assert re.fullmatch(rf"2026/02/03 09:15:42 {where}\n", read(paths))
    assert json.loads(read(paths, "ossec.json"))["routine"] == "test_debug2_shows_where"


def test_levels(paths: Paths, daemon_log: DaemonLog) -> None:
    daemon_log.set_level("warning")
    logging.getLogger("secmon.apid").info("quiet")
    logging.getLogger("thirdparty.pool").warning("heard")
    assert read(paths) == "2026/02/03 09:15:42 secmon-clusterd:thirdparty: WARNING: heard\n"
    daemon_log.set_level("debug")
    logging.getLogger("thirdparty.pool").info("never")
    logging.getLogger("secmon.apid").debug("heard")
    assert read(paths).splitlines()[1:] == ["2026/02/03 09:15:42 secmon-apid: DEBUG: heard"]
    assert [level_word(number) for number in (5, 25, 60)] == ["DEBUG", "INFO", "CRITICAL"]


def test_close_takes_everything_back(paths: Paths, clock: ManualClock) -> None:
    before = list(logging.getLogger().handlers), logging.getLogger().level, logging.getLogger("secmon").level
    setup_daemon_log(paths, "secmon-apid", clock=clock).close()
    assert before == (
        list(logging.getLogger().handlers),
        logging.getLogger().level,
        logging.getLogger("secmon").level,
    )


@pytest.mark.parametrize(
    ("logger", "tag"),
    [
        ("secmon.clusterd.link", "secmon-clusterd:link"),
        ("secmon.clusterd", "secmon-clusterd"),
        ("secmon.master.replication.publisher", "secmon-clusterd:publisher"),
        ("secmon.api", "secmon-apid"),
        ("secmon.common.sqlite.engine", "secmon-apid:engine"),
        ("secmon", "secmon-apid"),
        ("root", "secmon-apid"),
        ("uvicorn.error", "secmon-apid:uvicorn"),
    ],
)
def test_tags(logger: str, tag: str) -> None:
    assert tag_of(logger, "secmon-apid") == tag


def test_cluster_log_has_the_cluster_s_entries_only(paths: Paths, daemon_log: DaemonLog) -> None:
    logging.getLogger("secmon.apid").info("not here")
    logging.getLogger("secmon.worker.master_link").info("Starting")
    logging.getLogger("secmon.master").error("a\nb")
    logger = cluster_logger(logging.getLogger("secmon.clusterd"), "Local Server", "D API")
    logger.warning("odd")
    assert read(paths, "cluster.log").splitlines() == [
        "2026/02/03 09:15:42 INFO: [Worker worker-1] [Main] Starting",
        "2026/02/03 09:15:42 ERROR: [Master] [Main] a",
        "    b",
        "2026/02/03 09:15:42 WARNING: [Local Server] [D API] odd",
    ]


def test_arguments_that_do_not_fit_lose_no_entry(paths: Paths, daemon_log: DaemonLog) -> None:
    logger = logging.getLogger("secmon.apid")
    record = logger.makeRecord(logger.name, logging.INFO, "x.py", 1, "%d items", ("seven",), None)
    for handler in daemon_log.handlers:  # not by the logger: the test runner's own handler is strict
        handler.handle(record)
    assert read(paths).endswith("INFO: %d items (arguments do not fit: TypeError)\n")


def test_unwritable_file_is_counted_and_reported_rarely(
    tmp_path: Path, clock: ManualClock, capsys: pytest.CaptureFixture[str]
) -> None:
    counters = Counters()
    paths = Paths(tmp_path)  # without a logs folder
    log = setup_daemon_log(paths, "secmon-apid", clock=clock, counters=counters)
    try:
        logger = logging.getLogger("secmon.apid")
        for _ in range(3):
            logger.error("lost")
        assert counters.snapshot()["log.write_errors"] == 3
        assert capsys.readouterr().err.count("\n") == 1
        clock.advance(61)
        logger.error("lost")
        assert "(3 since the last report)" in capsys.readouterr().err
        paths.logs.mkdir()
        logger.error("kept")
    finally:
        log.close()
    assert read(paths).endswith("secmon-apid: ERROR: kept\n")


def test_full_disk_does_not_raise(clock: ManualClock, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = Paths(tmp_path)
    paths.logs.mkdir()
    counters = Counters()
    log = setup_daemon_log(paths, "secmon-apid", clock=clock, counters=counters)
    with file_size_limit(0):
        logging.getLogger("secmon.apid").error("lost")
    log.close()
    assert counters.snapshot()["log.write_errors"] == 1
    assert "File too large" in capsys.readouterr().err


@pytest.mark.parametrize("plant", [os.mkfifo, lambda path: path.symlink_to(path.with_name("other"))])
def test_only_files_are_written_to(
    plant: Callable[[Path], None], clock: ManualClock, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = Paths(tmp_path)
    paths.logs.mkdir()
    (paths.logs / "other").touch()
    plant(paths.logs / "ossec.log")
    counters = Counters()
    log = setup_daemon_log(paths, "secmon-apid", clock=clock, counters=counters)
    logging.getLogger("secmon.apid").error("lost")
    log.close()
    assert counters.snapshot()["log.write_errors"] == 1
    assert (paths.logs / "other").read_text() == ""
    assert "ossec.log" in capsys.readouterr().err
