"""What an operator reads when the URL of the store of record is wrong, or its server does not answer."""

from pathlib import Path

import psycopg
import pytest
from sqlalchemy.exc import OperationalError

from secmon.cluster.record.connection_faults import reason_of
from secmon.cluster.record.engine import RecordAddress, open_record, unavailable
from tests.postgres import PostgresServer

SERVER = 'connection failed: connection to server at "10.0.0.1", port 5432 failed: '
FATAL = f"{SERVER}FATAL:  "
TEXTS = {
    "failed to resolve host 'db.invalid': [Errno -2] Name or service not known": "the host is unknown",
    f'{FATAL}password authentication failed for user "secmon"': "the password is wrong: see store_password_file",
    f"{SERVER}fe_sendauth: no password supplied": "a password is wanted",
    f"{SERVER}server does not support SSL, but SSL was required": "the server has no TLS",
    f"{SERVER}SSL error: certificate verify failed": "TLS has failed: check the certificate",
    f'{SERVER}server certificate for "a" does not match host name "b"': "TLS has failed",
    f'{FATAL}no pg_hba.conf entry for host "10.0.0.9"': "the server lets nobody in from here",
    f"{FATAL}sorry, too many clients already": "no free connections",
    f"{SERVER}session is read-only": "it is a standby, which accepts no changes",
    f"{FATAL}the database system is starting up": "the server starts or stops",
    "connection timeout expired": "no answer: is the host up",
    "something else": "something else",
}


@pytest.mark.parametrize(("text", "expected"), TEXTS.items())
def test_what_libpq_says(text: str, expected: str) -> None:
    found = reason_of(psycopg.OperationalError(text))
    assert found.startswith(expected)
    assert text.removeprefix("connection failed: ") in found


def test_each_host_that_was_tried_is_named() -> None:
    lines = [
        f"{SERVER}Connection refused\n\tIs the server running on that host?\nMultiple connection attempts failed.",
        f"- host: 'a', port: '5432', hostaddr: '10.0.0.1': {SERVER}Connection refused\n\tIs the server running?",
        f"- host: 'b', port: '5432', hostaddr: '10.0.0.2': {SERVER.replace('.1', '.2')}session is read-only",
    ]
    found = reason_of(psycopg.OperationalError("\n".join(lines)))
    first, second = found.split("; ")
    assert first.startswith("the connection is refused")
    assert second.startswith("it is a standby")
    assert "10.0.0.2" in second


def failure(url: str) -> str:
    address = RecordAddress(url)
    engine = open_record(address, connections=0)
    with pytest.raises(OperationalError) as raised, engine.connect():
        pass
    engine.dispose()
    return unavailable(address, raised.value).message


def test_real_failures(postgres: PostgresServer, tmp_path: Path) -> None:
    assert "the connection is refused" in failure("postgresql://secmon@127.0.0.1:1/x")
    assert "there is no such socket" in failure(f"postgresql://secmon@/x?host={tmp_path}")
    assert "the database does not exist: createdb" in failure(postgres.url("nothing"))
    assert "the user does not exist: createuser" in failure(postgres.url("postgres").replace("secmon@", "nobody@"))
