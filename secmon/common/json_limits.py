"""What JSON every node can read, wherever in its program it is when it reads it.

The limits of the interpreter depend on how deep the stack already is, and those of the wire (64 bits) are not those of
JSON. A value near them would be taken by one node and break the answer, or the replica, of another.
"""

import msgspec

MAX_DEPTH = 200
"""Objects and lists within each other."""


def json_problem(value: object) -> str | None:
    """Why ``value`` (of JSON's own types) is nothing that can travel, for "the body ..."; None when it can."""
    try:
        msgspec.msgpack.encode(value)
    except OverflowError:
        return "holds an integer of more than 64 bits"
    except RecursionError:
        return _TOO_DEEP
    return _TOO_DEEP if _deeper(value) else None


_TOO_DEEP = f"is nested deeper than {MAX_DEPTH}"


def _deeper(value: object) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [inner for one in level for inner in _containers(one)]
        if not level:
            return False
    return True


def _containers(value: object) -> list[object]:
    if isinstance(value, dict):
        return [inner for inner in value.values() if isinstance(inner, dict | list)]
    return [inner for inner in value if isinstance(inner, dict | list)] if isinstance(value, list) else []
