"""The conditions of a rule, in the order of their evaluation (ruleset.md 6.6)."""

from collections.abc import Callable, Mapping

from secmon.engine.event import Event
from secmon.engine.matching.osmatch import OSMatch
from secmon.engine.memory.state import State
from secmon.engine.rules.rule import Condition, Getter, Precondition
from secmon.engine.rules.rule_draft import Draft, ListLookup
from secmon.engine.rules.text_conditions import (
    GETTERS,
    LIST_GETTERS,
    TextElement,
    dynamic,
    field_getter,
    field_key,
    precondition_of,
    text_condition,
)
from secmon.engine.ruleset.cdb_list import CdbList

_BEFORE_FIELDS = ("program_name", "id", "system_name", "protocol", "match", "regex", "action", "url", "location")
_AFTER_ADDRESSES = ("srcport", "dstport")
_AFTER_PREDICATE = ("user", "srcgeoip", "dstgeoip")
_AFTER_CALENDAR = ("data", "extra_data", "hostname", "status")


def conditions_of(draft: Draft, decoder: int | None, lists: Mapping[str, CdbList]) -> tuple[Condition, ...]:
    """All conditions but the search of a composite. ``decoder``: the id of ``decoded_as``."""
    first = () if decoder is None else (_decoded_as(decoder),)
    return (*first, *draft.conditions, *(_list(use, lists[use.path]) for use in draft.lists))


def own_conditions(draft: Draft) -> tuple[tuple[Condition, ...], tuple[Precondition, ...]]:
    """The conditions that depend on the draft alone, and the preconditions that follow from them."""
    found: list[Condition] = []
    preconditions: list[Precondition] = []

    def add(name: str, getter: Getter, text: TextElement) -> None:
        found.append(text_condition(getter, text))
        preconditions.append(precondition_of(name, getter, text))

    def texts(names: tuple[str, ...]) -> None:
        for name in names:
            if name in draft.texts:
                add(name, GETTERS[name], draft.texts[name])

    texts(_BEFORE_FIELDS)
    for name, text in draft.fields:
        add(field_key(name, text), field_getter(name, text), text)
    for group in draft.condition_groups:
        found.append(group.condition())
        preconditions += group.preconditions()
    found += [_address(name, draft.address_tests[name], negated) for name, (_, negated) in draft.addresses.items()]
    texts(_AFTER_ADDRESSES)
    found += [draft.predicate] if draft.predicate is not None else []
    texts(_AFTER_PREDICATE)
    found += [_size(draft.maxsize)] if draft.maxsize else []
    found += [_moment(test) for test in (draft.time, draft.weekday) if test is not None]
    texts(_AFTER_CALENDAR)
    found += [_changed(draft.id)] if draft.check_diff else []
    found += [_first_time] if draft.first_time else []
    return tuple(found), tuple(preconditions)


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
        return text is not None and one.test(use.lookup, text, value, event.received)

    return listed
