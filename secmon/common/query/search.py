"""The ``search`` parameter: text to look for anywhere, ``-`` in front to negate (conventions.md 5.5)."""

from dataclasses import dataclass

from secmon.common.query.limits import check_text


@dataclass(frozen=True, slots=True)
class Search:
    """Keep what contains ``text`` (or, negated, what does not). ``text`` may be empty: ``search=-``."""

    text: str
    negate: bool = False

    @classmethod
    def parse(cls, text: str) -> "Search":
        """Raises 1407 for text beyond the bounds of :mod:`limits`; its characters are the adapter's to check."""
        check_text("search", text)
        return cls(text[1:], True) if text.startswith("-") else cls(text)
