"""The helper that checks a table in one test."""

import pytest

from tests.offenders import Offenders


def test_all_rows_are_checked_and_those_that_fail_are_named() -> None:
    checked = []

    def check() -> None:
        with Offenders() as offenders:
            for number in (1, 2, 3, 4):
                with offenders.row("row", number):
                    checked.append(number)
                    if number == 4:
                        with pytest.raises(ValueError):
                            pass
                    assert number != 2

    with pytest.raises(pytest.fail.Exception, match="2 of 4 rows") as failure:
        check()
    assert checked == [1, 2, 3, 4]
    lines = str(failure.value).splitlines()[1:]
    assert "row 2" in lines[0]
    assert "assert 2 != 2" in lines[0]
    assert [line for line in lines if "row 4" in line and "DID NOT RAISE" in line]


def test_a_table_without_rows_fails() -> None:
    with pytest.raises(pytest.fail.Exception, match="no rows"), Offenders():
        pass
