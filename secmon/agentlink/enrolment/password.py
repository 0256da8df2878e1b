"""The password that agents must know to enrol (agent-link.md 1.5)."""

import logging
import secrets
from contextlib import suppress

from secmon.common.errors import ConfigError
from secmon.common.file_io import write_file
from secmon.common.paths import Paths

log = logging.getLogger("secmon.authd")

MIN_BYTES, MAX_BYTES = 2, 4094


def read_password(paths: Paths) -> bytes:
    """The first line of the password file; without the file a random password, which is written to
    ``var/run/authd.pass``.

    It is not logged: users who may read the log through the API could enrol agents. Raises ConfigError when the file
    holds no password, or the random one cannot be written.
    """
    file = paths.enrolment_password
    try:
        password = file.read_bytes().split(b"\n", 1)[0].rstrip(b"\r")
    except FileNotFoundError:
        return _random_password(paths)
    except OSError as error:
        raise ConfigError(str(file), "file", error.strerror, "a readable file") from error
    if not MIN_BYTES <= len(password) <= MAX_BYTES or b"\0" in password:
        allowed = f"{MIN_BYTES} to {MAX_BYTES} bytes in the first line"
        raise ConfigError(str(file), "password", f"{len(password)} bytes", allowed)
    with suppress(FileNotFoundError):
        paths.random_enrolment_password.unlink()  # that of an earlier start
    return password


def _random_password(paths: Paths) -> bytes:
    chosen, file = secrets.token_hex(16).encode(), paths.random_enrolment_password
    try:
        write_file(file, chosen + b"\n", 0o640)
    except OSError as error:
        raise ConfigError(str(file), "file", error.strerror, "a writable folder") from error
    log.warning(
        "%s does not exist; a random password for enrolment has been written to %s", paths.enrolment_password, file
    )
    return chosen
