"""Texts of log lines: no control characters, bounded length."""

import re
from datetime import datetime

INDENT = "    "
"""Begins every continuation line, so that no text from outside can look like an entry."""

MAX_MESSAGE = 32_768
"""Characters of one message; the rest is cut, and said so."""

# C0 and C1 controls but tab and line feed, the Unicode line separators, what turns the direction of text around, and
# lone surrogates, which have no UTF-8 form.
_UNSAFE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def stamp(moment: datetime) -> str:
    """``YYYY/MM/DD HH:MM:SS`` in the host's time zone (manager.md 12.1)."""
    local = moment.astimezone()
    return f"{local.year:04d}/{local.month:02d}/{local.day:02d} {local.hour:02d}:{local.minute:02d}:{local.second:02d}"


def escape(text: str) -> str:
    r"""``text`` with control characters as ``\r``, ``\x1b``, ``\u2028``; tab and line feed stay."""
    return _UNSAFE.sub(_code, text)


def _code(match: re.Match[str]) -> str:
    number = ord(match[0])
    if match[0] == "\r":
        return "\\r"
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"


def one_line(text: str) -> str:
    r"""``text`` escaped, line feeds too (``\n``): for the fields of an entry."""
    if text.isprintable():  # nothing that is unsafe counts as printable, and most fields are
        return text
    return escape(text).replace("\n", "\\n")


def bounded(text: str) -> str:
    """``text`` without line feeds at its end, cut to :data:`MAX_MESSAGE` characters."""
    text = text.rstrip("\n")
    left_out = len(text) - MAX_MESSAGE
    return f"{text[:MAX_MESSAGE]}... ({left_out} more characters)" if left_out > 0 else text


def message_text(text: str) -> str:
    """``text`` as a log message: escaped, bounded to :data:`MAX_MESSAGE`, continuation lines indented."""
    text = escape(bounded(text))
    return text.replace("\n", f"\n{INDENT}") if "\n" in text else text
