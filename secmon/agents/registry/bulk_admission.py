"""Adding many agents in one transaction: those that nobody is in the way of, by a few statements for all of them."""

from collections import Counter
from collections.abc import Sequence, Set

from sqlalchemy import Connection, select

from secmon.agents.names import ANY, MAX_GROUPS
from secmon.agents.registry import registry
from secmon.agents.registry.registry import Added, New
from secmon.agents.registry.schema import agents
from secmon.common.errors import SecmonError
from secmon.common.sqlite.engine import attempt
from secmon.config.auth import Force


def add_together(
    connection: Connection, wanted: Sequence[tuple[New, Force]], *, now: int, purge: bool, host_name: str
) -> list[Added | SecmonError]:
    """What ``registry.add`` makes of each, in their order; who is refused leaves nothing behind."""
    plain = _plain(connection, [new for new, _ in wanted], host_name)
    free = [new for new, _ in wanted if new.name in plain]
    try:
        entries = {entry.name: entry for entry in registry.add_without_conflicts(connection, free, now=now)}
    except SecmonError:
        entries = {}  # the ids do not suffice for all: some of them get one
    results: list[Added | SecmonError] = []
    for new, force in wanted:
        if new.name in entries:
            results.append(Added(entries[new.name]))
            continue
        with attempt(connection, results.append):
            results.append(registry.add(connection, new, now=now, force=force, purge=purge, host_name=host_name))
    return results


def _plain(connection: Connection, news: Sequence[New], host_name: str) -> Set[str]:
    """Names of those that can be added without a further look: nothing of theirs is asked for twice, or is taken."""
    times = Counter(new.name for new in news)
    names = {
        new.name
        for new in news
        if times[new.name] == 1
        and new.name != host_name
        and new.address == ANY
        and new.id is None
        and len(set(new.groups)) <= MAX_GROUPS
    }
    return names - set(connection.execute(select(agents.c.name).where(agents.c.name.in_(names))).scalars())
