"""OS_Match: substrings, prefixes and suffixes, ASCII letters of either case (ruleset.md 3.1)."""

MAX_PATTERN = 20480
"""Bytes of a pattern of OS_Match and OS_Regex."""


class OSMatch:
    """A compiled OS_Match expression."""

    __slots__ = ("_always", "_contained", "_equal", "_negated", "_prefixes", "_suffixes", "alternatives")

    def __init__(self, pattern: bytes) -> None:
        """Every text is a valid pattern."""
        self._negated = pattern.startswith(b"!")
        self.alternatives = pattern[self._negated :].lower().split(b"|")
        self._always = False
        prefixes, suffixes, contained, equal = [], [], [], []
        for one in self.alternatives:
            starts, ends = one.startswith(b"^"), one.endswith(b"$")
            text = one[starts : len(one) - ends]
            if not text and not (starts and ends and len(one) > 1):
                self._always = True
            elif starts and ends:
                equal.append(text)
            elif starts:
                prefixes.append(text)
            elif ends:
                suffixes.append(text)
            else:
                contained.append(text)
        self._equal = frozenset(equal)
        self._prefixes, self._suffixes, self._contained = tuple(prefixes), tuple(suffixes), tuple(contained)

    @property
    def negated(self) -> bool:
        return self._negated

    @property
    def literals(self) -> list[bytes] | None:
        """Lower-case texts, one of which every match contains; None when there is no such list."""
        if self._always or self._negated or b"" in self._equal:
            return None
        return [*self._equal, *self._prefixes, *self._suffixes, *self._contained]

    def test(self, subject: bytes) -> bool:
        """Whether ``subject`` matches."""
        return self._found(subject.lower()) is not self._negated

    def _found(self, text: bytes) -> bool:
        if self._always:
            return True
        if any(one in text for one in self._contained):
            return True
        return text.startswith(self._prefixes) or text.endswith(self._suffixes) or text in self._equal


def search_word(pattern: bytes, text: bytes) -> bool:
    """The simpler search by which ``if_group`` finds parents (ruleset.md 3.1, Word search)."""
    folded = text.lower()
    if not pattern:
        return False
    return any(
        folded.startswith(one[1:]) if one.startswith(b"^") else one in folded for one in pattern.lower().split(b"|")
    )
