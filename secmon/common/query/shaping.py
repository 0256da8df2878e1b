"""Order, selection and identity of items that are Python objects (conventions.md 5.4, 5.6 and 5.7)."""

from collections.abc import Callable, Iterable

import msgspec

from secmon.common.errors import SecmonError
from secmon.common.query.list_conditions import json_text
from secmon.common.query.syntax import EXCERPT, Fields, Sort

Item = dict[str, object]
"""One element of a collection: JSON values only, so that it can be compared, searched and sent as it is."""

Key = tuple[tuple[int, float | str], ...]
_Tree = dict[str, "_Tree | None"]

_MISSING, _NUMBER, _TEXT, _OTHER = range(4)


def sort_key(sort: Sort, fields: Fields) -> Callable[[Item], Key]:
    """A total order over any values: missing and null, then numbers, then texts, then everything else as JSON.

    Lists count as texts: their elements joined by commas, as the database holds the groups of an agent. The list
    engine compares texts in lower case, the SQL engine as they are.
    """
    paths = [(tuple(name.split(".")), name in fields.numeric) for name in sort.fields]
    fold = fields.engine == "list"

    def key(item: Item) -> Key:
        return tuple(_rank(_at(item, path), fold, numeric) for path, numeric in paths)

    return key


def selector(select: tuple[str, ...] | None, fields: Fields, *, distinct: bool) -> Callable[[Item], Item]:
    """A function that gives the selected part of an item as a new object; the item itself when all is selected.

    Calling it raises 1724 when the collection declares no fields and the item has none of those selected.
    """
    if select is None:
        return lambda item: item
    chosen = _tree(select)
    always = {} if distinct else dict.fromkeys(fields.required)

    def pick(item: Item) -> Item:
        picked = _pick(item, chosen)
        if not picked and fields.select is None:
            raise SecmonError(1724, f"{', '.join(select)[:EXCERPT]!r}; selectable: {', '.join(map(str, item))}")
        return {name: item[name] for name in always if name in item} | picked

    return pick


def identity(item: object) -> bytes:
    """Equal for equal items, whatever the order of their keys; true and 1 differ."""
    return msgspec.json.encode(item, order="deterministic")


def _at(item: Item, path: tuple[str, ...]) -> object:
    value: object = item
    for name in path:
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value


def _rank(value: object, fold: bool, numeric: bool) -> tuple[int, float | str]:
    if value is None:
        return _MISSING, 0
    if isinstance(value, int | float):
        return _NUMBER, value
    if isinstance(value, list | tuple):
        value = ",".join(map(json_text, value))
    if isinstance(value, str):
        if numeric and value.isdecimal():
            return _NUMBER, int(value)
        return _TEXT, value.lower() if fold else value
    return _OTHER, json_text(value)


def _tree(names: Iterable[str]) -> _Tree:
    """``("a.b", "a.c", "d")`` to ``{"a": {"b": None, "c": None}, "d": None}``; a parent wins over its children."""
    root: _Tree = {}
    for name in names:
        level = root
        *parents, last = name.split(".")
        for parent in parents:
            below = level.setdefault(parent, {})
            if below is None:
                break
            level = below
        else:
            level[last] = None
    return root


def _pick(item: Item, tree: _Tree) -> Item:
    picked: Item = {}
    for name, below in tree.items():
        if name not in item:
            continue
        value = item[name]
        if below is None:
            picked[name] = value
        elif isinstance(value, dict) and (part := _pick(value, below)):
            picked[name] = part
    return picked
