"""The mapping of Sigma's log sources and fields to ours: reads ``mapping.yaml``, which explains its own form."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from secmon.importers.sigma.conditions import Condition, Kind, TextTest, all_of, any_of
from secmon.importers.sigma.values import MakeTest, Untranslatable, escaped

_FILE = Path(__file__).with_name("mapping.yaml")
_ELEMENTS = frozenset(("match", "program_name", "hostname", "location", "decoded_as"))
_BAD_NAME = re.compile(r'[\x00-\x1f"<>|$]')
"""Of a field that an attribute cannot name, or that would be another one."""
_LINES = "lines "
_CHANNEL, _EVENT_ID = "win.system.channel", "win.system.eventID"
KEYS = ("product", "category", "service")


@dataclass(frozen=True, slots=True)
class LogSource:
    """One log source: the events that are meant, and what Sigma's fields are in them.

    ``others``: a field that is not in ``fields``, with its name in the place of ``{}``; empty: such fields are refused.
    """

    name: str
    logsource: Mapping[str, str]
    events: Condition
    fields: Mapping[str, str]
    others: str = ""
    keywords: str = "match"
    dash_is_absent: bool = False

    def target(self, name: str) -> str:
        """Our name of a field of Sigma: of a field, of several with ``|``, or of an element. Raises Untranslatable."""
        found = self.fields.get(name)
        if found is None and self.others:
            found = self.others.format(name[:1].lower() + name[1:] if "eventdata" in self.others else name)
        if not found or _BAD_NAME.search(name):
            raise Untranslatable(f"the field {name!r} is not known in events of {self.name}")
        return found

    def make(self, name: str) -> MakeTest:
        """Makes tests of a field of Sigma. Raises Untranslatable."""
        return maker(self.target(name))

    def make_keyword(self) -> MakeTest:
        """Makes tests of the whole log."""
        return maker(self.keywords)


def maker(target: str) -> MakeTest:
    """Makes tests of one of our fields or elements."""
    if target in _ELEMENTS:
        return lambda kind, content: TextTest(target, kind, content)
    if target.startswith(_LINES):
        name = target.removeprefix(_LINES)
        return lambda kind, content: TextTest("field", *_of_a_line(kind, content), name)
    return lambda kind, content: TextTest("field", kind, content, target)


def _of_a_line(kind: Kind, content: bytes) -> tuple[Kind, bytes]:
    """The test of one line of a text. Raises Untranslatable."""
    if kind == "osmatch" and content:
        starts, ends = content.startswith(b"^"), content.endswith(b"$")
        inner = escaped(content[starts : len(content) - ends].decode())
        return "pcre2", b"(?im)" + (b"^" if starts else b"") + inner + (b"$" if ends else b"")
    if content and (kind != "pcre2" or content.startswith((b"(?is)", b"(?s)"))):
        raise Untranslatable("only plain values and regular expressions can be compared with a field of several values")
    return kind, b"(?m)" + content if content else content


@dataclass(frozen=True, slots=True)
class SigmaMapping:
    """All of the file."""

    levels: Mapping[str, int]
    sources: Sequence[LogSource]

    def source_of(self, logsource: Mapping[str, str]) -> LogSource:
        """The log source of a rule: the one with the same product, category and service. Raises Untranslatable."""
        given = {key: value for key in KEYS if (value := logsource.get(key))}
        for one in self.sources:
            if one.logsource == given:
                return one
        named = ", ".join(f"{key} {value}" for key, value in given.items()) or "no log source"
        raise Untranslatable(f"log source: {named}")


@cache
def mapping() -> SigmaMapping:
    """The mapping of the product."""
    content: dict[str, Any] = yaml.load(_FILE.read_bytes(), yaml.CSafeLoader)
    return SigmaMapping(content["levels"], [_source(content, one) for one in _sources_of(content)])


def _sources_of(content: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for one in content["sources"]:
        in_windows = one["logsource"].get("product") == "windows" or one.get("windows")
        yield {**content["windows"], **one} if in_windows else one
    sysmon = content["windows_channels"]["sysmon"]
    found = {
        ("category", name): {_CHANNEL: sysmon, **(ids if isinstance(ids, dict) else {_EVENT_ID: ids})}
        for name, ids in content["windows_sysmon"].items()
    }
    found |= {("service", name): {_CHANNEL: channels} for name, channels in content["windows_channels"].items()}
    for (key, name), events in found.items():
        yield {**content["windows"], "logsource": {"product": "windows", key: name}, "events": [events]}


def _source(content: Mapping[str, Any], given: Mapping[str, Any]) -> LogSource:
    fields: dict[str, str] = {}
    for table in given.get("tables", ()):
        fields |= content["tables"][table]
    logsource = given["logsource"]
    return LogSource(
        name="/".join(logsource[key] for key in KEYS if key in logsource),
        logsource=logsource,
        events=any_of(_events(one) for one in given["events"]),
        fields=fields | given.get("fields", {}),
        others=given.get("others", ""),
        keywords=given.get("keywords", "match"),
        dash_is_absent=given.get("dash_is_absent", False),
    )


def _events(conditions: Mapping[str, Any]) -> Condition:
    """All of ``name: value``; a list of values: one of them. A value that begins with ``~`` is a pattern of PCRE2."""
    made = []
    for name, values in conditions.items():
        make = maker(name)
        listed = values if isinstance(values, list) else [values]
        made.append(any_of(_event_test(make, name, str(one)) for one in listed))
    return all_of(made)


def _event_test(make: MakeTest, name: str, value: str) -> Condition:
    kind: Kind = "pcre2" if value.startswith("~") else "osmatch"
    if name == "decoded_as":
        return make("string", value.encode())
    return make(kind, value[1:].encode() if kind == "pcre2" else f"^{value}$".encode())
