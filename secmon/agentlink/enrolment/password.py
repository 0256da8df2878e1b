"""The password that agents must know to enrol (agent-link.md 1.5)."""

import logging
import secrets

from secmon.common.errors import ConfigError
from secmon.common.paths import Paths

log = logging.getLogger("secmon.authd")

MIN_BYTES, MAX_BYTES = 2, 4094


def read_password(paths: Paths) -> bytes:
    """The first line of the password file; without the file a random one, which is written to the log and nowhere else.

    Raises ConfigError when the file is there but holds none.
    """
    file = paths.enrolment_password
    try:
        password = file.read_bytes().split(b"\n", 1)[0].rstrip(b"\r")
    except FileNotFoundError:
        chosen = secrets.token_hex(16)
        log.warning("%s does not exist; until the next start the password for enrolment is %s", file, chosen)
        return chosen.encode()
    except OSError as error:
        raise ConfigError(str(file), "file", error.strerror, "a readable file") from error
    if not MIN_BYTES <= len(password) <= MAX_BYTES or b"\0" in password:
        allowed = f"{MIN_BYTES} to {MAX_BYTES} bytes in the first line"
        raise ConfigError(str(file), "password", f"{len(password)} bytes", allowed)
    return password
