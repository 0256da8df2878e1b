"""Settings of a YAML file, declared once: type, default, what is allowed, explanation.

A file is a tree of frozen msgspec structs. A leaf is ``Annotated[type, Setting]``, a section another struct whose
docstring explains it. Reading, the commented template and the dump are all read off that declaration.
"""

import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from ipaddress import ip_network
from typing import Annotated, TypeVar, get_origin, get_type_hints

import msgspec
import yaml

from secmon.common.errors import UNKNOWN, ConfigError
from secmon.config.values import is_host

S = TypeVar("S", bound=msgspec.Struct)

STARTUP_ERROR = 2000  # process code of a configuration that stops a start (conventions.md 11)
_BOOLEANS = {"yes": True, "true": True, "no": False, "false": False}


@dataclass(frozen=True)
class Setting:
    """One key: ``parse`` returns the value or raises ValueError; ``deprecated`` is the warning when it is set."""

    parse: Callable[[object], object]
    allowed: str
    about: str
    deprecated: str | None = None

    def retired(self, warning: str) -> "Setting":
        """The same setting, kept for old files only: warned about, not shown in dumps."""
        return replace(self, deprecated=warning)


@cache
def fields(kind: type[msgspec.Struct]) -> tuple[tuple[str, Setting | type[msgspec.Struct]], ...]:
    """The keys of a section in order, each with its setting or its sub-section.

    Kept, because evaluating the hints of a section again takes longer than all the rest of reading or dumping it.
    """
    return tuple(_declared(kind))


def _declared(kind: type[msgspec.Struct]) -> Iterator[tuple[str, Setting | type[msgspec.Struct]]]:
    for name, hint in get_type_hints(kind, include_extras=True).items():
        if get_origin(hint) is Annotated:
            yield from ((name, meta) for meta in hint.__metadata__ if isinstance(meta, Setting))
        elif isinstance(hint, type) and issubclass(hint, msgspec.Struct):
            yield name, hint


def bind(kind: type[S], raw: Mapping[object, object], file: str, warnings: list[str], prefix: str = "") -> S:
    """Build ``kind`` from parsed YAML; deprecations go to ``warnings``.

    Raises ConfigError 2000 naming file, dotted key, value and what is allowed.
    """
    known = dict(fields(kind))
    for key in raw:
        if key not in known:
            raise ConfigError(file, f"{prefix}{key}", UNKNOWN, f"the keys {', '.join(known)}", code=STARTUP_ERROR)
    values: dict[str, object] = {}
    for name, what in known.items():
        if name not in raw:
            continue
        value, key = raw[name], prefix + name
        if isinstance(what, Setting):
            values[name] = _leaf(what, value, file, key)
            if what.deprecated:
                warnings.append(f"{file}: {key}: {what.deprecated}")
        elif isinstance(value, Mapping):
            values[name] = bind(what, value, file, warnings, f"{key}.")
        else:
            allowed = f"a section with keys {', '.join(dict(fields(what)))}"
            raise ConfigError(file, key, value, allowed, code=STARTUP_ERROR)
    return kind(**values)


def _leaf(setting: Setting, value: object, file: str, key: str) -> object:
    try:
        return setting.parse(value)
    except ValueError:
        raise ConfigError(file, key, value, setting.allowed, code=STARTUP_ERROR) from None


def keys(kind: type[msgspec.Struct], prefix: str = "") -> Iterator[str]:
    """The dotted keys of all settings."""
    for name, what in fields(kind):
        if isinstance(what, Setting):
            yield prefix + name
        else:
            yield from keys(what, f"{prefix}{name}.")


def dump(section: msgspec.Struct) -> dict[str, object]:
    """Plain dictionaries and lists, retired settings left out."""
    result: dict[str, object] = {}
    for name, what in fields(type(section)):
        value = getattr(section, name)
        if not isinstance(what, Setting):
            result[name] = dump(value)
        elif what.deprecated is None:
            result[name] = list(value) if isinstance(value, tuple) else value
    return result


def render(
    section: msgspec.Struct, overrides: Mapping[str, object], indent: str = "", prefix: str = ""
) -> Iterator[str]:
    """Lines of a commented file: explanations after ``##``, values after ``#``, so that taking one ``#`` away from a
    line, or from each line of a block, leaves valid YAML. The dotted keys in ``overrides`` are not commented out."""
    for name, what in fields(type(section)):
        key, value = prefix + name, getattr(section, name)
        live = any(other == key or other.startswith(f"{key}.") for other in overrides)
        mark = "" if live else "#"
        if isinstance(what, Setting):
            if what.deprecated and not live:
                continue
            yield f"##{indent} {what.about} Allowed: {what.allowed}."
            yield f"{mark}{indent}{name}: {_yaml(overrides.get(key, value))}"
        else:
            yield f"##{indent} {inspect.getdoc(what)}"
            yield f"{mark}{indent}{name}:"
            yield from render(value, overrides, f"{indent}  ", f"{key}.")
        if not indent:
            yield ""


def _yaml(value: object) -> str:
    plain = list(value) if isinstance(value, tuple) else value
    return yaml.safe_dump(plain, default_flow_style=True, width=1000).removesuffix("...\n").strip()


def flag(about: str) -> Setting:
    """yes, no, true or false in any case, quoted or not."""

    def parse(value: object) -> bool:
        if isinstance(value, bool):
            return value
        if isinstance(value, str) and value.lower() in _BOOLEANS:
            return _BOOLEANS[value.lower()]
        raise ValueError

    return Setting(parse, "yes, no, true or false", about)


def whole(about: str, low: int, high: int | None = None) -> Setting:
    """A whole number, bounds included."""

    def parse(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value < low or (high is not None and value > high):
            raise ValueError
        return value

    return Setting(parse, f"a whole number, {low} or more" if high is None else f"{low} to {high}", about)


def positive_number(about: str) -> Setting:
    """A finite number above 0."""

    def parse(value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value <= 0:
            raise ValueError
        return float(value)

    return Setting(parse, "a number above 0", about)


def word(about: str, *words: str) -> Setting:
    """One of the words in any case; the value takes the spelling given here."""
    spelling = {each.lower(): each for each in words}

    def parse(value: object) -> str:
        found = spelling.get(_string(value).lower())
        if found is None:
            raise ValueError
        return found

    return Setting(parse, " | ".join(words), about)


def text(about: str, *, none_is_empty: bool = False, upper: bool = False) -> Setting:
    """Any text; with ``upper`` stored in capitals; with ``none_is_empty`` a key without a value is the empty text."""

    def parse(value: object) -> str:
        result = _string("" if value is None and none_is_empty else value)
        return result.upper() if upper else result

    return Setting(parse, "a text", about)


def host(about: str) -> Setting:
    """An IP address or host name."""

    def parse(value: object) -> str:
        if not is_host(_string(value)):
            raise ValueError
        return _string(value)

    return Setting(parse, "an IP address or host name", about)


def texts(about: str) -> Setting:
    """A list of texts."""
    return Setting(_strings, "a list of texts", about)


def networks(about: str) -> Setting:
    """A list of IP addresses and networks; the value has networks only."""

    def parse(value: object) -> tuple[str, ...]:
        return tuple(str(ip_network(each)) for each in _strings(value))

    return Setting(parse, "a list of IP addresses and networks, such as [10.0.0.5, 10.1.0.0/24]", about)


def text_or_texts(about: str) -> Setting:
    """A text or a list of texts."""
    return Setting(
        lambda value: value if isinstance(value, str) else _strings(value), "a text or a list of texts", about
    )


def _string(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError
    return value


def _strings(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ValueError
    return tuple(_string(each) for each in value)
