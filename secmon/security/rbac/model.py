"""Users, roles, policies and rules for the evaluation of permissions (rbac.md 1)."""

from typing import Any

import msgspec

from secmon.common.identity import Mode

RESERVED_ID_MAX = 99
"""Ids up to this one belong to the product; objects made through the API start at the next (rbac.md 2)."""


class Policy(msgspec.Struct, frozen=True):
    """Actions on resources, allowed or denied. Any ``effect`` but ``allow`` denies (rbac.md 6)."""

    id: int
    name: str
    actions: tuple[str, ...]
    resources: tuple[str, ...]
    effect: str


class Rule(msgspec.Struct, frozen=True):
    """An expression over authorization contexts (rbac.md 10.2)."""

    id: int
    name: str
    rule: dict[str, Any]


class Role(msgspec.Struct, frozen=True):
    """``policies`` in position order: later ones override earlier ones. ``rules`` ascending."""

    id: int
    name: str
    policies: tuple[int, ...]
    rules: tuple[int, ...]


class User(msgspec.Struct, frozen=True):
    """``roles`` in position order. ``revoked``: tokens issued before this security revision are invalid; 0 for none."""

    id: int
    username: str
    password: str
    allow_run_as: bool
    roles: tuple[int, ...]
    revoked: int = 0

    def __repr__(self) -> str:
        return f"User(id={self.id}, username={self.username!r})"


class Settings(msgspec.Struct, frozen=True):
    """Security configuration (rbac.md 14). The timeout is in seconds."""

    auth_token_exp_timeout: int = 900
    rbac_mode: Mode = "white"


class PolicyBody(msgspec.Struct, frozen=True):
    """The stored text of a policy; its canonical form is this member order."""

    actions: tuple[str, ...]
    resources: tuple[str, ...]
    effect: str
