"""Message counters: a sender's progress and a receiver's decision (agent-link.md 5.6)."""

import re
from typing import Literal, NamedTuple

_MINOR_LAST = 9997
_TEXT = re.compile(r"(\d{1,10}):(\d{1,5}):")


class Counter(NamedTuple):
    """``major`` is the global, ``minor`` the local number of the wire."""

    major: int = 0
    minor: int = 0

    def next(self) -> "Counter":
        """What a sender that last used this one sends next."""
        if self.minor >= _MINOR_LAST:
            return Counter(self.major + 1, 1)
        return Counter(self.major, self.minor + 1)

    @property
    def text(self) -> str:
        """As files under ``queue/rids`` hold it."""
        return f"{self.major}:{self.minor}:"


Verdict = Literal["accept", "duplicate", "auth"]


def check_counter(stored: Counter, received: Counter) -> Verdict:
    """Whether a receiver that verifies takes ``received`` after ``stored``; ``auth``: treat it as a wrong key."""
    if received > stored:
        return "accept"
    return "duplicate" if received.major == stored.major else "auth"


def parse(text: str) -> Counter | None:
    """The counter in a file's text; None if it holds none."""
    found = _TEXT.match(text)
    return Counter(int(found[1]), int(found[2])) if found else None
