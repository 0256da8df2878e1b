"""Parameters of operations: declared as msgspec structs, read from text once.

A struct's fields are the operation's parameters. A field named in the path template is a path parameter, ``body`` is
the request body, every other field is a query parameter. Why msgspec and not pydantic: the same declaration decodes
query, body and the peers' msgpack, it gives JSON Schema for the OpenAPI document, it has no dependency, and a decode
costs about a microsecond, which is what a request of ours may cost.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

import msgspec
from msgspec import UNSET, Meta, Struct, inspect

MAX_LIMIT = 100_000

S = TypeVar("S", bound=Struct)


def text_format(name: str, pattern: str) -> Meta:
    """A string format (conventions.md 3): the whole value matches ``pattern``."""
    return Meta(pattern=f"^(?:{pattern})$(?!\\n)", title=name)


Names = Annotated[str, text_format("names", r"[A-Za-z0-9_\-.%]+")]
Alphanumeric = Annotated[str, text_format("alphanumeric", r"[\w,\-.+\s:]+")]
SortText = Annotated[str, text_format("sort", r"[A-Za-z0-9_\-,\s+.]+")]
SearchText = Annotated[str, text_format("search", r"[^;|&^*>]+")]
Offset = Annotated[int, Meta(ge=0, description="First element of the collection to return.")]
Limit = Annotated[int, Meta(ge=1, le=MAX_LIMIT, description="Most elements to return.")]
SortBy = Annotated[SortText | None, Meta(description="Fields to sort by, `-` in front for descending.")]
SearchFor = Annotated[SearchText | None, Meta(description="Text to look for, `-` in front for its absence.")]
Select = Annotated[list[Names] | None, Meta(description="Fields to return.")]
Q = Annotated[str | None, Meta(description="Query: clauses joined by `;` (and) and `,` (or).")]
Distinct = Annotated[bool, Meta(description="Return unique items only.")]


class NoParams(Struct, frozen=True, kw_only=True):
    """An operation that declares no parameter: every query parameter is ignored (conventions.md 2.1)."""


class Pretty(Struct, frozen=True, kw_only=True):
    """The one parameter that every operation but the logins takes."""

    pretty: Annotated[bool, Meta(description="Indent the JSON for people.")] = False


class Common(Pretty, frozen=True, kw_only=True):
    """What nearly every operation takes."""

    wait_for_complete: Annotated[bool, Meta(description="Lift the time limit of the request.")] = False


class Listing(Common, frozen=True, kw_only=True):
    """What an operation that lists a collection takes."""

    offset: Offset = 0
    limit: Limit = 500
    sort: SortBy = None
    search: SearchFor = None
    select: Select = None
    q: Q = None
    distinct: Distinct = False


class ParameterError(ValueError):
    """A parameter that is not what the operation takes; the text is the problem's ``detail`` (conventions.md 2.1)."""

    def __init__(self, detail: str, *, title: str = "Bad Request") -> None:
        super().__init__(detail)
        self.title = title


class Parameter(NamedTuple):
    """One parameter, as read off the struct."""

    name: str
    wire: str
    location: Literal["path", "query", "body"]
    kind: Literal["string", "integer", "boolean", "array", "body"]
    required: bool
    item: inspect.Type
    schema: Any
    default: Any
    format: str | None = None
    lowered: bool = False


LOWERCASED = frozenset(
    {"component", "configuration", "hash", "requirement", "status", "type", "section", "tag", "level", "resource"}
)
"""Query values that are lower-cased before they are checked (conventions.md 4.2)."""

NUMBERS = frozenset({"numbers", "numbers_or_all"})
"""Formats of ids that are numbers. One that is too large has its own error: it *is* a number."""

MAX_NUMBER = 10**18 - 1
"""The largest of them: what every store and encoder on the way holds."""

_INTEGER = re.compile(r"[+-]?[0-9]{1,4000}", re.ASCII)  # int() refuses texts of more than 4300 digits
_BITS_64 = (-(2**63), 2**64 - 1)
"""What the messages between nodes hold."""


def describe(params: type[Struct], path: str) -> tuple[Parameter, ...]:
    """The parameters of ``params``, in the order of declaration; ``path`` is the operation's template."""
    in_path = set(re.findall(r"{(\w+)}", path))
    return tuple(_parameter(field, in_path) for field in msgspec.structs.fields(params))


def _parameter(field: msgspec.structs.FieldInfo, in_path: set[str]) -> Parameter:
    name = field.encode_name
    location: Literal["path", "query", "body"] = (
        "path" if name in in_path else "body" if field.name == "body" else "query"
    )
    required = field.default is msgspec.NODEFAULT and field.default_factory is msgspec.NODEFAULT
    item = _without_none(inspect.type_info(field.type))
    kind: Literal["string", "integer", "boolean", "array", "body"] = "string"
    if location == "body":
        kind = "body"
    elif isinstance(item, inspect.IntType):
        kind = "integer"
    elif isinstance(item, inspect.BoolType):
        kind = "boolean"
    elif isinstance(item, inspect.ListType):
        kind, item = "array", _bare(item.item_type)
    default = None if field.default is msgspec.NODEFAULT else field.default
    lowered = location == "query" and name in LOWERCASED
    shape = _format_name(inspect.type_info(field.type))
    return Parameter(field.name, name, location, kind, required, item, field.type, default, shape, lowered)


def _bare(type_info: inspect.Type) -> inspect.Type:
    return type_info.type if isinstance(type_info, inspect.Metadata) else type_info


def _format_name(type_info: inspect.Type) -> str | None:
    """The ``title`` that :func:`text_format` put on the type or on one of its parts."""
    if isinstance(type_info, inspect.Metadata):
        title = (type_info.extra_json_schema or {}).get("title")
        return str(title) if title else _format_name(type_info.type)
    if isinstance(type_info, inspect.UnionType):
        return next((name for one in type_info.types if (name := _format_name(one))), None)
    return _format_name(type_info.item_type) if isinstance(type_info, inspect.ListType) else None


def _without_none(type_info: inspect.Type) -> inspect.Type:
    type_info = _bare(type_info)
    if isinstance(type_info, inspect.UnionType):
        rest = [_bare(one) for one in type_info.types if not isinstance(one, inspect.NoneType)]
        return rest[0]
    return type_info


def read_text(
    parameters: Iterable[Parameter], query: Iterable[tuple[str, str]], path: Mapping[str, str]
) -> dict[str, Any]:
    """Values by wire name, from the query string's pairs and the path's values.

    A blank value counts as absent; of a repeated scalar the last counts; repeated arrays are joined (conventions.md
    4.1). Raises :class:`ParameterError` for the first fault: unknown names, then query values, then path values.
    """
    parameters = tuple(parameters)
    declared = [one for one in parameters if one.location == "query"]
    given = _gather(query, {one.wire for one in declared if one.kind == "array"})
    if declared and (unknown := [name for name in given if name not in {one.wire for one in declared}]):
        raise ParameterError(f"Extra query parameter(s) {', '.join(unknown)} not in spec")
    values: dict[str, Any] = {}
    for parameter in declared:
        text = given.get(parameter.wire)
        if text is not None:
            values[parameter.wire] = _value(parameter, text)
        elif parameter.required:
            raise ParameterError(f"Missing query parameter '{parameter.wire}'")
    for parameter in parameters:
        if parameter.location == "path":
            values[parameter.wire] = _value(parameter, path[parameter.wire])
    return values


def _gather(query: Iterable[tuple[str, str]], arrays: set[str]) -> dict[str, str]:
    given: dict[str, str] = {}
    for name, text in query:
        if not text:
            continue
        given[name] = f"{given[name]},{text}" if name in arrays and name in given else text
    return given


def _value(parameter: Parameter, text: str) -> Any:
    if parameter.lowered:
        text = text.lower()
    match parameter.kind:
        case "boolean":
            if text.lower() not in ("true", "false"):
                raise _wrong_type(parameter)
            return text.lower() == "true"
        case "integer":
            if not _INTEGER.fullmatch(text):
                raise _wrong_type(parameter)
            return _within_64_bits(int(_check(parameter, int(text), "")))
        case "array":
            return [_element(parameter, one, index) for index, one in enumerate(text.split(","))]
        case _:
            return _check(parameter, text, "")


def _element(parameter: Parameter, text: str, index: int) -> str | int:
    if isinstance(parameter.item, inspect.IntType):
        if not _INTEGER.fullmatch(text):
            raise ParameterError(f"{text!r} is not of type 'integer'. On instance[{index}]: {text!r}")
        number = int(_check(parameter, int(text), f"[{index}]"))
        if _within_64_bits(number) != number:
            raise ParameterError(f"{number} is greater than the maximum of {_BITS_64[1]}. On instance[{index}]")
        return number
    return _check(parameter, text, f"[{index}]")


def _within_64_bits(number: int) -> int:
    """``number``, or the nearest that fits the messages between nodes; no collection is that large."""
    low, high = _BITS_64
    return min(max(number, low), high)


def _wrong_type(parameter: Parameter) -> ParameterError:
    where = f"{parameter.location} parameter '{parameter.wire}'"
    return ParameterError(f"Wrong type, expected '{parameter.kind}' for {where}")


def _check(parameter: Parameter, value: str | int, where: str) -> str | int:
    """The bounds, format and enumeration of the parameter; texts as conventions.md 2.1 has them."""
    kind = parameter.item
    if isinstance(kind, inspect.IntType) and isinstance(value, int):
        if kind.ge is not None and value < kind.ge:
            raise ParameterError(f"{value} is less than the minimum of {kind.ge}. On instance{where}: {value}")
        if kind.le is not None and value > kind.le:
            raise ParameterError(f"{value} is greater than the maximum of {kind.le}. On instance{where}: {value}")
    elif isinstance(kind, inspect.LiteralType):
        if value not in kind.values:
            raise ParameterError(f"{value!r} is not one of {sorted(kind.values, key=str)!r}. On instance{where}")
    elif isinstance(kind, inspect.StrType) and isinstance(value, str):
        _check_text(parameter.format, kind, value, where)
    return value


def _check_text(name: str | None, kind: inspect.StrType, value: str, where: str) -> None:
    if kind.min_length is not None and len(value) < kind.min_length:
        raise ParameterError(f"{value!r} is too short. On instance{where}: {value!r}")
    if kind.max_length is not None and len(value) > kind.max_length:
        raise ParameterError(f"{value!r} is too long. On instance{where}")
    if "\0" in value:
        raise ParameterError(f"{value!r} holds a NUL character. On instance{where}")
    if kind.pattern is not None and not re.search(kind.pattern, value):
        if name in NUMBERS and value.isascii() and value.isdecimal():
            raise ParameterError(f"{value} is greater than the maximum of {MAX_NUMBER}. On instance{where}: {value}")
        raise ParameterError(f"{value!r} is not a {name or kind.pattern!r}. On instance{where}: {value!r}")


def build(params: type[S], values: Mapping[str, Any]) -> S:
    """The struct out of values that a peer or :func:`read_text` gave; checks everything again.

    Raises :class:`ParameterError`.
    """
    try:
        return msgspec.convert({name: value for name, value in values.items() if value is not UNSET}, params)
    except msgspec.ValidationError as error:
        raise ParameterError(str(error)) from None
