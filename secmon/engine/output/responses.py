"""Alerts that are to be answered, for those that answer: a journal of responses with the alert (manager.md 4.3).

The engine decides which responses an alert has, because rules may forbid them (``no_ar``) and alerts that are not
written are answered too. Where and for whom they run is decided by the reader.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from secmon.common.counters import Counters
from secmon.config.responses import ActiveResponse
from secmon.engine.matching.osregex import OSRegex, OSRegexError
from secmon.engine.output.document import Object, encode
from secmon.engine.rules.rule import Rule
from secmon.journal.batch_writer import MAX_EVENT
from secmon.journal.journal import JournalWriter

log = logging.getLogger("secmon.analysisd")

_LARGE = ("previous_output", "previous_log", "full_log")
"""Left out of an alert that is too long, one after the other."""
_SPARE = 4096
"""Bytes of the responses themselves."""


class AnsweredAlert(Struct, frozen=True):
    """An alert, and the responses that its rule has."""

    responses: list[ActiveResponse]
    alert: dict[str, Any]


class ResponseJournal:
    """Collects alerts with responses; :meth:`flush` writes them. For one thread.

    While its reader is so far behind that the journal is full, responses are dropped and counted: the analysis does
    not wait for them.
    """

    def __init__(self, journal: JournalWriter, responses: Sequence[ActiveResponse], counters: Counters) -> None:
        self._journal = journal
        self._sections = [_Section(one) for one in responses]
        self._counters = counters
        self._by_rule: dict[Rule, list[ActiveResponse]] = {}
        self._pending: list[bytes] = []

    def of(self, rule: Rule) -> list[ActiveResponse]:
        """The responses of a rule."""
        found = self._by_rule.get(rule)
        if found is None:
            found = [one.response for one in self._sections if one.answers(rule)] if rule.active_response else []
            self._by_rule[rule] = found
        return found

    def forget(self) -> None:
        """Another ruleset is live."""
        self._by_rule.clear()

    def add(self, rule: Rule, alert: Object) -> None:
        """Collect an alert of ``rule``."""
        size = len(encode(alert))
        for name in _LARGE:
            if size > MAX_EVENT - _SPARE and alert.pop(name, None) is not None:
                size = len(encode(alert))
        record = msgspec.json.encode(AnsweredAlert(self.of(rule), alert))
        if len(record) > MAX_EVENT:
            self._counters.add("responses.too_long")
            return
        self._pending.append(record)

    def flush(self) -> None:
        """Write what is collected. Raises OSError; it stays collected then."""
        if not self._pending:
            return
        self._journal.make_room()
        if self._journal.full:
            self._counters.add("responses.dropped", len(self._pending))
        else:
            self._journal.append(self._pending)
            self._counters.add("responses.queued", len(self._pending))
        self._pending = []

    def counters(self) -> Mapping[str, Any]:
        """Of the journal."""
        return self._journal.counters()

    def close(self) -> None:
        self._journal.close()


class _Section:
    """Which rules a section answers: any of its conditions suffices."""

    def __init__(self, response: ActiveResponse) -> None:
        self.response = response
        try:
            self._group = OSRegex(response.group.replace(",", "|").encode()) if response.group else None
        except OSRegexError as error:
            log.error("The active response %r: rules_group: %s", response.command.name, error)
            self._group = None

    def answers(self, rule: Rule) -> bool:
        if rule.level == 0:
            return False
        wanted = self.response
        by_level = bool(wanted.level) and rule.level >= wanted.level
        return by_level or rule.id in wanted.rules or (self._group is not None and self._group.test(rule.groups))
