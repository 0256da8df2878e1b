"""Message counters: the sender's next one and the receiver's verdict (agent-link.md 5.6)."""

import re
from typing import Literal, NamedTuple

_MINOR_LAST = 9997
_TEXT = re.compile(r"(\d{1,10}):(\d{1,5}):")


class Counter(NamedTuple):
    """``major`` is the global, ``minor`` the local number of the wire."""

    major: int = 0
    minor: int = 0

    def next(self) -> "Counter":
        """The counter after this one."""
        if self.minor >= _MINOR_LAST:
            return Counter(self.major + 1, 1)
        return Counter(self.major, self.minor + 1)

    @property
    def text(self) -> str:
        """The form in files under ``queue/rids``."""
        return f"{self.major}:{self.minor}:"


Verdict = Literal["accept", "duplicate", "auth"]


def check_counter(stored: Counter, received: Counter) -> Verdict:
    """The verdict on ``received`` after ``stored``; ``auth``: handle it like a wrong key."""
    if received > stored:
        return "accept"
    return "duplicate" if received.major == stored.major else "auth"


def parse(text: str) -> Counter | None:
    """The counter in a file's text; None for an invalid text."""
    found = _TEXT.match(text)
    return Counter(int(found[1]), int(found[2])) if found else None
