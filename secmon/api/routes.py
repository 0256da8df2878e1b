"""From a path and a method to an operation."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from secmon.cluster.catalogue import Operation

_NO_VALUES: Mapping[str, str] = {}


class RouteMatch(NamedTuple):
    """What a path leads to: the operation for the method asked, if any, its path values, and all methods."""

    operation: Operation | None
    values: Mapping[str, str] = _NO_VALUES
    methods: frozenset[str] = frozenset()


NO_MATCH = RouteMatch(None)

_Shape = tuple[str | None, ...]


class RouteTable:
    """The paths of all operations. Fixed paths cost one look-up; paths with parameters are compared by segments.

    One trailing slash is fine everywhere (conventions.md 0).
    """

    def __init__(self, operations: Iterable[Operation]) -> None:
        fixed: defaultdict[str, dict[str, Operation]] = defaultdict(dict)
        shapes: defaultdict[_Shape, dict[str, Operation]] = defaultdict(dict)
        for operation in operations:
            if "{" in operation.path:
                shape = tuple(None if one.startswith("{") else one for one in _segments(operation.path))
                shapes[shape][operation.method] = operation
            else:
                fixed[operation.path.rstrip("/")][operation.method] = operation
        self._fixed: dict[tuple[str, str], RouteMatch] = {}
        self._fixed_methods = {path: frozenset(methods) for path, methods in fixed.items()}
        for path, methods in fixed.items():
            for method, operation in methods.items():
                found = RouteMatch(operation, methods=self._fixed_methods[path])
                self._fixed[path, method] = self._fixed[f"{path}/", method] = found
        self._shapes: defaultdict[int, list[tuple[_Shape, dict[str, Operation]]]] = defaultdict(list)
        # Fixed segments win over parameters.
        for shape, methods in sorted(shapes.items(), key=lambda item: [one is None for one in item[0]]):
            self._shapes[len(shape)].append((shape, methods))

    def find(self, raw_path: str, method: str) -> RouteMatch:
        """Look ``raw_path`` (percent-encoded) up. Raises ValueError when it does not decode to UTF-8."""
        found = self._fixed.get((raw_path, method))
        return found if found is not None else self._search(raw_path, method)

    def _search(self, raw_path: str, method: str) -> RouteMatch:
        segments = [unquote_to_bytes(one).decode() for one in _segments(raw_path)]
        # An encoded slash is part of a value, never a separator, so such a path is no fixed one.
        path = "/".join(["", *segments]) if not any("/" in one for one in segments) else raw_path
        found = self._fixed.get((path, method))
        if found is not None:
            return found
        methods = set(self._fixed_methods.get(path, ()))
        for shape, operations in self._shapes.get(len(segments), ()):
            if all(value and (fixed is None or fixed == value) for fixed, value in zip(shape, segments, strict=True)):
                if operation := operations.get(method):
                    return RouteMatch(operation, _values(operation, segments), frozenset(methods | set(operations)))
                methods.update(operations)
        return RouteMatch(None, methods=frozenset(methods)) if methods else NO_MATCH


def _segments(path: str) -> list[str]:
    return path[1:].removesuffix("/").split("/") if path != "/" else []


def _values(operation: Operation, segments: list[str]) -> dict[str, str]:
    """Path values by the names that this very operation gives them."""
    return {
        name[1:-1]: value
        for name, value in zip(_segments(operation.path), segments, strict=True)
        if name.startswith("{")
    }
