"""What an operation yields, and how the answers of several nodes become one.

An :class:`Outcome` is the first family of answers (items and failures), :class:`Plain` the second (an object or a
message), :class:`Raw` a body that is not JSON (conventions.md 1.1). The envelope is drawn from one of them, once, at
the node that was asked.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from secmon.common.errors import CATALOGUE, Kind, SecmonError
from secmon.common.json_text import json_text

Id = str | int


class Messages(NamedTuple):
    """The three texts of an operation's envelope (conventions.md 1.2)."""

    all: str = ""
    some: str = ""
    none: str = ""


class ItemFailure(msgspec.Struct, kw_only=True, frozen=True):
    """Ids that failed with one error."""

    code: int
    extra: str | None = None
    ids: tuple[Id, ...] = ()


class Outcome(msgspec.Struct, kw_only=True, tag="outcome", weakref=True):
    """Items done, items failed, and the nodes that did not answer.

    ``total`` counts the matches before paging (``None``: as many as there are items). ``extra`` holds further members
    of ``data``. ``notes`` are appended to the message. ``node_errors`` becomes ``dapi_errors``.

    ``text`` is the JSON text of the items, in place of ``items`` and with a ``total``: what has been encoded once goes
    to the client as it is. Only whole answers have it, to calls that take it (``Call.text``), never a node's part.
    """

    items: list[Any] = []
    total: int | None = None
    failures: list[ItemFailure] = []
    extra: dict[str, Any] = {}
    notes: list[str] = []
    node_errors: dict[str, str] = {}
    text: bytes = b""

    @property
    def count(self) -> int:
        return len(self.items) if self.total is None else self.total

    def with_text(self) -> "Outcome":
        """The same with its items as text."""
        if self.text:
            return self
        return msgspec.structs.replace(self, items=[], total=self.count, text=json_text(self.items))

    def fail(self, error: SecmonError, *ids: Id) -> None:
        """Record that ``ids`` (by default those of the error) failed."""
        self.failures.append(ItemFailure(code=error.code, extra=error.extra, ids=ids or error.ids))

    def failing(self, *ids: Id, hidden: Collection[int] = ()) -> Callable[[SecmonError], None]:
        """A function that records the failure of ``ids`` as :meth:`fail` does.

        Errors with ``hidden`` codes are left out: those of ids that the request did not name (rbac.md 7.5).
        """

        def fail(error: SecmonError) -> None:
            if error.code not in hidden:
                self.fail(error, *ids)

        return fail


class Plain(msgspec.Struct, kw_only=True, tag="plain", weakref=True):
    """An object and/or a message; never partial."""

    data: Any = None
    message: str | None = None
    notes: list[str] = []


class Raw(msgspec.Struct, kw_only=True, tag="raw", weakref=True):
    """A body that is not JSON."""

    body: bytes
    content_type: str


Result = Outcome | Plain | Raw


def merge(parts: Iterable[Outcome]) -> Outcome:
    """One outcome out of the nodes' own, in the order given; items are concatenated, totals added.

    Collections with a declared order are merged by ``query.merge`` instead; this then serves for the rest.
    """
    whole = Outcome(total=0)
    for part in parts:
        whole.items.extend(part.items)
        whole.total = (whole.total or 0) + part.count
        whole.failures.extend(part.failures)
        whole.notes.extend(note for note in part.notes if note not in whole.notes)
        whole.node_errors.update(part.node_errors)
        whole.extra = _merge_extra(whole.extra, part.extra)
    return whole


def _merge_extra(left: Mapping[str, Any], right: Mapping[str, Any]) -> dict[str, Any]:
    """Objects recursively, lists without duplicates, numbers added, the left value otherwise (conventions.md 1.6)."""
    merged = dict(left)
    for key, value in right.items():
        mine = merged.get(key)
        if mine is None:
            merged[key] = value
        elif isinstance(mine, dict) and isinstance(value, dict):
            merged[key] = _merge_extra(mine, value)
        elif isinstance(mine, list) and isinstance(value, list):
            merged[key] = mine + [item for item in value if item not in mine]
        elif isinstance(mine, int | float) and isinstance(value, int | float) and not isinstance(mine, bool):
            merged[key] = mine + value
    return merged


def failed_items(failures: Iterable[ItemFailure]) -> list[dict[str, Any]]:
    """``failed_items``: grouped by error, sorted by code, ids unique and sorted (conventions.md 1.3)."""
    groups: dict[tuple[int, str | None], set[Id]] = {}
    for failure in failures:
        groups.setdefault((failure.code, failure.extra), set()).update(failure.ids)
    return [
        {"error": _describe(code, extra), "id": sorted(ids, key=_id_order(ids))}
        for (code, extra), ids in sorted(groups.items(), key=lambda group: group[0][0])
    ]


def _describe(code: int, extra: str | None) -> dict[str, Any]:
    error = SecmonError(code, extra)
    described: dict[str, Any] = {"code": code, "message": error.message}
    if error.remediation:
        described["remediation"] = error.remediation
    return described


def _id_order(ids: set[Id]) -> Any:
    numeric = all(isinstance(one, int) or one.isdecimal() for one in ids)
    return int if numeric else str


_BEFORE_ITEMS = b'{"data": {"affected_items": '
_NO_ITEMS = _BEFORE_ITEMS + b"[]"


def envelope_text(result: Outcome | Plain, body: Mapping[str, Any], *, pretty: bool) -> bytes:
    """``body``, the envelope of ``result``, as clients receive it."""
    text = json_text(body, pretty=pretty)
    if not isinstance(result, Outcome) or not result.text:
        return text
    if not text.startswith(_NO_ITEMS):
        raise ValueError("items as text do not go into a body that is indented, or has others")
    return b"".join((_BEFORE_ITEMS, result.text, memoryview(text)[len(_NO_ITEMS) :]))


def envelope(result: Outcome | Plain, messages: Messages) -> dict[str, Any]:
    """The JSON object a client receives (conventions.md 1.1, 1.2)."""
    if isinstance(result, Plain):
        body: dict[str, Any] = {}
        if result.data is not None:
            body["data"] = result.data
        if result.message is not None:
            body["message"] = ". ".join([result.message, *result.notes])
        return body | {"error": 0}
    failed = failed_items(result.failures)
    failures = sum(len(entry["id"]) for entry in failed)
    if failures:
        error, message = (2, messages.some) if result.count else (1, messages.none)
    else:
        error, message = 0, messages.all if result.count else messages.none
    body = {
        "data": {
            "affected_items": result.items,
            "total_affected_items": result.count,
            "total_failed_items": failures,
            "failed_items": failed,
            **result.extra,
        },
        "message": ". ".join([message, *result.notes]) if message else ". ".join(result.notes),
    }
    if result.node_errors:
        body["dapi_errors"] = dapi_errors(result.node_errors)
    return body | {"error": error}


def dapi_errors(nodes: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """``{node: {"error": text}}``."""
    return {name: {"error": text} for name, text in sorted(nodes.items())}


def absorb(error: SecmonError, node: str) -> Outcome:
    """The share of an answer that a failing node leaves: failed items, and its name under ``node_errors``.

    A user's error with ids fails those ids; any other error fails the node itself.
    """
    outcome = Outcome()
    outcome.fail(error, *(error.ids or (node,)))
    if CATALOGUE[error.code].kind in (Kind.INTERNAL, Kind.CLUSTER, Kind.UNAVAILABLE):
        outcome.node_errors[node] = error.message
    outcome.node_errors.update(error.nodes)
    return outcome
