"""What is asked of the store."""

from msgspec import Struct


class AgentSelection(Struct, frozen=True):
    """Agents by id: exactly ``ids``, or all but ``ids``."""

    ids: tuple[str, ...] = ()
    excluded: bool = True

    @property
    def nothing(self) -> bool:
        """Whether there is no such agent."""
        return not self.ids and not self.excluded

    def within(self, other: "AgentSelection") -> bool:
        """Whether these agents are among ``other``, whichever agents there are."""
        if self.excluded:
            return other.excluded and set(other.ids) <= set(self.ids)
        return all((one in other.ids) is not other.excluded for one in set(self.ids))


class AlertQuestion(Struct, frozen=True, kw_only=True):
    """Which alerts are meant: those that meet all of it.

    ``since`` and ``until`` (not included) are milliseconds since 1970. ``values``: a field has one of the values.
    ``levels``: lowest and highest. ``search``: words, all of which the alert has. ``acknowledged``: whether it is;
    asked of the store only, not of an alert alone.
    """

    agents: AgentSelection = AgentSelection()
    since: int | None = None
    until: int | None = None
    q: str | None = None
    search: str | None = None
    levels: tuple[int, int] | None = None
    values: dict[str, tuple[str, ...]] = {}
    acknowledged: bool | None = None
