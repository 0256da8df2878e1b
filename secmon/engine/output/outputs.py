"""The output files of the engine: alerts, archives and firewall events, as text and JSON lines (ruleset.md 9)."""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any

from secmon.common.counters import Counters
from secmon.common.errors import os_text
from secmon.common.logfile.log_series import LogSeries, alert_series
from secmon.common.logfile.rotation import LogRotation, RotationPolicy
from secmon.common.paths import Paths
from secmon.config.main import MainConfig
from secmon.config.options import InternalOptions
from secmon.config.values import seconds
from secmon.engine.engine import Verdict
from secmon.engine.event import Event
from secmon.engine.output.describe import describe
from secmon.engine.output.document import Documents, Labels, encode
from secmon.engine.output.output_file import OutputFile
from secmon.engine.output.responses import ResponseJournal
from secmon.engine.output.text_records import KEEPALIVE, alert_record, archive_line, custom_record, firewall_line

log = logging.getLogger("secmon.analysisd")

Record = tuple[OutputFile, bytes]

_UNITS = {"B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@dataclass(frozen=True, kw_only=True)
class OutputSettings:
    """The files that are written, and their rotation within a day; 0: never."""

    alerts_text: bool = True
    alerts_json: bool = True
    archives_text: bool = False
    archives_json: bool = False
    firewall: bool = True
    rotate_seconds: int = 0
    max_bytes: int = 0
    custom: str = ""
    """Format of alerts.log instead of the usual one."""

    @classmethod
    def of(cls, config: MainConfig, options: InternalOptions) -> "OutputSettings":
        """The ``global`` section. Intervals and sizes that are too small are raised to the smallest allowed."""
        interval = seconds(config.text("global", "rotate_interval")) or 0
        size = read_size(config.text("global", "max_output_size"))
        return cls(
            alerts_text=config.flag("global", "alerts_log", default=True),
            alerts_json=config.flag("global", "jsonout_output", default=True),
            archives_text=config.flag("global", "logall", default=False),
            archives_json=config.flag("global", "logall_json", default=False),
            firewall=bool(options.get("analysisd.log_fw")),
            rotate_seconds=max(interval, options.get("analysisd.min_rotate_interval")) if interval else 0,
            max_bytes=max(size, 1_000_000) if size else 0,
            custom=config.text("global", "custom_alert_output"),
        )

    @property
    def policy(self) -> RotationPolicy:
        """When a file is closed within its day."""
        return RotationPolicy(max_bytes=self.max_bytes, interval_seconds=self.rotate_seconds, live_is_part=True)


def read_size(text: str) -> int:
    """Bytes of a size with a suffix B, K, M or G; 0 for any other text."""
    number, unit = (text[:-1], text[-1].upper()) if text[-1:].isalpha() else (text, "B")
    return int(number) * _UNITS.get(unit, 0) if number.isascii() and number.isdecimal() else 0


def output_series(paths: Paths) -> dict[str, LogSeries]:
    """The series of each output by its setting."""
    alerts, archives, firewall = paths.logs / "alerts", paths.logs / "archives", paths.logs / "firewall"
    return {
        "alerts_text": LogSeries(alerts / "alerts.log", alerts, "ossec-alerts-", ".log", "-", 3),
        "alerts_json": alert_series(paths),
        "archives_text": LogSeries(archives / "archives.log", archives, "ossec-archive-", ".log", "-", 3),
        "archives_json": LogSeries(archives / "archives.json", archives, "ossec-archive-", ".json", "-", 3),
        "firewall": LogSeries(firewall / "firewall.log", firewall, "ossec-firewall-", ".log", "-", 3),
    }


def output_rotations(paths: Paths, options: InternalOptions) -> list[LogRotation]:
    """Rotations that compress and checksum the files of past days."""
    policy = RotationPolicy(
        compress=bool(options.get("monitord.compress")),
        checksums_from=paths.root if options.get("monitord.sign") else None,
        live_is_part=True,
    )
    return [LogRotation(series, policy) for series in output_series(paths).values()]


def tidy_outputs(rotations: Iterable[LogRotation], today: date) -> bool:
    """Checksum and compress the files before ``today``; False when some of it failed, which is logged. Blocks."""
    done = True
    for rotation in rotations:
        try:
            rotation.tidy(today)
        except OSError as error:
            done = False
            log.error("Files of past days below %s are not compressed: %s", rotation.series.archive, os_text(error))
    return done


class Outputs:
    """Collects the records of a batch of events; :meth:`flush` writes them. For one thread.

    A batch begins with :meth:`rotate_due`, when everything is flushed.
    """

    def __init__(
        self,
        paths: Paths,
        settings: OutputSettings,
        documents: Documents,
        counters: Counters,
        responses: ResponseJournal | None = None,
    ) -> None:
        """``responses``: for alerts that are to be answered; None: there are no such ones."""
        self._settings = settings
        self._responses = responses
        self._documents = documents
        self._counters = counters
        self.cut_records: dict[str, int] = {}
        """Files that ended in a cut record when they were opened, with the size that they had."""
        files = {
            name: OutputFile(series, settings.policy, ending=self._ending(name), on_cut=self._cut)
            for name, series in output_series(paths).items()
            if getattr(settings, name)
        }
        self._files: Mapping[str, OutputFile] = files
        self._alerts_text, self._alerts_json = files.get("alerts_text"), files.get("alerts_json")
        self._archives_text, self._archives_json = files.get("archives_text"), files.get("archives_json")
        self._firewall = files.get("firewall")
        self._numbering = self._alerts_text or self._alerts_json

    @property
    def archives(self) -> bool:
        """Whether events without alerts are written too."""
        return self._archives_text is not None or self._archives_json is not None

    @property
    def waiting(self) -> int:
        """Bytes not written yet."""
        return sum(file.waiting for file in self._files.values())

    def rotate_due(self, now: datetime) -> None:
        """Open or rotate files that are due at ``now``, local time. Raises OSError; then call it again."""
        for file in self._files.values():
            file.rotate_due(now)

    def write(self, verdict: Verdict, labels: Labels | None = None, *, archive: bool = True) -> None:
        """Collect the records of ``verdict``. ``archive``: its event goes to the archives if there are any."""
        answered = self._responses is not None and self._answered(verdict)
        if not verdict.alert and not (self.archives and archive) and not answered:
            return
        number = self._number(verdict.event)
        if answered:
            self._answer(verdict, number, labels)
        archived = archive and self.archives and not verdict.event.location.endswith(KEEPALIVE)
        records = self._alert(verdict, number, labels) if verdict.alert else []
        records += self._archive(verdict, number, labels) if archived else []
        for file, record in records:  # after all of them are made: an event is written whole or not at all
            file.add(record)
        if verdict.alert:
            assert verdict.rule is not None, "alerts name their rule"
            self._counters.add("written.alerts")
            self._counters.add(f"written.alerts_of_level.{verdict.rule.level}")
        if archived:
            self._counters.add("written.archives")

    def firewall(self, event: Event) -> None:
        """Collect the line of a complete firewall event."""
        if self._firewall is not None:
            self._firewall.add(firewall_line(event))
            self._counters.add("written.firewall")

    def flush(self) -> None:
        """Write all collected records. Raises OSError; what is not written stays collected."""
        for file in self._files.values():
            file.flush()
        if self._responses is not None:
            self._responses.flush()

    def forget(self) -> None:
        """Another ruleset is live."""
        if self._responses is not None:
            self._responses.forget()

    def sizes(self) -> dict[str, int]:
        """Size of each file of the day by path, when everything is flushed."""
        return {str(file.path): file.end for file in self._files.values()}

    def counters(self) -> Mapping[str, Any]:
        """Of the journal of responses, where there is one."""
        return self._responses.counters() if self._responses is not None else {}

    def close(self) -> None:
        for file in self._files.values():
            file.close()
        if self._responses is not None:
            self._responses.close()

    def _answered(self, verdict: Verdict) -> bool:
        return (
            verdict.answered and verdict.rule is not None and bool(self._responses and self._responses.of(verdict.rule))
        )

    def _answer(self, verdict: Verdict, number: str, labels: Labels | None) -> None:
        assert self._responses is not None, "there are responses"
        assert verdict.rule is not None, "responses are to rules"
        self._responses.add(verdict.rule, self._documents.of(verdict, number, labels=labels))

    def _number(self, event: Event) -> str:
        return f"{event.received}.{self._numbering.end if self._numbering else 0}"

    def _alert(self, verdict: Verdict, number: str, labels: Labels | None) -> list[Record]:
        assert verdict.rule is not None, "alerts name their rule"
        description = describe(verdict.rule, verdict.event)
        records: list[Record] = []
        if self._alerts_json is not None:
            made = self._documents.of(verdict, number, labels=labels, description=description)
            records.append((self._alerts_json, encode(made) + b"\n"))
        if self._alerts_text is not None:
            custom = self._settings.custom
            text = (
                custom_record(custom, verdict, number)
                if custom
                else alert_record(verdict, number, labels, description=description)
            )
            records.append((self._alerts_text, text))
        return records

    def _archive(self, verdict: Verdict, number: str, labels: Labels | None) -> list[Record]:
        records: list[Record] = []
        if self._archives_json is not None:
            made = self._documents.of(verdict, number, full_log=True, labels=labels)
            records.append((self._archives_json, encode(made) + b"\n"))
        if self._archives_text is not None:
            records.append((self._archives_text, archive_line(verdict.event)))
        return records

    def _ending(self, name: str) -> bytes:
        return b"\n\n" if name == "alerts_text" and not self._settings.custom else b"\n"

    def _cut(self, path: Path, size: int) -> None:
        self._counters.add("written.torn_records")
        self.cut_records[str(path)] = size
        log.warning("%s ended in a cut record, which stays there on a line of its own", path)
