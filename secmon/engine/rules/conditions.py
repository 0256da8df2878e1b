"""The conditions of a rule, in the order of their evaluation (ruleset.md 6.6)."""

from collections.abc import Callable, Mapping

from secmon.engine.event import Event
from secmon.engine.matching.osmatch import OSMatch
from secmon.engine.memory.state import State
from secmon.engine.rules.rule import Condition, Precondition
from secmon.engine.rules.rule_reader import Draft, ListLookup, TextElement
from secmon.engine.rules.text_conditions import GETTERS, LIST_GETTERS, dynamic, precondition_of, text_condition
from secmon.engine.ruleset.cdb_list import CdbList

_BEFORE_FIELDS = ("program_name", "id", "system_name", "protocol", "match", "regex", "action", "url", "location")
_AFTER_ADDRESSES = ("srcport", "dstport")
_AFTER_PREDICATE = ("user", "srcgeoip", "dstgeoip")
_AFTER_CALENDAR = ("data", "extra_data", "hostname", "status")
_INDEXED = ("id", "action", "status")
"""Static fields whose exact values an index uses."""


def conditions_of(draft: Draft, lists: Mapping[str, CdbList]) -> tuple[tuple[Condition, ...], tuple[Precondition, ...]]:
    """All conditions but the search of a composite; and the preconditions that follow from them."""
    found: list[Condition] = []
    preconditions: list[Precondition] = []
    if draft.decoded_as is not None:
        found.append(_decoded_as(draft.decoded_as))
        preconditions.append(Precondition(decoders=frozenset((draft.decoded_as,))))

    def texts(names: tuple[str, ...]) -> None:
        for name in names:
            if name in draft.texts:
                text = draft.texts[name]
                found.append(_text(GETTERS[name], text))
                if name in _INDEXED:
                    _note(preconditions, precondition_of(name, text.content, text.kind, negated=text.negated))

    texts(_BEFORE_FIELDS)
    for name, text in draft.fields:
        found.append(_text(dynamic(name), text))
        _note(preconditions, precondition_of(f".{name.lower()}", text.content, text.kind, negated=text.negated))
    found += [_address(name, draft.address_tests[name], negated) for name, (_, negated) in draft.addresses.items()]
    texts(_AFTER_ADDRESSES)
    found += [draft.predicate] if draft.predicate is not None else []
    texts(_AFTER_PREDICATE)
    found += [_size(draft.maxsize)] if draft.maxsize else []
    found += [_moment(test) for test in (draft.time, draft.weekday) if test is not None]
    texts(_AFTER_CALENDAR)
    found += [_changed(draft.id)] if draft.check_diff else []
    found += [_first_time] if draft.first_time else []
    found += [_list(use, lists[use.path]) for use in draft.lists]
    return tuple(found), tuple(preconditions)


def _note(preconditions: list[Precondition], one: Precondition | None) -> None:
    if one is not None:
        preconditions.append(one)


def _text(getter: Callable[[Event], bytes | None], text: TextElement) -> Condition:
    assert text.expression is not None, "compiled when the rule was read"
    return text_condition(getter, text.expression, negated=text.negated)


def _decoded_as(decoder: int) -> Condition:
    return lambda event, state: event.decoder is not None and event.decoder.id == decoder


def _address(name: str, test: Callable[[bytes], bool], negated: bool) -> Condition:
    def within(event: Event, state: State) -> bool:
        value = event.static.get(name)
        return value is not None and test(value) is not negated

    return within


def _size(least: int) -> Condition:
    return lambda event, state: event.size >= least


def _moment(test: Callable[..., bool]) -> Condition:
    return lambda event, state: test(event.time)


def _changed(rule: int) -> Condition:
    return lambda event, state: state.contents.changed(event, rule)


def _first_time(event: Event, state: State) -> bool:
    return event.first_seen or state.first_time_keys.add(event)


def _list(use: ListLookup, one: CdbList) -> Condition:
    getter = LIST_GETTERS.get(use.field) or dynamic(use.field)
    value = None if use.value is None else OSMatch(use.value)

    def listed(event: Event, state: State) -> bool:
        text = getter(event)
        return text is not None and one.test(use.lookup, text, value)

    return listed
