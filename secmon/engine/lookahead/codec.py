"""The results of a decoder process, as bytes for the analysis thread. Both sides have compiled the same ruleset."""

from collections.abc import Iterable, Iterator
from datetime import datetime

import msgspec

from secmon.engine.decoders.decoder import Decoder
from secmon.engine.event import MANAGER_ID, SYSLOG, Event
from secmon.engine.lookahead.stateless import Lookahead
from secmon.engine.rules.rule import Rule
from secmon.engine.rules.rule_search import Selection
from secmon.engine.ruleset.compiled import Ruleset

_NOT_EVALUATED, _NO_RULE = -2, -1
_NO_DECODER = -1


class _Event(msgspec.Struct, array_like=True, omit_defaults=True):
    """An event without its time, which the receiver knows. ``decoder``: its index in the ruleset."""

    location: bytes
    full_log: bytes
    log: bytes | int
    """A number: the length of the end of ``full_log`` that is the log."""
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


class _Lookahead(msgspec.Struct, array_like=True, omit_defaults=True):
    """``rule``, ``previous`` and ``resume`` are ids of rules; ``beside`` has pairs of the first two."""

    queue: str
    component: str = ""
    agent_id: str = MANAGER_ID
    rule: int = _NOT_EVALUATED
    previous: int = _NO_RULE
    event: _Event | None = None
    resume: list[int] = []
    beside: list[tuple[int, int]] | None = []


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Lookahead).decode


class LookaheadCodec:
    """For one ruleset: both sides have compiled it from the same sources, so they number its decoders alike."""

    def __init__(self, ruleset: Ruleset) -> None:
        known = ruleset.decoders
        roots = (*known.with_program, *known.without_program, *known.internal.values())
        self._decoders: list[Decoder | None] = [*_all(roots), None]  # index -1: no decoder
        self._numbers = {one: number for number, one in enumerate(self._decoders[:-1])}
        self._rules = ruleset.rules.by_id

    def encode(self, ahead: Lookahead) -> bytes:
        """Raises UnicodeEncodeError for texts that UTF-8 cannot hold, KeyError for a rule of another ruleset."""
        encoded = _Lookahead(ahead.queue, ahead.component, ahead.agent_id)
        if ahead.evaluated:
            selection = ahead.selection
            if selection is None:
                encoded.rule = _NO_RULE
            else:
                encoded.rule, encoded.previous = self._encode_selection(selection)
        else:
            encoded.resume = [self._id(rule) for rule in ahead.resume]
        encoded.beside = None if ahead.beside is None else [self._encode_selection(one) for one in ahead.beside]
        if ahead.event is not None:
            encoded.event = self._encode_event(ahead.event)
        return _encode(encoded)

    def decode(self, data: bytes, moment: datetime) -> Lookahead:
        """The inverse of :meth:`encode`, for a message received at ``moment``. Raises msgspec.MsgspecError."""
        encoded = _decode(data)
        event = None if encoded.event is None else self._decode_event(encoded, encoded.event, moment)
        beside = None if encoded.beside is None else [self._decode_selection(*one) for one in encoded.beside]
        made = Lookahead(encoded.queue, encoded.component, encoded.agent_id, event, beside=beside)
        if encoded.rule == _NOT_EVALUATED:
            made.resume = [self._rules[number] for number in encoded.resume]
            return made
        made.evaluated = True
        made.selection = None if encoded.rule == _NO_RULE else self._decode_selection(encoded.rule, encoded.previous)
        return made

    def _encode_selection(self, one: Selection) -> tuple[int, int]:
        return self._id(one.rule), _NO_RULE if one.previous is None else self._id(one.previous)

    def _decode_selection(self, rule: int, previous: int) -> Selection:
        return Selection(self._rules[rule], None if previous == _NO_RULE else self._rules[previous])

    def _id(self, rule: Rule) -> int:
        if self._rules.get(rule.id) is not rule:
            raise KeyError(rule.id)
        return rule.id

    def _encode_event(self, event: Event) -> _Event:
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

    def _decode_event(self, encoded: _Lookahead, one: _Event, moment: datetime) -> Event:
        full, log = one.full_log, one.log
        event = Event(
            encoded.queue,
            one.location,
            full,
            log if isinstance(log, bytes) else full[len(full) - log :],
            moment,
            int(moment.timestamp()),
            encoded.agent_id,
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
