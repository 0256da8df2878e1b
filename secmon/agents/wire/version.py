"""Versions of agents (agent-link.md 0.3)."""

import re

from secmon import API_VERSION

MANAGER_VERSION = f"v{API_VERSION}"
"""The version that the manager shows: that of its API."""

_DIGITS = re.compile(r"\d+")
Version = tuple[int, int, int]


def parse(text: str | None) -> Version:
    """Major, minor and patch, after any text before the first digit; -1 for a missing part."""
    first = _DIGITS.search(text or "")
    if first is None or text is None:
        return -1, -1, -1
    parts = [_part(part) for part in text[first.start() :].split(".")[:3]]
    parts += [-1] * (3 - len(parts))
    return parts[0], parts[1], parts[2]


def compare(left: str | None, right: str | None, *, patch: bool = True) -> int:
    """-1, 0 or 1. Without ``patch`` the third number does not count."""
    parts = 3 if patch else 2
    first, second = parse(left)[:parts], parse(right)[:parts]
    return (first > second) - (first < second)


def too_new(agent: str | None, highest: str | None) -> bool:
    """Whether major and minor of an agent are above ``highest``; None: any version is allowed."""
    return highest is not None and compare(agent, highest, patch=False) > 0


def _part(text: str) -> int:
    found = _DIGITS.match(text)
    # No version has more digits: longer numbers would only cost time.
    return int(found[0][:9]) if found else -1
