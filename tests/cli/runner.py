"""Runs commands in this process."""

from pathlib import Path

from click.testing import CliRunner, Result

from secmon.cli import main
from secmon.common.paths import Paths
from secmon.security.authentication_error import AuthenticationError
from secmon.security.credentials import authenticate
from secmon.security.store.security_store import SecurityStore

KEY = "k" * 32
PASSWORD = "A-Secret-Word-77"
MASTER = ("--type", "master", "--master", "127.0.0.1")
WORKER = ("--type", "worker", "--node-name", "w1", "--master", "10.0.0.1")


def run(*arguments: object, text: str | None = None) -> Result:
    """The result of ``secmon ARGUMENTS`` with ``text`` on standard input."""
    return CliRunner().invoke(main, [str(argument) for argument in arguments], input=text)


def can_log_in(root: Path, user: str, password: str) -> bool:
    store = SecurityStore(Paths(root).security_db)
    try:
        authenticate(store.view(), user, password)
    except AuthenticationError:
        return False
    finally:
        store.close()
    return True
