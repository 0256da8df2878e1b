"""The cases on Windows hold for events of agents, too: there values keep the escapes of JSON, and XML its entities."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from xml.sax.saxutils import escape

import pytest

from secmon.engine.ruleset.case_files import LOG_LINE, Case, read_file, run_case
from tests.ruleset.default import default_ruleset

FILES = sorted(Path(__file__).parent.glob("windows*.ini"))
SEVERITIES = {
    "CRITICAL": ("1", "0x0"),
    "ERROR": ("2", "0x0"),
    "WARNING": ("3", "0x0"),
    "INFORMATION": ("4", "0x0"),
    "VERBOSE": ("5", "0x0"),
    "AUDIT_FAILURE": ("0", "0x8010000000000000"),
    "AUDIT_SUCCESS": ("0", "0x8020000000000000"),
}
"""Level and keywords."""
JSON_ONLY = {"230001"}
"""Rules about events that are not of agents."""


def agent_event(log: bytes) -> bytes:
    """What an agent sends for an event that a case gives as ``{"win": ...}``."""
    win = json.loads(log)["win"]
    system = dict(win.pop("system"))
    level, keywords = SEVERITIES[system.pop("severityValue", "INFORMATION")]
    message = system.pop("message", '""')[1:-1]
    provider = escape(system.pop("providerName", "x"))
    system = {**system, "level": level, "keywords": keywords}
    head = f"<Provider Name='{provider}'/>" + elements(system)
    data = "".join(
        f"<Data Name='{escape(name)}'>{escape(text)}</Data>" for name, text in win.pop("eventdata", {}).items()
    )
    other = "".join(f"<UserData><{name}>{elements(values)}</{name}></UserData>" for name, values in win.items())
    event = f"<Event><System>{head}</System><EventData>{data}</EventData>{other}</Event>"
    return json.dumps({"Message": message, "Event": event}).encode()


def elements(values: dict[str, str]) -> str:
    return "".join(f"<{name}>{escape(text)}</{name}>" for name, text in values.items())


def as_agents_send(file: Path) -> Iterator[Case]:
    for case in read_file(file, file.name):
        is_json = case.queue == LOG_LINE and all(log.startswith(b'{"win":') for log in case.logs)
        if is_json and case.expected.rule not in JSON_ONLY:
            expected = case.expected._replace(decoder="windows_eventchannel")
            logs = [agent_event(log) for log in case.logs]
            yield replace(case, logs=logs, queue="f", expected=expected, fields={})


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_cases_as_agents_send_them(file: Path) -> None:
    cases = list(as_agents_send(file))
    assert cases
    found = [run_case(default_ruleset(), case) for case in cases]
    wrong = [f"{one.case.file}:{one.case.line}: {one.case.key}: {one.problem}" for one in found]
    assert [line for line, one in zip(wrong, found, strict=True) if not one.right] == []
