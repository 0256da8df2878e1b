"""Sigma rules, translated and loaded with the default decoders, and events for them."""

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from secmon.engine.engine import Engine, Verdict
from secmon.engine.input.predecode import Message
from secmon.engine.memory.state import State
from secmon.engine.ruleset.compiled import File, Ruleset, compile_ruleset
from secmon.engine.ruleset.load_cache import LoadCache
from secmon.importers.sigma.ids import IdMap
from secmon.importers.sigma.report import SigmaLine
from secmon.importers.sigma.rule_xml import file_of
from secmon.importers.sigma.source import Document
from secmon.importers.sigma.translate import translate

ROOT = Path(__file__).parents[3]
START = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
SYSMON = "Microsoft-Windows-Sysmon/Operational"
PROCESS = {"product": "windows", "category": "process_creation"}
Rule = dict[str, Any]
_cache = LoadCache()


@cache
def _decoders(pattern: str) -> list[File]:
    files = sorted((ROOT / "ruleset/decoders").glob(pattern))
    return [(f"ruleset/decoders/{one.name}", one.read_bytes()) for one in files]


def rule(detection: Mapping[str, Any], logsource: Mapping[str, str] = PROCESS, **more: Any) -> Rule:
    """A rule; without a condition ``selection`` is the one."""
    with_condition = {"condition": "selection", **detection}
    return {"title": "A rule", "logsource": dict(logsource), "detection": with_condition, "level": "high", **more}


class Translated:
    """Translated rules and an engine with them alone. ``decoders``: a pattern of names of the default files."""

    def __init__(self, *rules: Rule, decoders: str = "9000-json*.xml") -> None:
        self.ids = IdMap()
        made = translate([Document(f"{at}.yml", one) for at, one in enumerate(rules)], self.ids)
        self.lines: list[SigmaLine] = made.lines
        self.xml = file_of(made.rules, "test")
        roots = ("ruleset/rules/0000-roots_rules.xml", (ROOT / "ruleset/rules/0000-roots_rules.xml").read_bytes())
        files = [roots] + ([("etc/rules/sigma.xml", self.xml)] if made.rules else [])
        self.ruleset: Ruleset = compile_ruleset(_decoders(decoders), {}, files, cache=_cache)
        assert not self.ruleset.messages, self.ruleset.messages
        self.engine = Engine(self.ruleset, State.private(Path("/nowhere")), host=b"host")

    def reason(self, at: int = 0) -> str:
        """Why a rule was not translated."""
        return self.lines[at].reason

    def send(self, message: Message, at: float = 0) -> list[int]:
        """The ids of the rules that make alerts."""
        return [number for number, _ in self.alerts(self.engine.process(message, START + timedelta(seconds=at)))]

    def alerts(self, verdict: Verdict) -> list[tuple[int, int]]:
        """Ids and levels."""
        return [(one.rule.id, one.rule.level) for one in verdict.beside if one.alert and one.rule is not None]

    def fires(self, message: Message, at: float = 0) -> bool:
        return bool(self.send(message, at))


def windows(channel: str = SYSMON, event_id: int = 1, **data: str) -> Message:
    """An event of the Windows event channel, as agents send it."""
    named = "".join(f'<Data Name="{name}">{escape(value)}</Data>' for name, value in data.items())
    system = f"<System><EventID>{event_id}</EventID><Channel>{channel}</Channel></System>"
    event = f"<Event>{system}<EventData>{named}</EventData></Event>"
    return Message("f", b"EventChannel", json.dumps({"Message": "m", "Event": event}).encode())


def as_json(channel: str = SYSMON, event_id: int = 1, **data: Any) -> Message:
    """The same event as JSON of another collector."""
    named = {f"{name[:1].lower()}{name[1:]}": value for name, value in data.items()}
    win = {"system": {"channel": channel, "eventID": str(event_id), "message": '"m"'}, "eventdata": named}
    return Message("1", b"/var/log/events", json.dumps({"win": win}).encode())


def line(text: str) -> Message:
    return Message("1", b"/var/log/messages", text.encode())


def both(fired: Iterable[bool]) -> bool:
    """Whether the rule fired on the two forms of an event alike."""
    first, second = fired
    assert first is second
    return first
