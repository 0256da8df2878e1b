"""Values of messages as the store takes them: texts, and numbers of 64 bits (docs/reference/agent-data.md 12)."""

import math
import re
from typing import TypeGuard

MAX_INTEGER = (1 << 63) - 1
"""The largest integer of the store; the smallest is ``-MAX_INTEGER - 1``."""
_NUMBER = re.compile(r"[+-]?[0-9]+")
_SURE_DIGITS = 18
"""So many digits are within 64 bits."""


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether ``value`` is a number; a truth value is none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def integer(value: object) -> int | None:
    """An integer from a number, a truth value or a decimal text; None from anything else.

    Fractions are cut off. What is outside 64 bits becomes the nearest integer within.
    """
    if isinstance(value, int):
        return int(value) if -MAX_INTEGER <= value <= MAX_INTEGER else saturated(value)
    if isinstance(value, float):
        return saturated(int(value)) if math.isfinite(value) else None
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        return _from_digits(value)
    return None


def saturated(value: int) -> int:
    """``value``, or the nearest integer that the store can hold."""
    return max(-MAX_INTEGER - 1, min(MAX_INTEGER, value))


def real(value: object) -> float | None:
    """A finite number from a number or a decimal text; None from anything else."""
    try:
        found = float(value) if isinstance(value, int | float | str) else math.nan
    except (ValueError, OverflowError):
        return None
    return found if math.isfinite(found) else None


def text(value: object) -> str | None:
    """A text from a text or a number; None from anything else."""
    if isinstance(value, str):
        return value
    return str(value) if is_number(value) else None


def _from_digits(value: str) -> int:
    if len(value) <= _SURE_DIGITS:
        return int(value)
    digits = value.lstrip("+-").lstrip("0")
    number = int(digits or "0") if len(digits) <= _SURE_DIGITS + 2 else MAX_INTEGER + 1
    return saturated(-number if value[0] == "-" else number)
