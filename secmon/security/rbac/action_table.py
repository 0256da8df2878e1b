"""The actions and kinds of resources that policies may name, read from ``actions.yaml`` beside this module."""

from functools import cache
from importlib import resources

import msgspec
import yaml


class Kind(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A kind of resource, with one as an example."""

    description: str
    example: str


class Action(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An action, the kinds it can be granted on, and the endpoints (``METHOD /path``) that ask for it."""

    description: str
    resources: tuple[str, ...]
    endpoints: tuple[str, ...] = ()


class Actions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole file, in its order."""

    resources: dict[str, Kind]
    actions: dict[str, Action]


@cache
def load_actions() -> Actions:
    """Read the shipped file, once."""
    text = resources.files(__package__).joinpath("actions.yaml").read_text(encoding="utf-8")
    return msgspec.convert(yaml.safe_load(text), Actions)
