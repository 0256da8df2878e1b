"""Predicates that rules name instead of describing them: ``compiled_rule`` (ruleset.md 6.13)."""

import re

from secmon.engine.event import Event
from secmon.engine.memory.state import State
from secmon.engine.rules.rule import Condition

_CRAWLERS = (
    b"66.249.", b"72.14.", b"209.85.", b"65.55.", b"207.46.", b"74.6.", b"72.30.", b"67.195.",
)  # fmt: skip
_TARGET = re.compile(rb"Target Account Name: (.*?)(?:\t|  )")
_CALLER = re.compile(rb"Caller User Name: (.*?)(?:\t|  )")


def _same_users(event: Event, state: State) -> bool:
    source, target = event.static.get("srcuser"), event.static.get("dstuser")
    return source is None or target is None or source == target


def _long_id(event: Event, state: State) -> bool:
    return len(event.static.get("id", b"")) >= 10


def _other_account(event: Event, state: State) -> bool:
    target, caller = _TARGET.search(event.log), _CALLER.search(event.log)
    return target is not None and caller is not None and target[1] != caller[1]


def _simple_request(event: Event, state: State) -> bool:
    url = event.static.get("url")
    return url is not None and (url == b"/" or b"?" not in url)


def _crawler(event: Event, state: State) -> bool:
    return event.log.startswith(_CRAWLERS)


PREDICATES: dict[str, Condition] = {
    "comp_srcuser_dstuser": _same_users,
    "check_id_size": _long_id,
    "comp_mswin_targetuser_calleruser_diff": _other_account,
    "is_simple_http_request": _simple_request,
    "is_valid_crawler": _crawler,
}
