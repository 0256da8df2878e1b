"""The default contents of an empty security store, read from ``defaults.yaml`` beside this module (rbac.md 4)."""

from importlib import resources
from typing import Any

import msgspec
import yaml

from secmon.security.rbac.model import PolicyBody


class DefaultPolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    id: int
    name: str
    policy: PolicyBody


class DefaultRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    id: int
    name: str
    rule: dict[str, Any]


class DefaultRole(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``policies`` in position order."""

    id: int
    name: str
    purpose: str
    policies: tuple[int, ...]
    rules: tuple[int, ...] = ()


class DefaultUser(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    id: int
    username: str
    allow_run_as: bool
    roles: tuple[int, ...]


class Defaults(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    users: tuple[DefaultUser, ...]
    roles: tuple[DefaultRole, ...]
    policies: tuple[DefaultPolicy, ...]
    rules: tuple[DefaultRule, ...]


def load_defaults() -> Defaults:
    """Read the shipped file."""
    text = resources.files(__package__).joinpath("defaults.yaml").read_text(encoding="utf-8")
    return msgspec.convert(yaml.safe_load(text), Defaults)
