"""Which alerts are answered, and the journal of them."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from secmon.common.clock import SystemClock
from secmon.common.counters import Counters
from secmon.config.main import parse_main_config
from secmon.config.responses import read_responses
from secmon.engine.output.responses import AnsweredAlert, ResponseJournal
from secmon.engine.rules.rule import Rule
from secmon.journal.journal import JournalReader, JournalWriter

COMMAND = (
    "<command><name>drop</name><executable>drop</executable><timeout_allowed>yes</timeout_allowed>"
    "<extra_args>-a  b</extra_args></command>"
)


def rule(number: int, level: int, *, groups: bytes = b"syslog,sshd,", active_response: bool = True) -> Rule:
    return Rule(number, level, "x.xml", 1, groups=groups, active_response=active_response)


class Node:
    """A journal of responses, and what its reader finds."""

    def __init__(self, folder: Path, conditions: str, *, limit: int = 1 << 20) -> None:
        xml = (
            f"<ossec_config>{COMMAND}<active-response><command>drop</command><location>local</location>"
            f"<timeout>60</timeout>{conditions}</active-response></ossec_config>"
        )
        self.counters = Counters()
        self.folder = folder
        writer = JournalWriter(folder, SystemClock(), limit=limit, segment=limit // 8)
        self.journal = ResponseJournal(writer, read_responses(parse_main_config(xml)), self.counters)

    def found(self) -> list[AnsweredAlert]:
        reader = JournalReader(self.folder, "test")
        events = [event for block in reader.read() for event in block.events]
        reader.close()
        return [msgspec.json.decode(one, type=AnsweredAlert) for one in events]


@pytest.mark.parametrize(
    ("conditions", "answered"),
    [
        ("<level>7</level>", [7, 10]),
        ("<rules_id>5, 10</rules_id>", [5, 10]),
        ("<rules_group>web|sshd</rules_group>", [5, 7]),
        ("<rules_group>web,pam</rules_group>", [10]),
        ("<level>10</level><rules_id>5</rules_id>", [5, 10]),
        ("", []),
    ],
)
def test_any_condition_suffices(tmp_path: Path, conditions: str, answered: list[int]) -> None:
    rules = [rule(5, 5), rule(7, 7), rule(10, 10, groups=b"pam,")]
    journal = Node(tmp_path, conditions).journal
    assert [one.id for one in rules if journal.of(one)] == answered
    assert not journal.of(rule(5, 0))
    assert not journal.of(rule(10, 12, active_response=False)), "no_ar"
    journal.close()


def test_the_journal_has_the_alert_and_what_answers_it(tmp_path: Path) -> None:
    node = Node(tmp_path, "<level>3</level>")
    alert: dict[str, Any] = {"id": "1.2", "data": {"srcip": "192.0.2.1"}}
    node.journal.add(rule(5, 5), alert)
    node.journal.flush()
    (one,) = node.found()
    assert one.alert == alert
    (response,) = one.responses
    assert (response.name, response.location, response.timeout) == ("drop60", "local", 60)
    assert response.command.arguments == ("-a", "b")
    node.journal.close()


def test_a_long_alert_loses_its_logs(tmp_path: Path) -> None:
    node = Node(tmp_path, "<level>3</level>")
    node.journal.add(rule(5, 5), {"id": "1.2", "full_log": "x" * 60_000, "previous_output": "y" * 60_000})
    node.journal.add(rule(5, 5), {"id": "1.3", "full_log": "x", "data": {"a": "z" * 70_000}})
    node.journal.flush()
    assert [sorted(one.alert) for one in node.found()] == [["full_log", "id"]]
    assert node.counters.snapshot()["responses.too_long"] == 1
    node.journal.close()


def test_a_reader_that_is_behind_does_not_stop_the_analysis(tmp_path: Path) -> None:
    node = Node(tmp_path, "<level>3</level>", limit=1 << 16)
    JournalReader(tmp_path, "test").close()
    for number in range(200):
        node.journal.add(rule(5, 5), {"id": str(number), "full_log": "x" * 1000})
        node.journal.flush()
    counted = node.counters.snapshot()
    assert counted["responses.queued"] + counted["responses.dropped"] == 200
    assert [one.alert["id"] for one in node.found()] == [str(one) for one in range(int(counted["responses.queued"]))]
    node.journal.close()
