"""Bounds on what a client may write, so that no expression costs more than its size."""

from secmon.common.errors import SecmonError

MAX_LENGTH = 8192
"""Characters of ``q`` or ``search``. A request line holds at most 8190 bytes (conventions.md 0), so nobody loses
anything; and SQLite refuses LIKE patterns above 50000 bytes, which 8192 characters cannot reach."""

MAX_DEPTH = 64
"""Levels of parentheses."""

MAX_CLAUSES = 500
"""Clauses of one ``q``. SQLite refuses expression trees deeper than 1000."""

EXCERPT = 80
"""Characters of the offending text that an error quotes."""


def check_text(name: str, text: str) -> str:
    """``text`` itself; raises 1407 when it is too long or not storable as UTF-8 (lone surrogates)."""
    if len(text) > MAX_LENGTH:
        raise SecmonError(1407, f"{name} is longer than {MAX_LENGTH} characters")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise SecmonError(1407, f"{name} is not valid Unicode text") from error
    return text
