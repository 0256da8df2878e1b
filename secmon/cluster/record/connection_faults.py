"""Why the database cannot be used, in the words of an operator: what is wrong, and what to do about it.

libpq reports failed connections as text alone. What is not recognized is passed on as it is.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from psycopg import errors
from sqlalchemy.exc import TimeoutError  # of the pool


class _Fault(NamedTuple):
    pattern: str
    """In the text of libpq or of the server."""
    sentence: str


_FAULTS = (
    _Fault("could not translate host name|failed to resolve host|[Nn]ame or service not known", "the host is unknown"),
    _Fault("Connection refused", "the connection is refused: does PostgreSQL run there, and listen at this port?"),
    _Fault("No such file or directory", "there is no such socket: does PostgreSQL run?"),
    _Fault("timeout expired|timed out", "no answer: is the host up, and does a firewall let port and host through?"),
    _Fault("No route to host|Network is unreachable", "the host cannot be reached: check network and firewall"),
    _Fault("password authentication failed", "the password is wrong: see store_password_file"),
    _Fault("no password supplied", "a password is wanted: name its file with store_password_file"),
    _Fault('role "[^"]*" does not exist', "the user does not exist: createuser --pwprompt"),
    _Fault('database "[^"]*" does not exist', "the database does not exist: createdb --owner=USER DATABASE"),
    _Fault("does not support SSL", "the server has no TLS: set ssl = on there, or change sslmode in the URL"),
    _Fault(
        "certificate verify failed|root certificate file|does not match host name|tlsv1 alert|SSL error",
        "TLS has failed: check the certificate of the server, sslmode and sslrootcert in the URL",
    ),
    _Fault("no pg_hba.conf entry", "the server lets nobody in from here: add this node to its pg_hba.conf"),
    _Fault("invalid response to SSL negotiation|expected authentication request", "no PostgreSQL answers at this port"),
    _Fault("too many clients|connection slots are reserved", "no free connections: raise max_connections there"),
    _Fault("session is read-only|hot standby mode|server is in", "it is a standby, which accepts no changes"),
    _Fault("closed the connection unexpectedly|terminating connection|connection is closed", "the connection was cut"),
    _Fault("starting up|shutting down|recovery mode|not yet accepting connections", "the server starts or stops"),
)

_BY_STATE = {
    errors.DiskFull: "the disk of the database is full: make room there",
    errors.ReadOnlySqlTransaction: "the database accepts no changes now: it is a standby, or was made read-only",
    errors.QueryCanceled: "it was too slow: check the disk and the load of the database",
    errors.LockNotAvailable: "it was locked for too long: see pg_stat_activity for transactions that stay open",
    errors.InsufficientPrivilege: "the user may not do this: it must own the database",
    TimeoutError: "all connections of this node are busy: the database is too slow for the changes that are made",
}


def reason_of(cause: BaseException | None) -> str:
    """One line, without a password: libpq does not repeat it."""
    for kind, sentence in _BY_STATE.items():
        if isinstance(cause, kind):
            return f"{sentence} ({_lines(cause)[0]})"
    return "; ".join(dict.fromkeys(_explained(_lines(cause))))


def _explained(lines: list[str]) -> Iterator[str]:
    """What each host that was tried has said, with what is recognized in front."""
    tried = [line for line in lines if line.startswith("- host: ")] or lines[:1]
    for line in tried[:_MOST_HOSTS]:
        text = re.sub("^.*(connection failed|connection is bad): ", "", line)
        sentence = next((each.sentence for each in _FAULTS if re.search(each.pattern, text)), "")
        yield f"{sentence} ({text})" if sentence else text


_MOST_HOSTS = 6


def _lines(error: BaseException | None) -> list[str]:
    found = [line.strip() for line in str(error).splitlines() if line.strip()]
    return found or [type(error).__name__]
