import sys

from hypothesis import given
from hypothesis import strategies as st

from secmon.common.logfile.text import INDENT, MAX_MESSAGE, escape, message_text, one_line


def test_control_characters_are_shown_not_written() -> None:
    assert escape("a\rb\x1b[31mc\x00\u2028\u202e\ud800d\te\nf") == (r"a\rb\x1b[31mc\x00\u2028\u202e\ud800d" + "\te\nf")
    assert one_line("a\nb") == r"a\nb"


def test_continuation_lines_are_indented() -> None:
    assert message_text("first\n2026/01/01 00:00:00 secmon: ERROR: forged\n\n") == (
        f"first\n{INDENT}2026/01/01 00:00:00 secmon: ERROR: forged"
    )


def test_long_messages_are_cut_and_marked() -> None:
    text = message_text("x" * (MAX_MESSAGE + 7))
    assert text == "x" * MAX_MESSAGE + "... (7 more characters)"


@given(st.text())
def test_only_the_first_line_starts_at_the_margin(text: str) -> None:
    shown = message_text(text)
    assert all(line.startswith(INDENT) for line in shown.split("\n")[1:])
    assert all(character.isprintable() or character in "\n\t" or ord(character) > 0x9F for character in shown)
    shown.encode()  # always has a UTF-8 form


def test_what_counts_as_printable_is_safe() -> None:
    printable = "".join(filter(str.isprintable, map(chr, range(sys.maxunicode + 1))))
    assert escape(printable) == printable
