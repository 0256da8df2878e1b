"""What was prepared in one process, as bytes for another that has the same ruleset."""

from collections.abc import Iterable, Iterator
from datetime import datetime

import msgspec

from secmon.engine.decoders.decoder import Decoder
from secmon.engine.event import MANAGER_ID, SYSLOG, Event
from secmon.engine.lookahead.prepare import Prepared
from secmon.engine.rules.evaluate import Selection
from secmon.engine.rules.rule import Rule
from secmon.engine.ruleset.compiled import Ruleset

_NOT_WALKED, _NO_RULE = -2, -1
_NO_DECODER = -1


class _Event(msgspec.Struct, array_like=True, omit_defaults=True):
    """An event; its time is known where it is unpacked. ``decoder``: its place among those of the ruleset."""

    location: bytes
    full_log: bytes
    log: bytes | int
    """A number: so many bytes at the end of ``full_log``."""
    size: int
    hostname: bytes
    decoder: int = _NO_DECODER
    static: dict[str, bytes] = {}
    category: str = SYSLOG
    program_name: bytes | None = None
    timestamp: bytes | None = None
    parent: str | None = None
    agent_name: bytes = b""
    dynamic: list[tuple[str, bytes]] = []
    bound_rule: int | None = None


class _Packed(msgspec.Struct, array_like=True, omit_defaults=True):
    """``rule``, ``previous`` and ``way`` are ids."""

    queue: str
    source: str = ""
    agent_id: str = MANAGER_ID
    rule: int = _NOT_WALKED
    previous: int = _NO_RULE
    event: _Event | None = None
    way: list[int] = []


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Packed).decode


class Packer:
    """For one ruleset: both sides have compiled it from the same sources, and so number its decoders alike."""

    def __init__(self, ruleset: Ruleset) -> None:
        known = ruleset.decoders
        roots = (*known.with_program, *known.without_program, *known.internal.values())
        self._decoders: list[Decoder | None] = [*_all(roots), None]  # the last one is that of events without
        self._numbers = {one: number for number, one in enumerate(self._decoders[:-1])}
        self._rules = ruleset.rules.by_id

    def pack(self, prepared: Prepared) -> bytes:
        """Raises UnicodeEncodeError for an event with texts that have no UTF-8, KeyError for a rule without an id."""
        made = _Packed(prepared.queue, prepared.source, prepared.agent_id)
        if prepared.walked:
            found = prepared.found
            made.rule = _NO_RULE if found is None else self._id(found.rule)
            if found is not None and found.previous is not None:
                made.previous = self._id(found.previous)
        else:
            made.way = [self._id(rule) for rule in prepared.way]
        if prepared.event is not None:
            made.event = self._packed_event(prepared.event)
        return _encode(made)

    def unpack(self, data: bytes, moment: datetime) -> Prepared:
        """What was packed of a message of ``moment``. Raises msgspec.MsgspecError for anything else."""
        packed = _decode(data)
        event = None if packed.event is None else self._event(packed, packed.event, moment)
        if packed.rule == _NOT_WALKED:
            way = [self._rules[number] for number in packed.way]
            return Prepared(packed.queue, packed.source, packed.agent_id, event, way=way)
        found = None
        if packed.rule != _NO_RULE:
            previous = None if packed.previous == _NO_RULE else self._rules[packed.previous]
            found = Selection(self._rules[packed.rule], previous)
        return Prepared(packed.queue, packed.source, packed.agent_id, event, True, found)

    def _id(self, rule: Rule) -> int:
        if self._rules.get(rule.id) is not rule:
            raise KeyError(rule.id)
        return rule.id

    def _packed_event(self, event: Event) -> _Event:
        return _Event(
            event.location,
            event.full_log,
            len(event.log) if event.full_log.endswith(event.log) else event.log,
            event.size,
            event.hostname,
            _NO_DECODER if event.decoder is None else self._numbers[event.decoder],
            event.static,
            event.category,
            event.program_name,
            event.timestamp,
            event.parent,
            event.agent_name,
            event.dynamic,
            event.bound_rule,
        )

    def _event(self, packed: _Packed, one: _Event, moment: datetime) -> Event:
        full, log = one.full_log, one.log
        event = Event(
            packed.queue,
            one.location,
            full,
            log if isinstance(log, bytes) else full[len(full) - log :],
            moment,
            int(moment.timestamp()),
            packed.agent_id,
            one.agent_name,
            one.hostname,
            one.program_name,
            one.timestamp,
            one.size,
            self._decoders[one.decoder],
            one.parent,
            one.category,
            one.static,
            bound_rule=one.bound_rule,
        )
        for name, value in one.dynamic:
            event.add_dynamic(name, value)
        return event


def _all(decoders: Iterable[Decoder]) -> Iterator[Decoder]:
    for one in decoders:
        yield one
        yield from _all(one.children)
