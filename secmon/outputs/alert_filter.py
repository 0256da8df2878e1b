"""Which alerts an output wants: all the conditions of its section must hold (manager.md 4.3)."""

from collections.abc import Callable

from secmon.config.outputs import AlertConditions
from secmon.engine.matching.osmatch import OSMatch
from secmon.outputs.alert import Alert


class AlertFilter:
    """The compiled conditions of a section."""

    def __init__(self, conditions: AlertConditions) -> None:
        self._level = conditions.level
        self._rules = frozenset(conditions.rules)
        self._groups = _search(conditions.group.replace(",", "|"))
        self._place = _search(conditions.location)

    def wants(self, alert: Alert) -> bool:
        """Whether the output gets ``alert``."""
        return (
            alert.level >= self._level
            and (not self._rules or alert.rule in self._rules)
            and (self._groups is None or self._groups(alert.groups.encode()))
            and (self._place is None or self._place(alert.place.encode()))
        )


def _search(pattern: str) -> Callable[[bytes], bool] | None:
    """The test of an OS_Match expression, none for an empty one. Blanks around alternatives do not count."""
    alternatives = [one.strip() for one in pattern.split("|") if one.strip()]
    if not alternatives:
        return None
    test: Callable[[bytes], bool] = OSMatch("|".join(alternatives).encode()).test
    return test
