"""Alerts that wait for one mail: the first of them whole, all of them counted."""

from collections import Counter
from collections.abc import Sequence

from secmon.outputs.alert import Alert

MOST_SHOWN = 50
"""Alerts that are in the mail; more are counted by their rules."""
_MOST_RULES = 1000


class Digest:
    """Grows to a bounded size, however many alerts wait."""

    def __init__(self) -> None:
        self.shown: list[Alert] = []
        self.count = 0
        self.highest = 0
        """Highest level."""
        self.rules: Counter[str] = Counter()
        """How many alerts are not shown, by id and description of their rules."""

    def __bool__(self) -> bool:
        return self.count > 0

    def add(self, alerts: Sequence[Alert]) -> None:
        for alert in alerts:
            self.count += 1
            self.highest = max(self.highest, alert.level)
            if len(self.shown) < MOST_SHOWN:
                self.shown.append(alert)
                continue
            rule = f"{alert.rule} (level {alert.level}) {alert.description[:200]}"
            self.rules[rule if rule in self.rules or len(self.rules) < _MOST_RULES else "of other rules"] += 1
