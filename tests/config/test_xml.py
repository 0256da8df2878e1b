"""The tolerant reader (manager.md 2.1)."""

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secmon.common.errors import ConfigError, SecmonError
from secmon.config.as_json import convert_agent, convert_main
from secmon.config.xml import MAX_BYTES, MAX_DEPTH, Element, XmlError, parse_xml, read_xml


def only(xml: str | bytes) -> Element:
    (root,) = parse_xml(xml, "test.xml").children
    return root


@pytest.mark.parametrize(
    ("xml", "text"),
    [
        ("<a>x & y</a>", "x & y"),
        ("<a>1 < 2 << 3</a>", "1 < 2 << 3"),
        ("<a>&lt;b&gt;</a>", "&lt;b&gt;"),
        ("<a>&amp; &quot; &apos;</a>", "& \" '"),
        ("<a>&#65; &unknown;</a>", "&#65; &unknown;"),
        ("<a>x<!-- one -- two --->y</a>", "xy"),
        ("<a>x<!-- <b> & ]]> -->y</a>", "xy"),
        ("<a>[[x]]></a>", "[[x]]>"),
        ("<a><![CDATA[<b> & </b>]]></a>", "<b> & </b>"),
        ("<a>\\d+\\.txt</a>", "\\d+\\.txt"),
        ("<a>grün</a>", "grün"),
        ('<?xml version="1.0" encoding="UTF-8"?><a>x</a>', "x"),
        ("\ufeff<a>x</a>", "x"),
        ("<a></a>", None),
    ],
)
def test_tolerance(xml: str, text: str | None) -> None:
    assert only(xml).text == text
    assert only(xml.encode()).text == text


def test_attributes_take_the_same_tolerance() -> None:
    assert only('<a q="x & y &lt; z">t</a>').attributes == {"q": "x & y &lt; z"}


def test_several_roots_and_declarations() -> None:
    document = parse_xml("<?xml version='1.0'?>\n<a/>\n<?xml version='1.0'?>\n<b/>", "test.xml")
    assert [(root.tag, root.line) for root in document.children] == [("a", 2), ("b", 4)]


@pytest.mark.parametrize(
    ("xml", "line"),
    [
        ("<a>\n<b>\n</a>", 3),
        ("<a>\n<!-- never closed", 2),
        ("<a>\n<![CDATA[ never closed", 2),
        ("<a/>\n<?xml version='1.0' never closed", 2),
        ("<a/>\n<!-->", 2),
        ("<a/>\n</configuration><b/>", 2),
        ("<a/>\n</b>", 2),
        ("<a>\n\x00</a>", 2),
        ("<a x='1' x='2'/>", 1),
        ('<!DOCTYPE a [<!ENTITY e "x">]><a>&e;</a>', 1),
        ('<!DOCTYPE a SYSTEM "file:///etc/passwd"><a/>', 1),
        ("<a>" * (MAX_DEPTH + 1) + "</a>" * (MAX_DEPTH + 1), 1),
    ],
)
def test_refused_with_the_line(xml: str, line: int) -> None:
    with pytest.raises(XmlError) as raised:
        parse_xml(xml, "test.xml")
    assert (raised.value.code, raised.value.line) == (1113, line)
    assert "test.xml" in str(raised.value)


@pytest.mark.parametrize("data", [b"<a>\xff</a>", "<a>\ud800</a>"])
def test_not_utf8(data: bytes | str) -> None:
    with pytest.raises(XmlError):
        parse_xml(data, "test.xml")


def test_depth_up_to_the_bound() -> None:
    assert only("<a>" * MAX_DEPTH + "</a>" * MAX_DEPTH).tag == "a"


@pytest.mark.parametrize("hostile", ["<!--" * 90_000, "<![CDATA[" * 90_000, "<?xml " * 90_000])
def test_unclosed_starts_do_not_take_quadratic_time(hostile: str) -> None:
    with pytest.raises(XmlError):
        parse_xml(hostile, "test.xml")


def test_comments_between_texts_do_not_take_quadratic_time() -> None:
    assert only(f"<a>{'xxxx<!---->' * 90_000}</a>").text == "xxxx" * 90_000


def test_a_large_file_is_refused_before_it_is_read() -> None:
    with pytest.raises(XmlError, match="1048577 bytes, 1048576 are allowed"):
        parse_xml("<" * (MAX_BYTES + 1), "test.xml")


def test_absent_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        read_xml(tmp_path / "none.conf")
    assert raised.value.code == 1101


PIECES = ["<a>", "</a>", "<b x='1'>", "</b>", "<", ">", "&", "&lt;", "--", "<!--", "-->", "]]>", "<![CDATA[", "<?xml "]
PIECES += ["?>", "<wodle name='x'>", "</wodle>", "<ossec_config>", "</ossec_config>", "<query>", "</query>", '"', "\n"]


@settings(max_examples=200)
@given(st.one_of(st.text(), st.binary(), st.lists(st.sampled_from(PIECES) | st.text(max_size=3)).map("".join)))
def test_never_fails_but_with_its_own_error(data: str | bytes) -> None:
    with suppress(SecmonError):
        document = parse_xml(data, "test.xml")
        convert_main(document)
        convert_agent(document)


@settings(max_examples=100)
@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cc"], exclude_characters="￾￿")))
def test_any_text_without_tags_is_kept(text: str) -> None:
    quiet = text.replace("<", "< ").replace("&amp;", "").replace("&quot;", "").replace("&apos;", "")
    assert (only(f"<a>{quiet}</a>").text or "") == quiet
