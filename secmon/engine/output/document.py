"""The JSON object of an event: lines of alerts.json and archives.json, and what logtest shows (ruleset.md 9.1).

Logs are bytes, the object is UTF-8: a byte that is not part of a character is written as ``\\xff``.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import msgspec

from secmon.engine.engine import Verdict
from secmon.engine.event import STATIC, Event, printable
from secmon.engine.output.describe import describe
from secmon.engine.output.integrity import integrity_object, is_integrity
from secmon.engine.rules.rule import Rule
from secmon.knowledge.attack.knowledge_base import AttackTechnique

GROUPS_LIMIT = 1023
"""Bytes of the group string of a rule that are shown."""
MAX_DOTS, MAX_LEVELS = 100, 100
"""Dots in a field name, and levels of arrays in a value: they bound the depth of the object."""
_COMPLIANCE = ("pci_dss", "cis", "gdpr", "gpg13", "hipaa", "nist_800_53", "tsc")
_RULE_FIELDS = frozenset(
    ("level", "description", "id", "mitre", "cve", "info", "firedtimes", "frequency", "mail", "groups")
)
"""Fields of the object of a rule that an event never sets: clients rely on their types."""
_SCA_COMPLIANCE = "sca.check.compliance."
_TOKEN = re.compile(rb"\{([^{}:]+): ([^{}]*)\}")
_HOSTNAME = re.compile(rb"[A-Za-z]{3} [ \d]\d \d\d:\d\d:\d\d (\S+)")
_AGENTLESS = re.compile(rb"\(([^)]*)\) ([^@>]*)@([^>]*)->", re.DOTALL)

Object = dict[str, Any]


class Techniques(Protocol):
    """Techniques by id; revoked and deprecated ones are unknown."""

    generation: int
    """Grows with each change of a technique."""

    def technique(self, external_id: str) -> AttackTechnique | None: ...


class Labels(NamedTuple):
    """What an agent has reported: its address, if known, and the labels that may be shown."""

    address: str | None
    visible: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Origin:
    """The manager: full host name; names of cluster and node, unless there is no cluster or it is hidden."""

    host: str
    cluster: tuple[str, str] | None = None


@dataclass(slots=True)
class Documents:
    """Builds objects. Parts that depend on the rule alone are cached until :meth:`forget`."""

    origin: Origin
    techniques: Techniques | None = None
    _rules: dict[Rule, "_RuleFields"] = field(default_factory=dict)

    def forget(self) -> None:
        """Drop the cache: another ruleset is live."""
        self._rules.clear()

    def of(
        self,
        verdict: Verdict,
        number: str,
        *,
        full_log: bool | None = None,
        labels: Labels | None = None,
        description: bytes | None = None,
    ) -> Object:
        """The object of an event with the id ``number``.

        ``full_log`` None: as the rule says; ``description`` of the rule, if it is rendered already.
        """
        event, rule = verdict.event, verdict.rule
        made: Object = {"timestamp": stamp(event.time)}
        if rule is not None:
            made["rule"] = self._rule(rule, verdict, description)
        agentless = None if event.from_agent else _AGENTLESS.match(event.location)
        if agentless is None:
            made["agent"] = self._agent(event, labels)
        made["manager"] = {"name": self.origin.host}
        made["id"] = number
        if self.origin.cluster is not None:
            made["cluster"] = {"name": self.origin.cluster[0], "node": self.origin.cluster[1]}
        if len(event.previous) > 1:
            made["previous_output"] = printable(b"\n".join(event.previous))
        if event.elsewhere is not None:
            made["cluster_hits"] = event.elsewhere.as_dict()
        if full_log or (full_log is None and (rule is None or rule.full_log)):
            made["full_log"] = printable(event.full_log)
        integrity = is_integrity(event)
        if integrity:
            made["syscheck"] = integrity_object(event)
        _add_decoding(made, event, data=not integrity)
        made["location"] = printable(_place(event))
        if agentless is not None:
            script, user, host = (printable(one) for one in agentless.groups())
            made["agentless"] = {"script": script, "user": user, "host": host}
        return made

    def _agent(self, event: Event, labels: Labels | None) -> Object:
        if not event.from_agent:
            return {"id": event.agent_id, "name": self.origin.host}
        made: Object = {"id": event.agent_id, "name": printable(event.agent_name)}
        address = labels.address if labels is not None and labels.address else address_of(event.location)
        if address and address != "any":
            made["ip"] = address
        if labels is not None and labels.visible:
            nested = _Nested()
            for name, value in labels.visible:
                nested.add(name, value)
            made["labels"] = nested.root
        return made

    def _rule(self, rule: Rule, verdict: Verdict, description: bytes | None) -> Object:
        fixed = self._rules.get(rule)
        if fixed is None:
            fixed = self._rules[rule] = _RuleFields.of(rule, self.techniques)
        made: Object = {"level": rule.level} if rule.level else {}
        made["description"] = printable(describe(rule, verdict.event) if description is None else description)
        made |= fixed.head
        if rule.counter and verdict.fired:
            made["firedtimes"] = verdict.fired
        made |= fixed.tail
        for name, values in _event_compliance(fixed, verdict.event):
            if name not in _RULE_FIELDS:
                made.setdefault(name, values)
        return made


def _event_compliance(fixed: "_RuleFields", event: Event) -> Iterator[tuple[str, list[str]]]:
    """Requirements that the event itself names: tokens of a rootcheck log, fields of an assessment (6.12)."""
    if fixed.rootcheck:
        for name, values in _TOKEN.findall(event.log):
            yield printable(name).lower(), printable(values).split(", ")
    for key, value in event.names.items() if fixed.assessment else ():
        if key.startswith(_SCA_COMPLIANCE):
            yield key.removeprefix(_SCA_COMPLIANCE), printable(value).split(",")


@dataclass(frozen=True, slots=True)
class _RuleFields:
    """The fields of a rule that do not depend on the event, before and after ``firedtimes``."""

    head: Object
    tail: Object
    rootcheck: bool
    assessment: bool

    @classmethod
    def of(cls, rule: Rule, techniques: Techniques | None) -> "_RuleFields":
        head: Object = {"id": str(rule.id)}
        mitre = mitre_of(rule, techniques)
        if mitre:
            head["mitre"] = mitre
        if rule.cve is not None:
            head["cve"] = rule.cve
        if rule.info is not None:
            head["info"] = rule.info
        if rule.composite is not None:
            head["frequency"] = rule.composite.frequency
        groups, compliance = split_groups(rule.groups)
        tail: Object = {"mail": rule.mail, "groups": groups, **compliance}
        return cls(head, tail, "rootcheck" in groups, "sca" in groups)


def split_groups(groups: bytes) -> tuple[list[str], dict[str, list[str]]]:
    """The groups of a rule, and the requirements among them by standard, in order of appearance (6.12)."""
    plain: list[str] = []
    compliance: dict[str, list[str]] = {}
    for group in printable(groups[:GROUPS_LIMIT]).split(","):
        standard = next((one for one in _COMPLIANCE if group.startswith(f"{one}_")), None)
        if standard is not None:
            compliance.setdefault(standard, []).append(group[len(standard) + 1 :])
        elif group:
            plain.append(group)
    return plain, compliance


def mitre_of(rule: Rule, techniques: Techniques | None) -> Object | None:
    """Ids, tactics and techniques of a rule (6.13); ids only without a source of techniques."""
    if not rule.mitre:
        return None
    if techniques is None:
        return {"id": list(dict.fromkeys(one.technique for one in rule.mitre))}
    ids, tactics, names = dict[str, None](), dict[str, None](), dict[str, None]()
    for one in rule.mitre:
        known = techniques.technique(one.technique)
        if one.tactic is not None and (known is None or one.tactic not in known.tactics):
            continue
        ids[one.technique] = None
        if known is not None:
            names[known.name] = None
            found = known.tactics.values() if one.tactic is None else (known.tactics[one.tactic],)
            tactics.update(dict.fromkeys(found))
    return {"id": list(ids), "tactic": list(tactics), "technique": list(names)} if tactics else None


def _add_decoding(made: Object, event: Event, *, data: bool) -> None:
    """From ``predecoder`` to ``data``, if that is wanted."""
    before: Object = {}
    if event.program_name is not None:
        before["program_name"] = printable(event.program_name)
    if event.timestamp is not None:
        before["timestamp"] = printable(event.timestamp)
    if hostname := _HOSTNAME.match(event.full_log):
        before["hostname"] = printable(hostname[1])
    if before:
        made["predecoder"] = before
    made["decoder"] = _decoder(event)
    if event.previous_log is not None:
        made["previous_log"] = printable(event.previous_log)
    if data and (event.static or event.dynamic):
        found = _data(event)
        if found:
            made["data"] = found


def _decoder(event: Event) -> Object:
    decoder, made = event.decoder, Object()
    if decoder is None:
        return made
    if decoder.accumulate:
        made["accumulate"] = 1
    if event.parent is not None:
        made["parent"] = event.parent
    made["name"] = decoder.name
    if decoder.ftscomment is not None:
        made["ftscomment"] = decoder.ftscomment
    return made


def _data(event: Event) -> Object:
    nested, static = _Nested(), event.static
    for name in STATIC:
        value = static.get(name)
        if value is not None:
            nested.add(name, _value(value))
    for name, value in event.dynamic:
        if value:
            nested.add(name, _value(value))
    return nested.root


class _Nested:
    """An object whose keys nest at dots. Names are compared without case; the first value of a name is kept.

    A name with more than ``MAX_DOTS`` dots is one key: a log must not exhaust the recursion of a reader.
    """

    __slots__ = ("_known", "root")

    def __init__(self) -> None:
        self.root: Object = {}
        self._known: dict[str, Object | None] = {}

    def add(self, name: str, value: Any) -> None:
        """Add a value; it is dropped when the name is taken or a parent is not an object."""
        key = name.lower()
        if key in self._known:
            return
        parent, _, last = name.rpartition(".")
        if not parent or name.count(".") > MAX_DOTS:
            self.root[name] = value
        else:
            into = self._object(parent)
            if into is None:
                return
            into[last] = value
        self._known[key] = None

    def _object(self, name: str) -> Object | None:
        key = name.lower()
        if key in self._known:
            return self._known[key]
        parent, _, last = name.rpartition(".")
        into = self._object(parent) if parent else self.root
        if into is None:
            return None
        made = into[last] = Object()
        self._known[key] = made
        return made


def _value(value: bytes) -> Any:
    """The text of a JSON array as an array, everything else as text."""
    if value.startswith(b"["):
        try:
            found = msgspec.json.decode(value)
        except (ValueError, msgspec.MsgspecError, RecursionError):
            return printable(value)
        if _flat(found):
            return found
    return printable(value)


def _flat(value: Any) -> bool:
    """Whether arrays and objects of ``value`` are nested at most ``MAX_LEVELS`` deep."""
    level = [value]
    for _ in range(MAX_LEVELS):
        level = [
            inner
            for one in level
            if isinstance(one, list | dict)
            for inner in (one.values() if isinstance(one, dict) else one)
        ]
        if not level:
            return True
    return False


@lru_cache(maxsize=4)
def stamp(moment: datetime) -> str:
    """``YYYY-MM-DDTHH:MM:SS.mmm±hhmm``."""
    iso = moment.isoformat(timespec="milliseconds")
    return iso[:-3] + iso[-2:]


def address_of(location: bytes) -> str:
    """The address in ``(name) address->path``; empty when there is none."""
    head, arrow, _ = location.partition(b"->")
    return printable(head.rpartition(b") ")[2]) if arrow else ""


def _place(event: Event) -> bytes:
    if not event.from_agent:
        return event.location
    return event.location.partition(b">")[2] or event.location


encode = msgspec.json.Encoder().encode
"""An object as a line without its end."""
