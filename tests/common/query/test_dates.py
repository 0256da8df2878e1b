"""Ages and dates (conventions.md 5.3)."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secmon.common.errors import SecmonError
from secmon.common.query.dates import Age, instant, moment

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("0", 0), ("90", 90), (" 90 ", 90), ("1d", 86400), ("2h", 7200), ("3m", 180), ("4s", 4), ("1d12h", 129600)],
)
def test_ages(value: str, seconds: int) -> None:
    assert moment(value) == Age(seconds)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2026-11-20", datetime(2026, 11, 20, tzinfo=UTC)),
        ("2026-11-20 10:00:01", datetime(2026, 11, 20, 10, 0, 1, tzinfo=UTC)),
        ("2026-11-20T10:00:01", datetime(2026, 11, 20, 10, 0, 1, tzinfo=UTC)),
        ("2026-11-20T10:00:01Z", datetime(2026, 11, 20, 10, 0, 1, tzinfo=UTC)),
        ("2026-11-20T10:00:01+00:00", datetime(2026, 11, 20, 10, 0, 1, tzinfo=UTC)),
        ("2026-11-20T10:00:01.5Z", datetime(2026, 11, 20, 10, 0, 1, 500000, tzinfo=UTC)),
        ("2026-13-45", None),
        ("0000-01-01", None),
        ("2026-11-20x", None),
        ("2026-11-20 10:00", None),
        ("2026-11-20T10:00:01.1234567Z", None),
    ],
)
def test_instants(value: str, expected: datetime | None) -> None:
    assert moment(value) == expected
    assert instant(value) == expected


@pytest.mark.parametrize(
    ("value", "code"),
    [("1h30", 1411), ("1d5x", 1411), ("1w", 1412), ("1x", 1412), ("yesterday", 1412), ("-1d", 1412), ("١d", 1412)],
)
def test_refused(value: str, code: int) -> None:
    with pytest.raises(SecmonError) as caught:
        moment(value)
    assert caught.value.code == code


def test_an_age_beyond_all_dates_is_the_first_instant() -> None:
    first = datetime(1970, 1, 1, tzinfo=UTC)
    for value in ("9" * 8000, "9" * 8000 + "d", "100000d"):
        age = moment(value)
        assert isinstance(age, Age)
        assert age.before(NOW) == first
    assert Age(60).before(NOW) == NOW - timedelta(minutes=1)


@given(st.datetimes(timezones=st.just(UTC)))
def test_written_instants_are_read_back(when: datetime) -> None:
    assert instant(when.isoformat()) == when
    assert moment(when.strftime("%Y").zfill(4) + when.strftime("-%m-%d %H:%M:%S")) == when.replace(microsecond=0)
