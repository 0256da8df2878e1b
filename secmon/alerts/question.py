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


class AlertQuestion(Struct, frozen=True, kw_only=True):
    """Which alerts are meant: those that meet all of it.

    ``since`` and ``until`` (not included) are milliseconds since 1970. ``values``: a field has one of the values.
    ``levels``: lowest and highest. ``search``: words, all of which the alert has.
    """

    agents: AgentSelection = AgentSelection()
    since: int | None = None
    until: int | None = None
    q: str | None = None
    search: str | None = None
    levels: tuple[int, int] | None = None
    values: dict[str, tuple[str, ...]] = {}
