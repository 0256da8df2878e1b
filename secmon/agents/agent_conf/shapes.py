"""Types for the description of ``agent.conf``, and values that several sections share."""

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

from secmon.config.values import TEXT, Check, integer

Finding: TypeAlias = tuple[str, str, str]
"""Option, its value (or a ``Fault``), and what is allowed."""


class Leaf(NamedTuple):
    """An option with a text. ``markup``: it may hold XML instead, which is not checked."""

    check: Check = TEXT
    attributes: Mapping[str, Check | None] = {}
    required: tuple[str, ...] = ()
    markup: bool = False


class Branch(NamedTuple):
    """An option with options."""

    options: Mapping[str, "Leaf | Branch"]
    attributes: Mapping[str, Check | None] = {}
    required: tuple[str, ...] = ()


Options: TypeAlias = Mapping[str, Leaf | Branch]


class Section(NamedTuple):
    """A section; ``extra`` checks the texts of all options together."""

    options: Options
    required: tuple[str, ...] = ()
    """Options without options of their own."""
    extra: Callable[[Mapping[str, str]], Finding | None] | None = None


def leaves(check: Check, *names: str) -> dict[str, Leaf | Branch]:
    """Several options of one kind."""
    return dict.fromkeys(names, Leaf(check))


def pattern(expression: str, allowed: str, *, any_case: bool = False) -> Check:
    """A check that the whole text matches ``expression``; ``allowed`` describes valid texts."""
    compiled = re.compile(expression, re.ASCII | (re.IGNORECASE if any_case else 0))
    return Check(lambda text: compiled.fullmatch(text) is not None, allowed)


SIZE = pattern(
    r"[0-9]{1,12}\s*(b|kb?|mb?|gb?)?", "a number of bytes with an optional suffix B, KB, MB or GB", any_case=True
)
INTERVAL = pattern(r"0*[1-9][0-9]{0,9}[smhdwM]?", "a number with an optional suffix s, m, h, d, w or M")
TIME = pattern(r"([01]?[0-9]|2[0-3])(:[0-5][0-9])?\s*(am|pm)?", "a time of the day as hh:mm", any_case=True)
DAYS = r"(sun|mon|tue(s)?|wed(nes)?|thu(rs)?|fri|sat(ur)?)(day)?"
WEEKDAY = pattern(rf"[0-6]|{DAYS}", "a day of the week, by its name or 0 to 6", any_case=True)

SCHEDULE: Options = {
    "interval": Leaf(INTERVAL),
    "day": Leaf(integer(1, 31)),
    "wday": Leaf(WEEKDAY),
    "time": Leaf(TIME),
}


def check_schedule(values: Mapping[str, str]) -> Finding | None:
    """Options of :data:`SCHEDULE` that exclude each other."""
    if "day" in values and "wday" in values:
        return "wday", values["wday"], "day or wday, not both"
    return None
