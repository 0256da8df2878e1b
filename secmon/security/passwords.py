"""Password rules, generation, hashing (rbac.md 3 and 15).

New passwords are hashed with Argon2id: 2 passes over 19 MiB in one lane, the smallest setting that OWASP recommends, so
that logins stay cheap for a host that also serves requests (about 20 ms). PBKDF2 hashes of older stores are verified.

Hashing and verifying are CPU work: coroutines call them through :class:`HashingThreads`.
"""

import asyncio
import hashlib
import hmac
import re
import secrets
import string
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

import argon2
from argon2.exceptions import InvalidHashError, VerificationError

from secmon.common.errors import SecmonError

MIN_LENGTH, MAX_LENGTH = 8, 64
_CLASSES = re.compile(r"^(?=.*[a-z])(?=.*[A-Z])(?=.*\d)(?=.*[^A-Za-z0-9]).{8,}$")
_PBKDF2 = re.compile(r"pbkdf2:sha256:(?P<rounds>[1-9][0-9]{0,7})\$(?P<salt>[A-Za-z0-9]+)\$(?P<digest>[0-9a-f]{64})")
_SYMBOLS = "-_.+"
MAX_TRIED_LENGTH = 1024
"""Characters of a password that Argon2id is given when it is verified."""

_HASHER = argon2.PasswordHasher(time_cost=2, memory_cost=19456, parallelism=1, hash_len=32, salt_len=16)
_CURRENT = re.compile(r"\$argon2id\$v=19\$m=19456,t=2,p=1\$[A-Za-z0-9+/]{22}\$[A-Za-z0-9+/]{43}")
"""The form of hashes that ``_HASHER`` makes."""

# Verified where no user has the name; made with the parameters above.
DUMMY_HASH = "$argon2id$v=19$m=19456,t=2,p=1$I1x0i3j6S1ELVR2KSstEkA$lXsWbilHXhP1gD/8eY0tl+nktX8O0JnLn5F6gThOm7A"


def check_password(password: str) -> None:
    """Raises 5009 for a wrong length, then 5007 for missing character classes (rbac.md 3)."""
    if not MIN_LENGTH <= len(password) <= MAX_LENGTH:
        raise SecmonError(5009)
    if not _CLASSES.match(password):
        raise SecmonError(5007)


def generate_password(length: int = 20) -> str:
    """A random password of ASCII letters, digits and ``-_.+`` that satisfies the rules."""
    classes = (string.ascii_lowercase, string.ascii_uppercase, string.digits, _SYMBOLS)
    characters = [secrets.choice(each) for each in classes]
    characters += [secrets.choice("".join(classes)) for _ in range(length - len(classes))]
    secrets.SystemRandom().shuffle(characters)
    return "".join(characters)


def hash_password(password: str) -> str:
    """An Argon2id hash in its standard text form."""
    return _HASHER.hash(password)


def verify_password(stored: str | None, password: str) -> bool:
    """Whether ``password`` is the one that was hashed. ``None`` (no such user) costs as much time and is False.

    An unreadable stored hash matches nothing.
    """
    if stored is not None and stored.startswith("pbkdf2:"):
        return _verify_pbkdf2(stored, password)
    try:
        return _HASHER.verify(stored or DUMMY_HASH, password[:MAX_TRIED_LENGTH]) and stored is not None
    except (VerificationError, InvalidHashError):
        return False


def needs_rehash(stored: str) -> bool:
    """Whether a hash is not of the kind that ``hash_password`` makes now, with exactly its parameters."""
    return _CURRENT.fullmatch(stored) is None


def _verify_pbkdf2(stored: str, password: str) -> bool:
    parts = _PBKDF2.fullmatch(stored)
    if parts is None:
        return False
    found = hashlib.pbkdf2_hmac("sha256", password.encode(), parts["salt"].encode(), int(parts["rounds"]))
    return hmac.compare_digest(found.hex(), parts["digest"])


P = ParamSpec("P")
T = TypeVar("T")

THREADS = 2


class HashingThreads:
    """At most :data:`THREADS` hashes at once in a process; further ones wait.

    A hash takes 19 MiB while it is computed, and the allocator keeps them for each thread that has computed one: on the
    event loop's own threads, of which there are up to 32, a daemon grew by 600 MiB.
    """

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="passwords")

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """``work(...)`` in one of the threads; raises what it raises."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, lambda: work(*args, **kwargs))
