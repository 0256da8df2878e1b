"""What an agent may have in the store, and what is known of it: rows, bytes, rows compared."""

from sqlalchemy import Connection

from secmon.inventory.byte_limits import ByteLimits
from secmon.inventory.row_limits import RowLimits


class AgentLimits:
    """The limits of all agents. It outlives transactions."""

    def __init__(self, rows: RowLimits | None = None, sizes: ByteLimits | None = None) -> None:
        self.rows, self.sizes = rows or RowLimits(), sizes or ByteLimits()
        self._seen: tuple[int, int] | None = None

    def begin(self, connection: Connection) -> None:
        """A write transaction has begun. The only other writers of agents' rows delete them: if there was one, those
        agents that had reached a limit are looked at again."""
        version = connection.exec_driver_sql("PRAGMA data_version").scalar_one()  # grows with commits by others
        seen = (id(connection.connection.dbapi_connection), version)
        if seen != self._seen:
            self.rows.forget(exact_only=True)
            self.sizes.forget(exact_only=True)
        self._seen = seen

    def forget(self) -> None:
        """The transaction was rolled back."""
        self.rows.forget()
        self.sizes.forget()
