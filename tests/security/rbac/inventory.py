"""The small world of the worked cases."""

from collections.abc import Set

AGENTS = frozenset({"000", "001", "002", "003", "004", "005", "006"})
GROUPS: dict[str, Set[str]] = {
    "web": frozenset({"001", "002"}),
    "db": frozenset({"002", "003"}),
    "default": frozenset({"004"}),
}
EXISTING: dict[str, Set[str]] = {
    "agent:id": AGENTS,
    "agent:group": frozenset().union(*GROUPS.values()),
    "group:id": frozenset(GROUPS),
    "node:id": frozenset({"m1", "w1", "w2"}),
    "rule:file": frozenset({"0010-a.xml", "0020-b.xml", "local_rules.xml"}),
    "role:id": frozenset(str(number) for number in range(1, 8)),
    "user:id": frozenset({"1", "2"}),
}


class WorldInventory:
    """Answers from the tables above and counts the questions."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []

    def expand(self, kind: str, value: str) -> Set[str]:
        self.asked.append((kind, value))
        if value == "*":
            return EXISTING.get(kind, frozenset())
        return GROUPS.get(value, frozenset()) if kind == "agent:group" else frozenset({value})
