"""An alert as a document of the index: what of it can be asked for.

Every field is a term ``name=value``: the terms of a field are next to each other in the index, so that its values can
be matched, listed and counted. The words of the alert are indexed besides, with their positions. The line of
alerts.json is stored as it is.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
import tantivy

from secmon.common.query.list_conditions import json_text

TIME, ORDER, SEQUENCE, SOURCE, POSITION, TERMS, WORDS = "time", "order", "seq", "source", "position", "terms", "words"
"""Fields of the index. Milliseconds since 1970; the order of answers; the number of the alert in the store; the line;
the position of the reader after a commit, which its last alert has; see above."""

UNINDEXED = frozenset({"timestamp", "full_log", "previous_output", "previous_log"})
"""Fields that conditions cannot name: nearly every alert has another value. Their words are found all the same."""
WORDLESS = frozenset({"timestamp", "id", "manager", "cluster", "previous_output", "previous_log"})
"""Fields whose words are not found."""
MAX_VALUE = 512
"""Characters of a value that conditions can name; longer ones are found by their words."""
MAX_TERMS = 1000
"""Values of an alert that are indexed: an event may hold many more."""

ASCENDING = tantivy.Order.Asc

_TIE_BITS = 22
_LAST_TIME = (1 << 42) - 1
_TOKEN_BYTES = 128

_decode = msgspec.json.Decoder(dict[str, Any]).decode


class MalformedAlert(ValueError):
    """A line that is no alert: cut off by a crash, or written by something else."""


def schema() -> tantivy.Schema:
    """The fields of the index. A change needs another :data:`secmon.alerts.generations.FORMAT`."""
    builder = tantivy.SchemaBuilder()
    builder.add_unsigned_field(TIME, indexed=True, fast=True)
    builder.add_unsigned_field(ORDER, indexed=True, fast=True)
    builder.add_unsigned_field(SEQUENCE, indexed=True, fast=True)
    builder.add_bytes_field(SOURCE, stored=True)
    builder.add_bytes_field(POSITION, stored=True)
    builder.add_text_field(TERMS, tokenizer_name="raw", index_option="basic")
    builder.add_text_field(WORDS, tokenizer_name=WORDS, index_option="position")
    return builder.build()


def analyzer() -> tantivy.TextAnalyzer:
    """From text to words: letters and digits, letter case aside."""
    return _words().filter(tantivy.Filter.remove_long(_TOKEN_BYTES)).filter(tantivy.Filter.lowercase()).build()


def _words() -> tantivy.TextAnalyzerBuilder:
    return tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())


_SPLITTER = _words().build()
_LOWERING = _words().filter(tantivy.Filter.lowercase()).build()


class ReadAlert(NamedTuple):
    """An alert, and its time in milliseconds since 1970."""

    fields: dict[str, Any]
    time: int


def read_alert(line: bytes) -> ReadAlert:
    """Raises MalformedAlert."""
    try:
        alert = _decode(line)
        return ReadAlert(alert, milliseconds(alert["timestamp"]))
    except (msgspec.MsgspecError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise MalformedAlert(str(error)) from error


def number_after(previous: int, time: int) -> int:
    """The number of an alert in the store: its time in microseconds, but larger than that of the one before.

    So numbers say nothing of how many alerts there are, which is not everybody's to know, and a store that is built
    again has the same ones.
    """
    return max(previous + 1, time * 1000)


def document(alert: ReadAlert, line: bytes, offset: int, number: int) -> tantivy.Document:
    """The alert of a line that begins at byte ``offset`` of its file."""
    made = tantivy.Document()
    made.add_unsigned(TIME, alert.time)
    made.add_unsigned(ORDER, order_of(alert.time, offset))
    made.add_unsigned(SEQUENCE, number)
    made.add_bytes(SOURCE, line)
    found = contents(alert.fields)
    for term in found.terms:
        made.add_text(TERMS, term)
    made.add_text(WORDS, found.text)
    return made


class Contents(NamedTuple):
    """What of an alert can be found: its terms, and the text of its words."""

    terms: list[str]
    text: str


def contents(fields: Mapping[str, Any]) -> Contents:
    """The terms and the text of an alert."""
    terms, texts = [], [str(fields.get("full_log", ""))]
    for count, (name, value) in enumerate(_values("", fields)):
        if count == MAX_TERMS:
            break
        if name not in UNINDEXED and len(value) <= MAX_VALUE:
            terms.append(f"{name}={value}")
        if name.partition(".")[0] not in WORDLESS and value not in texts[0]:
            texts.append(value)
    return Contents(terms, "\n".join(texts))


def words(text: str) -> list[str | None]:
    """The words of a text by their positions, as the index has them; None where one is too long to be found."""
    lowered = zip(_SPLITTER.analyze(text), _LOWERING.analyze(text), strict=True)
    return [word if len(own.encode()) < _TOKEN_BYTES else None for own, word in lowered]


def milliseconds(timestamp: str) -> int:
    """Milliseconds since 1970 of ``2026-11-22T17:31:11.962+0000``, and of what ISO 8601 has. Raises ValueError."""
    moment = datetime.fromisoformat(timestamp)
    if moment.tzinfo is None:
        raise ValueError(f"a time without a zone: {timestamp!r}")
    return min(max(0, round(moment.timestamp() * 1000)), _LAST_TIME)


def order_of(time: int, offset: int) -> int:
    """The place of an alert among those of its node: by time, then as they are in the file.

    No alert has fewer than 64 bytes, so that no two of one millisecond are equal.
    """
    return time << _TIE_BITS | (offset >> 6) & ((1 << _TIE_BITS) - 1)


def _values(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """Names and values as text, in the order of the alert; nulls have none."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _values(f"{name}.{key}" if name else key, inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _values(name, inner)
    elif value is not None:
        yield name, json_text(value)
