"""Dates and ages that clients write in ``q`` (conventions.md 5.3)."""

import re
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from secmon.common.errors import SecmonError
from secmon.common.query.syntax import EXCERPT

_INSTANT = re.compile(r"(\d{4})-(\d\d)-(\d\d)(?:[ T](\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?(?:Z|\+00:00)?)?", re.ASCII)
_LOOKS_ABSOLUTE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_LOOKS_RELATIVE = re.compile(r"\d+[dhms]", re.ASCII)
_AGE_PART = re.compile(r"(\d+)([dhms])", re.ASCII)
_AGE = re.compile(r"(?:\d+[dhms])++", re.ASCII)
_SECONDS = re.compile(r"\d+", re.ASCII)

_UNIT_SECONDS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
_FIRST = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_DIGITS = 12  # of a count: 10^12 seconds are 31000 years, before any date there is


class Age(NamedTuple):
    """A relative date: so many seconds ago."""

    seconds: int

    def before(self, now: datetime) -> datetime:
        """The instant ``seconds`` before ``now``, at the earliest 1970: nothing stored is older."""
        if self.seconds > (now - _FIRST).total_seconds():
            return _FIRST
        return now - timedelta(seconds=self.seconds)


def instant(text: str) -> datetime | None:
    """The UTC instant that ``text`` is wholly made of; None when it is no date or an impossible one.

    Forms: ``YYYY-MM-DD`` (midnight), then optionally a blank or T and ``HH:MM:SS``, a fraction of up to six digits,
    and ``Z`` or ``+00:00``.
    """
    found = _INSTANT.fullmatch(text)
    if found is None:
        return None
    year, month, day, hour, minute, second = (int(part or 0) for part in found.groups()[:6])
    fraction = int((found[7] or "").ljust(6, "0"))
    try:
        return datetime(year, month, day, hour, minute, second, fraction, tzinfo=UTC)
    except ValueError:  # the 30th of February
        return None


def moment(value: str) -> Age | datetime | None:
    """What the SQL engine takes ``value`` for; None: an impossible date, or one with trailing text: matches nothing.

    Raises 1411 for ages such as ``1h30`` or ``1d5x``, 1412 for everything that is neither age nor date.
    """
    value = value.strip()
    if _SECONDS.fullmatch(value):
        return Age(_count(value))
    if _AGE.fullmatch(value):
        return Age(sum(_count(number) * _UNIT_SECONDS[unit] for number, unit in _AGE_PART.findall(value)))
    if _LOOKS_RELATIVE.match(value):
        raise SecmonError(1411, repr(value[:EXCERPT]))
    if _LOOKS_ABSOLUTE.match(value):
        return instant(value)
    raise SecmonError(1412, repr(value[:EXCERPT]))


def _count(digits: str) -> int:
    significant = digits.lstrip("0")
    return int(significant or 0) if len(significant) <= _MAX_DIGITS else 10**_MAX_DIGITS
