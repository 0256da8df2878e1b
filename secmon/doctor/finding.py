"""What an examination finds."""

from typing import Literal

import msgspec

State = Literal["ok", "warning", "problem"]
"""``problem``: the node does not work, or will not start; ``warning``: it will not for long, or not as it should."""


class Finding(msgspec.Struct, frozen=True):
    """``check``: what was looked at; ``text``: what is so; ``remedy``: what to do, unless it is ``ok``."""

    check: str
    state: State
    text: str
    remedy: str = ""

    def __str__(self) -> str:
        line = f"{self.state:<8} {self.check}: {self.text}"
        return f"{line}; {self.remedy}" if self.remedy else line


def ok(check: str, text: str) -> Finding:
    return Finding(check, "ok", text)


def warning(check: str, text: str, remedy: str) -> Finding:
    return Finding(check, "warning", text, remedy)


def problem(check: str, text: str, remedy: str) -> Finding:
    return Finding(check, "problem", text, remedy)
