"""Credentials of a login: the Basic header, the password, the authorization context (conventions.md 7.1, 12.1)."""

import base64
import binascii
import hashlib
import json
from typing import Any

from secmon.security.authentication_error import INVALID_CREDENTIALS, AuthenticationError
from secmon.security.passwords import verify_password
from secmon.security.rbac.model import User
from secmon.security.store.view import SecurityView


def decode_basic(header: str | None) -> tuple[str, str]:
    """Name and password of an ``Authorization: Basic`` header, split at the first colon.

    UTF-8, or Latin-1 where the bytes are not UTF-8. Raises ``Invalid credentials`` for anything else.
    """
    scheme, _, encoded = (header or "").strip().partition(" ")
    if scheme.lower() != "basic":
        raise AuthenticationError(INVALID_CREDENTIALS)
    try:
        raw = base64.b64decode(encoded.strip(), validate=True)
    except (binascii.Error, ValueError) as error:
        raise AuthenticationError(INVALID_CREDENTIALS) from error
    name, colon, password = _decode(raw).partition(":")
    if not colon:
        raise AuthenticationError(INVALID_CREDENTIALS)
    return name, password


def authenticate(view: SecurityView, name: str, password: str) -> User:
    """The user with this name and password. Blocks for the time of one hash, whether the user exists or not.

    Issue the token with the same ``view``. Raises ``Invalid credentials``.
    """
    user = view.user(name)
    if not verify_password(user.password if user else None, password) or user is None:
        raise AuthenticationError(INVALID_CREDENTIALS)
    return user


def _decode(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def context_hash(body: Any) -> str:
    """The hash of a run_as body in tokens and logs: BLAKE2b of 16 bytes, hex, of its JSON text (conventions.md 12.1).

    ``body`` is the whole body as parsed, or its text, which is parsed first. Raises ValueError when it is not JSON,
    RecursionError when it is nested too deeply to be written.
    """
    value = json.loads(body) if isinstance(body, str | bytes) else body
    # The JSON encoder of the standard library defines the text: separators, escapes, the form of numbers.
    return hashlib.blake2b(json.dumps(value).encode(), digest_size=16).hexdigest()
