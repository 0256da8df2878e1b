"""Decoding of JSON bodies; errors have the texts of conventions.md 2.1."""

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec import inspect

from secmon.cluster.parameters import ParameterError
from secmon.common.json_limits import json_problem
from secmon.common.logfile.secrets import MASK, SecretMasker, is_secret

T = TypeVar("T")

TOO_LONG = "too_long"
"""Key of ``Meta.extra`` for the title of the problem when an array has too many items."""

_MAX_QUOTED = 200
"""Characters of a wrong value that an error quotes."""

_NAMES = {"str": "string", "int": "integer", "float": "number", "bool": "boolean"}
"""JSON Schema's names of types, where msgspec has others."""

_UNKNOWN = "Invalid field found"

_PLACE = re.compile(r"(?P<text>.*?)(?: - at `\$(?P<path>.*)`)?", re.DOTALL)
_STEP = re.compile(r"\.(?P<name>[^.\[]+)|\[(?P<index>[0-9]+)\]")


def read_body(raw: bytes, kind: type[T]) -> T:
    """A JSON body as ``kind``. Raises :class:`ParameterError` for the first fault.

    Bodies that cannot be sent to another node are refused by all nodes, so that all give the same answer.
    """
    if raw.strip() == b"null":
        raise ParameterError("Request body is not valid JSON")
    try:
        body = _decode(raw, kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        shown = raw[:_MAX_QUOTED].decode("utf-8", "replace")
        raise ParameterError(f"{shown!r} is not of type 'object'") from None
    if fault := json_problem(msgspec.to_builtins(body)):
        raise ParameterError(f"The body {fault}")
    return body


def _decode(raw: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.ValidationError as error:
        # Decoded again as a whole: a syntax error further on takes precedence over a wrong type.
        raise _described(str(error), msgspec.json.decode(raw), kind) from None


class _Fault(NamedTuple):
    """The text of msgspec, the path to the fault, the value there, and the expected type."""

    text: str
    steps: Sequence[str | int]
    value: Any
    wanted: inspect.Type

    @property
    def shown(self) -> str:
        """The value, truncated and without secrets; the rest of it is not formatted."""
        if any(isinstance(step, str) and is_secret(step) for step in self.steps):
            return repr(MASK)
        text = repr(SecretMasker(_MAX_QUOTED).apply(self.value))
        return text if len(text) <= _MAX_QUOTED else f"{text[:_MAX_QUOTED]}..."


def _described(message: str, body: Any, kind: Any) -> ParameterError:
    place = _PLACE.fullmatch(message)
    assert place is not None  # the pattern takes any text
    steps = [step["name"] or int(step["index"]) for step in _STEP.finditer(place["path"] or "")]
    value, wanted = _follow(body, kind, steps)
    fault = _Fault(place["text"], steps, value, wanted)
    for pattern, describe in _FAULTS:
        if match := pattern.fullmatch(fault.text):
            detail = describe(fault, match[1])
            break
    else:
        return ParameterError(message)
    where = ".".join(map(str, steps))
    title = _metadata(wanted).get(TOO_LONG) if "length <=" in fault.text else None
    located = f"{detail} - {where!r}" if where and not detail.startswith(_UNKNOWN) else detail
    return ParameterError(located, title=title or "Bad Request")


def _follow(value: Any, kind: Any, steps: Sequence[str | int]) -> tuple[Any, inspect.Type]:
    """The value at ``steps``, and its declared type; as far as they can be followed."""
    wanted = inspect.type_info(kind)
    for step in steps:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):  # msgspec does not give the exact place
            value = None
        wanted = _inner(_bare(wanted), step)
    return value, wanted


def _inner(kind: inspect.Type, step: str | int) -> inspect.Type:
    if isinstance(kind, inspect.StructType):
        return next((field.type for field in kind.fields if field.encode_name == step), inspect.AnyType())
    return kind.item_type if isinstance(kind, inspect.ListType) else inspect.AnyType()


def _bare(kind: inspect.Type) -> inspect.Type:
    if isinstance(kind, inspect.Metadata):
        return _bare(kind.type)
    if isinstance(kind, inspect.UnionType):
        return next((_bare(one) for one in kind.types if not isinstance(one, inspect.NoneType)), kind)
    return kind


def _metadata(kind: inspect.Type) -> dict[str, Any]:
    """The title of the format, and the contents of ``Meta.extra``."""
    if isinstance(kind, inspect.Metadata):
        return {**_metadata(kind.type), **(kind.extra_json_schema or {}), **(kind.extra or {})}
    if isinstance(kind, inspect.UnionType):
        return {name: value for one in kind.types for name, value in _metadata(one).items()}
    return {}


def _wrong_type(fault: _Fault, wanted: str) -> str:
    name = wanted.split(" | ")[0]
    return f"{fault.shown} is not of type '{_NAMES.get(name, name)}'"


def _wrong_word(fault: _Fault, _: str) -> str:
    kind = _bare(fault.wanted)
    words = list(kind.values) if isinstance(kind, inspect.LiteralType) else []
    return f"{fault.shown} is not one of {sorted(words, key=str)!r}"


def _wrong_form(fault: _Fault, _: str) -> str:
    return f"{fault.shown} is not a {str(_metadata(fault.wanted).get('title', 'text of this form'))!r}"


_FAULTS: Sequence[tuple[re.Pattern[str], Callable[[_Fault, str], str]]] = (
    (re.compile(r"Expected `([^`]*)`, got `[^`]*`"), _wrong_type),
    (re.compile(r"Object missing required field `(.*)`"), lambda _, name: f"{name!r} is a required property"),
    (re.compile(r"Object contains unknown field `(.*)`", re.DOTALL), lambda _, name: f"{_UNKNOWN} {{{name!r}}}"),
    (re.compile(r"Expected `object` of length >= (.*)"), lambda it, _: f"{it.shown} does not have enough properties"),
    (re.compile(r"Expected `[^`]*` of length >= (.*)"), lambda fault, _: f"{fault.shown} is too short"),
    (re.compile(r"Expected `[^`]*` of length <= (.*)"), lambda fault, _: f"{fault.shown} is too long"),
    (re.compile(r"Expected `[^`]*` >= (.*)"), lambda fault, low: f"{fault.shown} is less than the minimum of {low}"),
    (re.compile(r"Expected `[^`]*` <= (.*)"), lambda fault, top: f"{fault.shown} is greater than the maximum of {top}"),
    (re.compile(r"Invalid enum value (.*)", re.DOTALL), _wrong_word),
    (re.compile(r"Expected `str` matching regex (.*)", re.DOTALL), _wrong_form),
)  # fmt: skip
