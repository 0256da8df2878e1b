"""OS_Match: substrings, prefixes and suffixes, ASCII letters of either case (ruleset.md 3.1)."""

from secmon.engine.matching.implementation import TextMatcher

MAX_PATTERN = 20480
"""Bytes of a pattern of OS_Match and OS_Regex."""


class OSMatch:
    """A compiled OS_Match expression. Its test is that of TextMatcher."""

    __slots__ = ("literals", "test")

    def __init__(self, pattern: bytes) -> None:
        """Every text is a valid pattern."""
        negated = pattern.startswith(b"!")
        always = False
        prefixes, suffixes, contained, equal = [], [], [], []
        for one in pattern[negated:].lower().split(b"|"):
            starts, ends = one.startswith(b"^"), one.endswith(b"$")
            text = one[starts : len(one) - ends]
            if not text and not (starts and ends and len(one) > 1):
                always = True
            elif starts and ends:
                equal.append(text)
            elif starts:
                prefixes.append(text)
            elif ends:
                suffixes.append(text)
            else:
                contained.append(text)
        self.test = TextMatcher((b"",) if always else contained, prefixes, suffixes, equal, negated=negated).test
        listed = not (always or negated or b"" in equal)
        self.literals = [*equal, *prefixes, *suffixes, *contained] if listed else None
        """Lower-case texts, one of which every match contains; None when there is no such list."""


def search_word(pattern: bytes, text: bytes) -> bool:
    """The simpler search by which ``if_group`` finds parents (ruleset.md 3.1, Word search)."""
    folded = text.lower()
    if not pattern:
        return False
    return any(
        folded.startswith(one[1:]) if one.startswith(b"^") else one in folded for one in pattern.lower().split(b"|")
    )
