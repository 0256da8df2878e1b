"""``etc/lists/feeds.yml``: which lists are renewed from which feeds, and how these are read."""

import re
from collections.abc import Callable, Mapping
from typing import Any, Literal, get_args

from msgspec import Struct

from secmon.common.download import DownloadError, check_url
from secmon.common.errors import MISSING, UNKNOWN, ConfigError, Fault
from secmon.config.values import seconds, size
from secmon.config.yaml import read_yaml

FEEDS_YML = "feeds.yml"
MAX_BYTES = 1 << 20

Format = Literal["lines", "list", "csv", "json"]
Kind = Literal["text", "address", "domain", "hash"]

_NAME = re.compile(r"[A-Za-z0-9_-]{1,200}", re.ASCII)
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}", re.ASCII)
_LEAST_SECONDS = 60
_MOST_SECONDS = 10 * 365 * 86400
_MOST_BYTES = 1 << 30
_MOST_ENTRIES = 10_000_000


class ListFeed(Struct, frozen=True, kw_only=True):
    """A feed and the list that it renews; the options are described in ``docs/keep-lists-current.md``.

    ``every`` and ``keep`` in seconds.
    """

    name: str
    url: str
    format: Format = "lines"
    kind: Kind = "text"
    value: str = ""
    key_field: str = ""
    value_field: str = ""
    expiry_field: str = ""
    delimiter: str = ","
    every: int = 3600
    keep: int = 0
    max_bytes: int = 64 << 20
    max_entries: int = 200_000
    sha256_url: str = ""
    headers: Mapping[str, str] = {}
    internal_redirects: bool = False


Feeds = Mapping[str, ListFeed]


class _Invalid(Exception):
    """The value of an option; says what is allowed, or with a Fault what is wrong."""


def parse_feeds(data: bytes, file: str = FEEDS_YML) -> Feeds:
    """The feeds by the name of their list. Raises ConfigError for the first fault."""
    if len(data) > MAX_BYTES:
        raise ConfigError(file, "size", len(data), f"{MAX_BYTES} bytes")
    document = read_yaml(data, file, code=1908, texts=True)
    top = _mapping(file, "document", document)
    for key in top:
        if key != "feeds":
            raise ConfigError(file, key, UNKNOWN, "feeds")
    return {name: _feed(file, name, each) for name, each in _mapping(file, "feeds", top.get("feeds")).items()}


def _feed(file: str, name: str, value: object) -> ListFeed:
    place = f"feeds.{name}"
    if not _NAME.fullmatch(name):
        raise ConfigError(file, "feeds", name[:200], "names of lists: letters, digits, _ and -")
    given = _mapping(file, place, value)
    options: dict[str, Any] = {"name": name}
    for option, text in given.items():
        if option not in _OPTIONS:
            raise ConfigError(file, f"{place}.{option[:200]}", UNKNOWN, ", ".join(_OPTIONS))
        try:
            options[option] = _OPTIONS[option](text)
        except _Invalid as error:
            shown = text[:200] if isinstance(text, str) and "url" not in option else Fault("not valid")
            raise ConfigError(file, f"{place}.{option}", shown, str(error)) from None
    if "url" not in options:
        raise ConfigError(file, f"{place}.url", MISSING, "an address")
    feed = ListFeed(**options)
    if feed.format in ("csv", "json") and not feed.key_field:
        raise ConfigError(file, f"{place}.key_field", MISSING, f"a field, for the format {feed.format}")
    return feed


def _mapping(file: str, key: str, value: object) -> dict[str, Any]:
    """An absent or empty value is an empty mapping."""
    if value in (None, ""):
        return {}
    if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
        raise ConfigError(file, key, Fault("not a mapping"), "names with values")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str) or len(value) > 4096 or not value.isprintable():
        raise _Invalid("a text on one line")
    return value


def _label(value: object) -> str:
    if '"' in (text := _text(value)):
        raise _Invalid("a text without quotes")
    return text


def _address(value: object) -> str:
    try:
        check_url(text := _text(value))
    except DownloadError as error:
        raise _Invalid(f"an address: {error}") from None
    return text


def _character(value: object) -> str:
    if value == "\\t":
        return "\t"
    if not isinstance(value, str) or len(value) != 1 or value in '"\r\n':
        raise _Invalid("one character, or \\t")
    return value


def _one_of(choices: tuple[str, ...]) -> Callable[[object], str]:
    def choose(value: object) -> str:
        if value not in choices:
            raise _Invalid(", ".join(choices))
        return str(value)

    return choose


def _number(parse: Callable[[str], int | None], least: int, most: int, unit: str) -> Callable[[object], int]:
    def number(value: object) -> int:
        found = parse(value) if isinstance(value, str) else None
        if found is None or not least <= found <= most:
            raise _Invalid(f"{least} to {most} {unit}")
        return found

    return number


def _count(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 12 else None


def _headers(value: object) -> dict[str, str]:
    if not isinstance(value, dict):
        raise _Invalid("headers by name")
    for name, text in value.items():
        if not _HEADER.fullmatch(str(name)) or not isinstance(text, str) or not (text.isascii() and text.isprintable()):
            raise _Invalid("headers by name, of printable ASCII characters")
    return value


def _flag(value: object) -> bool:
    if value not in ("yes", "no", "true", "false"):
        raise _Invalid("yes, no")
    return value in ("yes", "true")


_OPTIONS: Mapping[str, Callable[[object], object]] = {
    "url": _address,
    "format": _one_of(get_args(Format)),
    "kind": _one_of(get_args(Kind)),
    "value": _label,
    "key_field": _text,
    "value_field": _text,
    "expiry_field": _text,
    "delimiter": _character,
    "every": _number(seconds, _LEAST_SECONDS, _MOST_SECONDS, "seconds; 15m, 1h and 7d too"),
    "keep": _number(seconds, 0, _MOST_SECONDS, "seconds; 15m, 1h and 7d too"),
    "max_bytes": _number(size, 1, _MOST_BYTES, "bytes; 10M too"),
    "max_entries": _number(_count, 1, _MOST_ENTRIES, "entries"),
    "sha256_url": _address,
    "headers": _headers,
    "internal_redirects": _flag,
}
