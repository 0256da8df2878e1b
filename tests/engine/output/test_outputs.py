"""Files of alerts, archives and firewall events: names, links, rotation, a full disk, a torn end."""

import gzip
import hashlib
import json
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from pathlib import Path

import pytest

from secmon.common.counters import Counters
from secmon.common.paths import Paths
from secmon.config.main import parse_main_config
from secmon.config.options import InternalOptions
from secmon.engine.engine import Verdict
from secmon.engine.output.document import Documents, Origin
from secmon.engine.output.outputs import Outputs, OutputSettings, output_rotations, read_size, tidy_outputs
from tests.engine.analysis_kit import whole_lines
from tests.engine.output.test_document import LOG, RULES, VAULT
from tests.engine.rules_kit import START as LOCAL
from tests.engine.rules_kit import Bench, ruleset
from tests.filelimit import file_size_limit


class OutputsHarness:
    """Outputs below a folder."""

    def __init__(self, root: Path, settings: OutputSettings | None = None) -> None:
        self.paths = Paths(root)
        self.counters = Counters()
        self.outputs = Outputs(self.paths, settings or OutputSettings(), Documents(Origin("mgr")), self.counters)
        self.bench = Bench(ruleset(VAULT, RULES))

    def verdict(self, log: str = LOG) -> Verdict:
        return self.bench.run(log)

    def alert(self, now: datetime = LOCAL, count: int = 1) -> None:
        self.outputs.rotate_due(now)
        for _ in range(count):
            self.outputs.write(self.verdict())
        self.outputs.flush()

    def names(self, folder: str = "alerts") -> list[str]:
        base = self.paths.logs / folder
        return sorted(str(path.relative_to(base)) for path in base.rglob("*") if path.is_file())


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[OutputsHarness]:
    made = OutputsHarness(tmp_path)
    yield made
    made.outputs.close()


def lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines()


def test_live_files_are_second_names_of_those_of_the_day(harness: OutputsHarness) -> None:
    harness.alert()
    logs = harness.paths.logs
    assert harness.names() == [
        "2023/Nov/ossec-alerts-14.json",
        "2023/Nov/ossec-alerts-14.log",
        "alerts.json",
        "alerts.log",
    ]
    for ending in ("json", "log"):
        assert (logs / f"alerts/alerts.{ending}").samefile(logs / f"alerts/2023/Nov/ossec-alerts-14.{ending}")
    assert harness.names("firewall") == ["2023/Nov/ossec-firewall-14.log", "firewall.log"]
    assert harness.names("archives") == []
    assert harness.counters.snapshot() == {"written.alerts": 1, "written.alerts_of_level.5": 1}


def test_ids_are_offsets_in_the_text(harness: OutputsHarness) -> None:
    harness.alert(count=3)
    text = (harness.paths.logs / "alerts/alerts.log").read_bytes()
    ids = [json.loads(line)["id"] for line in lines(harness.paths.logs / "alerts/alerts.json")]
    for number in ids:
        second, offset = number.split(".")
        assert second == "1700000000"
        assert text[int(offset) :].startswith(b"** Alert %b:" % number.encode())
    assert len(set(ids)) == 3


def test_a_new_day_has_new_files_and_none_that_are_empty(harness: OutputsHarness) -> None:
    harness.alert()
    harness.alert(LOCAL + timedelta(days=1), count=2)
    assert harness.names()[:4] == [
        "2023/Nov/ossec-alerts-14.json",
        "2023/Nov/ossec-alerts-14.log",
        "2023/Nov/ossec-alerts-15.json",
        "2023/Nov/ossec-alerts-15.log",
    ]
    assert harness.names("firewall") == ["2023/Nov/ossec-firewall-15.log", "firewall.log"]
    live = harness.paths.logs / "alerts/alerts.json"
    assert len(live.read_bytes().splitlines()) == 2
    assert live.samefile(harness.paths.logs / "alerts/2023/Nov/ossec-alerts-15.json")


def test_rotation_by_interval_and_size_continues_after_a_restart(tmp_path: Path) -> None:
    harness = OutputsHarness(tmp_path, OutputSettings(alerts_text=False, firewall=False, rotate_seconds=600))
    for minutes in (0, 5, 10, 15, 20):
        harness.alert(LOCAL + timedelta(minutes=minutes))
    harness.outputs.close()
    folder = "2023/Nov/ossec-alerts-14"
    assert harness.names() == [f"{folder}-001.json", f"{folder}-002.json", f"{folder}.json", "alerts.json"]
    again = OutputsHarness(tmp_path, OutputSettings(alerts_text=False, firewall=False, max_bytes=1000))
    again.alert(LOCAL + timedelta(minutes=30), count=3)
    assert again.names() == [f"{folder}-001.json", f"{folder}-002.json", f"{folder}.json", "alerts.json"]
    again.alert(LOCAL + timedelta(minutes=31))
    assert f"{folder}-003.json" in again.names()
    sizes = [len((tmp_path / "logs/alerts" / name).read_bytes().splitlines()) for name in again.names()[:4]]
    assert sizes == [2, 4, 1, 2]
    again.outputs.close()


def test_removed_files_are_created_again(harness: OutputsHarness) -> None:
    harness.alert()
    live = harness.paths.logs / "alerts/alerts.json"
    live.unlink()
    harness.alert()
    assert len(live.read_bytes().splitlines()) == 2
    live.unlink()
    (harness.paths.logs / "alerts/2023/Nov/ossec-alerts-14.json").unlink()
    harness.alert()
    assert len(live.read_bytes().splitlines()) == 1


def test_archives_hold_every_event_but_keepalives(tmp_path: Path) -> None:
    harness = OutputsHarness(tmp_path, OutputSettings(archives_text=True, archives_json=True))
    harness.outputs.rotate_due(LOCAL)
    harness.outputs.write(harness.bench.run("nothing known", 0, "/var/log/x"))
    harness.outputs.write(harness.bench.run("alive", 0, "[001] (a) any->ossec-keepalive"))
    harness.outputs.write(harness.verdict())
    harness.outputs.flush()
    lines = (tmp_path / "logs/archives/archives.json").read_bytes().splitlines()
    assert [json.loads(line)["full_log"] for line in lines] == ["nothing known", LOG]
    text = (tmp_path / "logs/archives/archives.log").read_text()
    assert text.startswith("2023 Nov 14 22:13:20 mgr->/var/log/x nothing known\n")
    assert len((tmp_path / "logs/alerts/alerts.json").read_bytes().splitlines()) == 1
    harness.outputs.close()


def test_a_full_disk_loses_nothing(harness: OutputsHarness) -> None:
    harness.alert()
    live = harness.paths.logs / "alerts/alerts.json"
    room = live.stat().st_size + 100
    harness.outputs.rotate_due(LOCAL)
    for _ in range(5):
        harness.outputs.write(harness.verdict())
    with file_size_limit(room):
        for _ in range(2):
            with pytest.raises(OSError):
                harness.outputs.flush()
    assert harness.outputs.waiting
    harness.outputs.flush()
    assert not harness.outputs.waiting
    fired = [json.loads(line)["rule"]["firedtimes"] for line in lines(live)]
    assert fired == [1, 2, 3, 4, 5, 6]
    assert (harness.paths.logs / "alerts/alerts.log").read_bytes().count(b"** Alert") == 6


@pytest.mark.parametrize("cut", ["third", "line end", "one byte"])
def test_a_torn_record_is_a_record_of_its_own(harness: OutputsHarness, cut: str) -> None:
    """Nothing is taken back: who follows the file has read it. What comes next begins on its own line."""
    harness.alert(count=2)
    harness.outputs.close()
    logs = harness.paths.logs / "alerts"
    sizes = {}
    for name, ending in (("alerts.json", b"\n"), ("alerts.log", b"\n\n")):
        whole = (logs / name).read_bytes()
        record = whole[: whole.index(ending) + len(ending)]
        torn = {"third": record[: len(record) // 3], "line end": record[:-1], "one byte": record[:1]}[cut]
        with (logs / name).open("ab") as file:
            file.write(torn)
        sizes[name] = len(whole) + len(torn)
    again = OutputsHarness(harness.paths.root)
    again.alert(count=2)
    for name, size in sizes.items():
        assert (logs / name).stat().st_size > size
    text, objects = (logs / "alerts.log").read_bytes(), (logs / "alerts.json").read_bytes()
    assert len(whole_lines(objects)) == 4 + (cut == "line end")
    assert [line for line in objects.split(b"\n")[-3:-1] if not line.startswith(b'{"timestamp"')] == []
    records = [record for record in text.split(b"\n\n") if record.startswith(b"** Alert") and record.count(b"\n") > 3]
    assert len(records) == 4 + (cut == "line end")
    assert all(record.count(b"** Alert") == 1 for record in records)
    for one in whole_lines(objects)[-2:]:
        assert text[int(one["id"].split(".")[1]) :].startswith(b"** Alert " + one["id"].encode())
    assert again.counters.snapshot()["written.torn_records"] == 2
    again.outputs.close()


def test_a_record_that_a_full_disk_tore_before_the_end_is_ended_by_the_next_process(harness: OutputsHarness) -> None:
    harness.alert()
    live = harness.paths.logs / "alerts/alerts.json"
    harness.outputs.rotate_due(LOCAL)
    harness.outputs.write(harness.verdict())
    with file_size_limit(live.stat().st_size + 50), pytest.raises(OSError):
        harness.outputs.flush()
    harness.outputs.close()
    again = OutputsHarness(harness.paths.root)
    with file_size_limit(live.stat().st_size), pytest.raises(OSError):
        again.outputs.rotate_due(LOCAL)
    again.alert()
    assert [len(lines(live)), len(whole_lines(live.read_bytes()))] == [3, 2]
    again.outputs.close()


def test_old_days_are_signed_and_compressed(harness: OutputsHarness, tmp_path: Path) -> None:
    for day in range(3):
        harness.alert(LOCAL + timedelta(days=day))
    rotations = output_rotations(harness.paths, InternalOptions.defaults())
    first = tmp_path / "logs/alerts/2023/Nov/ossec-alerts-14.json"
    content = first.read_bytes()
    today = date(2023, 11, 16)
    assert tidy_outputs(rotations, today)
    folder = "2023/Nov/ossec-alerts-"
    expected = [f"{folder}{day}.{kind}{end}" for day in (14, 15) for kind in ("json", "log") for end in (".gz", ".sum")]
    expected += [f"{folder}16.json", f"{folder}16.log", "alerts.json", "alerts.log"]
    assert harness.names() == sorted(expected)
    assert gzip.decompress(first.with_name(first.name + ".gz").read_bytes()) == content
    one = first.with_name("ossec-alerts-14.json.sum").read_text().splitlines()
    assert one[3] == f"SHA256 (logs/alerts/{folder}14.json) = {hashlib.sha256(content).hexdigest()}"
    assert one[4:] == ["", "Chained checksum:"]
    chained = first.with_name("ossec-alerts-15.json.sum").read_text().splitlines()[-1]
    previous = first.with_name("ossec-alerts-14.json.sum").read_bytes()
    assert chained == f"SHA256 (logs/alerts/{folder}14.json.sum) = {hashlib.sha256(previous).hexdigest()}"
    before = harness.names()
    assert tidy_outputs(rotations, today)
    assert harness.names() == before


def test_settings() -> None:
    config = parse_main_config(
        "<ossec_config><global><logall>yes</logall><alerts_log>no</alerts_log><rotate_interval>5m</rotate_interval>"
        "<max_output_size>2M</max_output_size></global></ossec_config>"
    )
    made = OutputSettings.of(config, InternalOptions.defaults())
    assert made == OutputSettings(alerts_text=False, archives_text=True, rotate_seconds=600, max_bytes=2 << 20)
    assert [read_size(text) for text in ("", "0", "17", "3K", "1G", "x", "5X")] == [0, 0, 17, 3072, 1 << 30, 0, 0]
