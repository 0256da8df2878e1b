"""Times of day and days of the week (ruleset.md 6.11)."""

import re
from collections.abc import Callable
from datetime import datetime

_TIME = re.compile(r"(\d{1,2})(?::(\d{2}))?(am|pm)?", re.IGNORECASE)
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_GROUPS = {"weekdays": {0, 1, 2, 3, 4}, "weekends": {5, 6}}
_NAMES: dict[str, set[int]] = _GROUPS | {name: {at} for at, day in enumerate(_DAYS) for name in (day, day[:3])}

TimeTest = Callable[[datetime], bool]


def time_of_day(text: str) -> TimeTest:
    """``[!] H[:MM] [am|pm] - H[:MM] [am|pm]``, both ends included. Raises ValueError.

    A range that ends before it begins is the complement of the opposite one, without its ends.
    """
    compact = re.sub(r"\s+", "", text)
    negated = compact.startswith("!")
    parts = compact.removeprefix("!").split("-")
    if len(parts) != 2:
        raise ValueError(f"{text!r} is not a range of times")
    start, end = (_minute(part) for part in parts)
    if start > end:
        return lambda moment: not end <= moment.hour * 60 + moment.minute <= start
    return lambda moment: (start <= moment.hour * 60 + moment.minute <= end) is not negated


def _minute(text: str) -> int:
    found = _TIME.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not a time")
    hour, minute, half = int(found[1]), int(found[2] or 0), (found[3] or "").lower()
    if half:
        if not 1 <= hour <= 12:
            raise ValueError(f"{text!r} is not a time")
        hour = hour % 12 + (12 if half == "pm" else 0)
    if hour > 23 or minute > 59:
        raise ValueError(f"{text!r} is not a time")
    return hour * 60 + minute


def day_of_week(text: str) -> TimeTest:
    """Names of days in full or by three letters, ``weekdays``, ``weekends``; a leading ``!`` negates.

    See ruleset.md 14, Q10. Raises ValueError.
    """
    body = text.strip()
    negated = body.startswith("!")
    days: set[int] = set()
    names = [name for name in re.split(r"[,\s]+", body.removeprefix("!").lower()) if name]
    if not names:
        raise ValueError("no day is named")
    for name in names:
        if name not in _NAMES:
            raise ValueError(f"{name!r} is not a day")
        days |= _NAMES[name]
    chosen = frozenset(days)
    return lambda moment: (moment.weekday() in chosen) is not negated
