"""The reader of ruleset files: its vectors (ruleset.md 2.3), its errors, and unusual text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secmon.engine.ruleset.ruleset_xml import (
    MAX_DEPTH,
    MAX_INSERTED,
    MAX_TEXT,
    Element,
    VariableError,
    XmlError,
    _Reader,
    parse,
)


def flat(data: str) -> list[tuple[str, str, dict[str, str]]]:
    return [
        (one.name, one.content.decode(), {name: value.decode() for name, value in one.attributes.items()})
        for one in parse(data.encode())
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"<a>x\<b>y</a>", [("a", r"x\<b>y", {})]),
        ("<a>x &lt; y</a>", [("a", "x &lt; y", {})]),
        ("<a>x<!-- c -->y</a>", [("a", "xy", {})]),
        ("<! hi !><a>z</a>", [("a", "z", {})]),
        ('<a b= "1">q</a>', [("a", "q", {"b": "1"})]),
        (r"<var name='V'>abc</var><r>^$V|$V.x $</r>", [("r", "^abc|abc.x $", {})]),
        ("<a>one<b>t</b>two</a>", [("a", "two", {})]),
        ("text <a/> around <b c='d'/>", [("a", "", {}), ("b", "", {"c": "d"})]),
        (r"<a>x\\<b>q</b>y</a>", [("a", "y", {})]),
        ("<a>$word</a>", [("a", "$word", {})]),
        (
            "<a>$x</a><var name='q'>1</var><a>$q</a><a>$(q) $</a>",
            [("a", "$x", {}), ("a", "$q", {}), ("a", "$(q) $", {})],
        ),
        ("<var name='q'>1</var><a>-$Q</a>", [("a", "-1", {})]),
        ("<a>1 > 2</a>", [("a", "1 > 2", {})]),
        ("<a><!-- a -- b --></a>", [("a", "", {})]),
    ],
)
def test_vectors(text: str, expected: list[tuple[str, str, dict[str, str]]]) -> None:
    assert flat(text) == expected


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("<a>1 < 2</a>", 1, "without a name"),
        ('<a b = "1">q</a>', 1, "not of the form"),
        ("<a>\n<b>\n</a>", 3, "the end of 'b'"),
        ("<a>\n\n<b>", 3, "not closed"),
        ("<a><!-- x", 1, "comment is not closed"),
        ('<?xml version="1.0"?><a/>', 1, "unexpected text in the tag"),
        ('<a b="1" b="2"/>', 1, "is repeated"),
        ("<a b/>", 1, "not of the form"),
        ("<a b=1/>", 1, "no quotes"),
        ('<a b="1"c="2"/>', 1, "unexpected text in the tag"),
        ("</a>", 1, "no end tag"),
        ("<a></ a>", 1, "the end of 'a'"),
        ("<a></A>", 1, "the end of 'a'"),
        (f"<a>{'x' * (MAX_TEXT + 1)}</a>", 1, "longer than"),
        ("<a>" * (MAX_DEPTH + 1), 1, "levels"),
    ],
)
def test_errors_name_the_line(text: str, line: int, problem: str) -> None:
    with pytest.raises(XmlError, match=problem) as caught:
        parse(text.encode())
    assert caught.value.line == line


def test_an_unknown_variable_is_an_error_once_the_file_has_one() -> None:
    with pytest.raises(VariableError, match="unknown variable 'OTHER'"):
        parse(b"<var name='V'>abc</var>\n<r>^$OTHER</r>")


VALUE = f"<var name='V'>{'x' * (MAX_TEXT - 10)}</var>"


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        (f"{VALUE}\n<a>{'$V.' * 600}</a>", 2, "a text with its variables is longer than"),
        (f"{VALUE}\n<a b='{'$V.' * 600}'/>", 2, "a text with its variables is longer than"),
        (VALUE + "\n<a>-$V</a>" * (MAX_INSERTED // (MAX_TEXT - 10) + 1), 821, "variables insert more than"),
    ],
)
def test_variables_do_not_fill_the_memory(text: str, line: int, problem: str) -> None:
    with pytest.raises(VariableError, match=problem) as caught:
        parse(text.encode())
    assert caught.value.line == line


def test_variables_within_the_limits() -> None:
    [element] = parse(f"{VALUE}<a>$V.</a>".encode())
    assert len(element.content) == MAX_TEXT - 9


def test_comments_do_not_take_quadratic_time() -> None:
    assert parse(b"<!--a-->" * 200_000 + b"<group/>")[0].name == "group"
    with pytest.raises(XmlError, match="a comment is not closed"):
        parse(b"<!--a-->" * 200_000 + b"<!-- a")


def test_the_deepest_file_that_is_allowed() -> None:
    (root,) = parse(b"<a>" * MAX_DEPTH + b"</a>" * MAX_DEPTH)
    depth = 1
    while root.children:
        (root,) = root.children
        depth += 1
    assert depth == MAX_DEPTH


PIECES = st.sampled_from(
    [
        "<a>",
        "</a>",
        "<b c='d'>",
        "</b>",
        "<e/>",
        "<!-- x -->",
        "<!y!>",
        "text",
        "\\<",
        "$V",
        "<var name='V'>v</var>",
        "\n",
        ">",
        '"',
        "=",
    ]
)


@given(st.one_of(st.lists(PIECES, max_size=20).map("".join).map(str.encode), st.binary(max_size=80)))
def test_anything_is_elements_or_an_error_within_the_file(data: bytes) -> None:
    line, roots = 1, []
    try:
        roots = parse(data)
    except XmlError as error:
        line = error.line
    assert 1 <= line <= data.count(b"\n") + 1
    assert all(one.key != "var" for one in roots)


class _EveryForm(_Reader):
    """A reader without the short way for usual elements."""

    def _leaves(self, opened: list[Element]) -> None:
        return


def read(reader: _Reader) -> list[object]:
    """The elements up to the first error, and that error."""
    found: list[object] = []
    try:
        reader.read()
    except XmlError as error:
        found.append(str(error))
    pending = [*reader.roots]
    while pending:
        one = pending.pop()
        found.append((one.name, one.line, one.attributes, one.content, len(one.children)))
        pending += one.children
    return found


TAGS = st.sampled_from(
    ["<a>", "</a>", "<b c='d'>", "</b>", "<b/>", '<a b="1" c="2"/>', "<a b='1' b='2'>", "\n", "text", "\\", " ", "<!-- c -->",
     "<a\n b='>'>", "<A.-1 >x</A.-1>", "<a>1\\</a>", "<a>C:\\\\x</a>", "<a/x>", "<", ">", "<b c= 'd'>y</b>", "<a\n>z\n</a>"]
)  # fmt: skip


@given(st.lists(TAGS, max_size=14).map("".join), st.booleans())
def test_usual_elements_are_read_as_all_others(text: str, cut: bool) -> None:
    data = text.encode()
    assert read(_Reader(data, cut=cut)) == read(_EveryForm(data, cut=cut))


@pytest.mark.parametrize("depth", [MAX_DEPTH - 1, MAX_DEPTH])
@pytest.mark.parametrize("leaf", ["<a>x</a>", "<a/>", f"<a>{'x' * MAX_TEXT}</a>", f"<a b='{'x' * (MAX_TEXT + 1)}'/>"])
def test_usual_elements_have_the_same_limits(leaf: str, depth: int) -> None:
    data = ("<a>" * depth + leaf + "</a>" * depth).encode()
    for cut in (False, True):
        assert read(_Reader(data, cut=cut)) == read(_EveryForm(data, cut=cut))
