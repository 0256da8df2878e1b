"""One property over a table: one test, whose failure lists every row that breaks it."""

from types import TracebackType

import pytest


class Offenders:
    """Checks rows one by one and fails at the end, with the name and the reason of each that failed::

        with Offenders() as offenders:
            for row in TABLE:
                with offenders.row(row.name):
                    assert ...

    A table without rows fails too: nothing was checked.
    """

    def __init__(self) -> None:
        self._checked = 0
        self._found: list[str] = []

    def row(self, *name: object) -> "_Row":
        """Collect whatever the body raises under this name."""
        self._checked += 1
        return _Row(" ".join(map(str, name)), self._found)

    def __enter__(self) -> "Offenders":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if error is not None:
            return
        if not self._checked:
            pytest.fail("the table has no rows", pytrace=False)
        if self._found:
            listed = "\n".join(self._found)
            pytest.fail(f"{len(self._found)} of {self._checked} rows:\n{listed}", pytrace=False)


class _Row:
    def __init__(self, name: str, found: list[str]) -> None:
        self._name, self._found = name, found

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> bool:
        if not isinstance(error, (Exception, pytest.fail.Exception)) or at is None:
            return False
        self._found.append(f"{self._name}: line {at.tb_lineno}: {type(error).__name__}: {error}")
        return True
