"""Whether the rows of an agent are those of its host, so that a scan does not take a part for the whole.

Agents send their packages one by one, and rows are deleted before they come again: a scan meanwhile would report
vulnerabilities as solved that are not (agent-data.md 2.6, 9.3).
"""

import hashlib

from sqlalchemy import bindparam, select

from secmon.inventory.changes import Changes
from secmon.inventory.components import COMPONENTS, Component
from secmon.inventory.synchronization import bookkeeping

PATIENCE_SECONDS = 600.0
"""After so long a change counts, whether the rows are complete or not: old agents never say so."""
SETTLING_SECONDS = 2.0
"""An upgrade of a package is the removal of one row and another row: both come within this time."""

_COMPONENTS = (COMPONENTS["syscollector_packages"], COMPONENTS["syscollector_osinfo"])


def is_ready(changes: Changes, agent: int, *, first: float, last: float, now: float) -> bool:
    """Whether to compare the agent now. ``first``, ``last``: when its changes came, in seconds since 1970."""
    if now - first >= PATIENCE_SECONDS:
        return True
    return now - last >= SETTLING_SECONDS and all(_is_complete(changes, agent, each) for each in _COMPONENTS)


def _is_complete(changes: Changes, agent: int, component: Component) -> bool:
    record = bookkeeping.read(component, agent, changes)
    if record.last_completion and record.last_attempt <= record.last_completion:
        return True
    if not record.last_agent_checksum:
        return False
    key = component.key
    checksums = select(component.table.c.checksum).where(component.in_ranges, key >= bindparam("first")).order_by(key)
    found = changes.execute(component.table, checksums, {"agent": agent, "first": ""}).scalars().all()
    digest = hashlib.sha1("".join(found).encode(), usedforsecurity=False).hexdigest()
    return bool(found) and digest == record.last_agent_checksum
