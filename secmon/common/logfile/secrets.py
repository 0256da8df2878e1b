"""Secrets in what is logged: found by the names of the values, also within texts, and in addresses with a password."""

import math
import re
from collections.abc import Mapping
from typing import Any

MASK = "****"

_SEPARATORS = str.maketrans("", "", "-_. ")
_SECRET = re.compile(
    r"passw|passphrase|pwd|secret|token|authorization|cookie|credential"
    r"|(?:api|private|shared|access|account|application|encryption|cluster|agent)key|hookurl|^key$"
    r"|jwt|bearer|signature|sessionid|^otp$"
)
_SECRET_WORD = re.compile(r"(?:^|[-_. ])(?i:pass|pin|otp|auth|sig)$|[a-z]P(?:ass|in)$")
"""As the last word only: many other words contain these."""
_NO_SECRET = "auth_token_exp_timeout"
"""A number of seconds."""
_ASSIGNED = re.compile(
    r"""(?<![\w.-])(?P<name>[\w.-]{1,256})(?P<sign>!?=|[<>~]|["']?\s{0,4}:\s{0,4})"""
    r"""(?P<value>"[^"]*"?|'[^']*'?|[^\s;,()&]+)"""
)
"""A condition of a query, a parameter of an address, a member of JSON within a text."""
_SIGNS = frozenset("=<>~:")
_WITH_PASSWORD = re.compile(r"://(?!(?:\[[^\s\]@]*\]|[^\s/?#:@]*)(?::\d+)?(?:[\s/?#]|$))(?:\S{0,1024}@|[^@]{0,1024}@)")
"""An address that does not begin with a host: up to the last ``@``, as a password may hold any character."""
_ENDED = re.compile(r"@\S*\s")


def is_secret(name: str) -> bool:
    """Whether ``name`` is that of a secret: ``password``, ``Api-Key``, ``auth_token``, ..., in any letter case."""
    if name == _NO_SECRET:
        return False
    return _SECRET.search(name.lower().translate(_SEPARATORS)) is not None or _SECRET_WORD.search(name) is not None


def _masked_value(assigned: re.Match[str]) -> str:
    return f"{assigned['name']}{assigned['sign']}{MASK}" if is_secret(assigned["name"]) else assigned[0]


def _beginning(text: str, length: int) -> str:
    """At most ``length`` characters; an address that is cut off is left out, as its password has no end."""
    shown = text[:length]
    address = shown.rfind("://")
    return shown if address < 0 or _ENDED.search(shown, address) else shown[:address]


class SecretMasker:
    """Makes copies where the values of secrets, at any depth, are :data:`MASK`.

    ``limit``: values and characters that are copied at most; what follows is left out and ``cut`` says so. So the log
    of a huge body costs no more than that of a small one. Nesting as deep as the interpreter allows; RecursionError.
    """

    def __init__(self, limit: int | None = None) -> None:
        self._limit = limit
        self._left: float = math.inf if limit is None else limit

    @property
    def cut(self) -> bool:
        """Whether something was left out."""
        return self._left < 0

    def apply(self, value: Any) -> Any:
        """``value`` (of JSON's types) without the values of secrets."""
        self._left -= 1
        if isinstance(value, Mapping):
            return self._mapping(value)
        if isinstance(value, list | tuple):
            return self._list(value)
        if isinstance(value, str):
            return self._text(value)
        return value

    def _mapping(self, mapping: Mapping[Any, Any]) -> dict[str, Any]:
        masked = {}
        for name, value in mapping.items():
            if self.cut:
                break
            self._left -= len(name)
            masked[name] = MASK if is_secret(name) and value is not None else self.apply(value)
        return masked

    def _list(self, values: list[Any] | tuple[Any, ...]) -> list[Any]:
        """An item that follows the name of an option is its value: ``["--password", "..."]``."""
        masked = []
        secret = False
        for value in values:
            if self.cut:
                break
            masked.append(MASK if secret else self.apply(value))
            secret = isinstance(value, str) and value.startswith("-") and is_secret(value.lstrip("-"))
        return masked

    def _text(self, text: str) -> str:
        """``text`` without the user and password of addresses in it, and without the values of secrets."""
        self._left -= len(text)
        if self._limit is not None and len(text) > self._limit:
            text = _beginning(text, self._limit)
        shown = _WITH_PASSWORD.sub(f"://{MASK}@", text) if "://" in text and "@" in text else text
        if not _SIGNS.isdisjoint(shown):
            shown = _ASSIGNED.sub(_masked_value, shown)
        return shown[: self._limit] if self.cut else shown
