"""The record of an agent's synchronization of a component (docs/reference/agent-data.md 2.6)."""

from dataclasses import asdict, dataclass, replace

from sqlalchemy import bindparam, select

from secmon.inventory.changes import Changes
from secmon.inventory.components import Component
from secmon.inventory.schema import synchronizations


@dataclass(frozen=True, slots=True)
class Record:
    """Times are seconds since 1970 by the agent's clock.

    ``last_manager_checksum``: of all rows of the component, and empty once one of them has changed.
    """

    last_attempt: int = 0
    last_completion: int = 0
    n_attempts: int = 0
    n_completions: int = 0
    last_manager_checksum: str = ""
    last_agent_checksum: str = ""

    def after_check(self, time: int, checksum: str, equal: bool) -> "Record":
        """The record after a check of the whole component with the agent's ``checksum``."""
        attempt = replace(self, last_attempt=time, n_attempts=self.n_attempts + 1, last_agent_checksum=checksum)
        if not equal:
            return replace(attempt, last_manager_checksum="")
        return replace(
            attempt, last_completion=time, n_completions=self.n_completions + 1, last_manager_checksum=checksum
        )


_RECORD = select(*(synchronizations.c[name] for name in Record.__slots__)).where(
    synchronizations.c.agent_id == bindparam("agent"), synchronizations.c.component == bindparam("name")
)


def read(component: Component, agent: int, changes: Changes) -> Record:
    """The record, as rows that have changed meanwhile leave it."""
    changes.void_checksums()
    row = changes.execute(synchronizations, _RECORD, {"agent": agent, "name": component.name}).one_or_none()
    return Record() if row is None else Record(*row)


def write(component: Component, agent: int, record: Record, changes: Changes) -> None:
    changes.save(synchronizations, {"agent_id": agent, "component": component.name, **asdict(record)})
