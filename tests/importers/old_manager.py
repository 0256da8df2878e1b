"""The folder of an invented 4.x manager."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

KEY = "0123456789abcdef" * 4


class OldManager:
    """Starts with a group ``default`` and no agent."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for folder in ("etc/shared/default", "queue/db", "queue/rids"):
            (root / folder).mkdir(parents=True)
        (root / "etc/shared/ar.conf").write_text("restart-ossec0 - restart-ossec.sh - 0\n")
        (root / "etc/client.keys").touch()
        self.file("default/agent.conf", "<agent_config/>\n")
        self.file("default/merged.mg", "#default\n")
        with closing(self._database()) as connection:
            connection.executescript(
                """CREATE TABLE agent (id INTEGER PRIMARY KEY, name TEXT, date_add INTEGER, "group" TEXT);
                CREATE TABLE "group" (id INTEGER PRIMARY KEY, name TEXT UNIQUE);
                CREATE TABLE belongs (id_agent INTEGER, id_group INTEGER, priority INTEGER);
                INSERT INTO agent VALUES (0, 'manager', 1, NULL);"""
            )

    @property
    def database(self) -> Path:
        return self.root / "queue/db/global.db"

    def _database(self) -> sqlite3.Connection:
        return sqlite3.connect(self.database, isolation_level=None)

    def file(self, name: str, text: str) -> None:
        path = self.root / "etc/shared" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)

    def line(self, text: str) -> None:
        with (self.root / "etc/client.keys").open("a") as file:
            file.write(f"{text}\n")

    def agent(
        self, agent: int, name: str, *, address: str = "any", groups: Sequence[str] = (), added: int = 1000
    ) -> None:
        self.line(f"{agent:03d} {name} {address} {KEY}")
        with closing(self._database()) as connection:
            connection.execute("INSERT INTO agent VALUES (?, ?, ?, ?)", (agent, name, added, ",".join(groups) or None))
            for priority, group in enumerate(groups):
                connection.execute('INSERT OR IGNORE INTO "group" (name) VALUES (?)', (group,))
                connection.execute(
                    'INSERT INTO belongs SELECT ?, id, ? FROM "group" WHERE name = ?', (agent, priority, group)
                )
