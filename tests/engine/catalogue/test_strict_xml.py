"""Ruleset files as strict XML (analysis-api.md 2.6, 5.3)."""

from xml.sax.saxutils import quoteattr

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secmon.engine.catalogue.strict_xml import MalformedXml, check, read_object
from secmon.engine.ruleset.ruleset_xml import parse

NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True)
TEXTS = st.text(
    st.characters(codec="utf-8", exclude_characters="<>\r", exclude_categories=["Cc", "Cs"]), max_size=20
).map(str.strip)


@pytest.mark.parametrize(
    "text",
    [
        b"<a/><b/>",
        b"<a>&lt;x&gt; & y</a>",
        b"<!-- a -- b --- c ---><a/>",
        b"",
        b"<a b='1'><c/></a>\n",
        b"\xef\xbb\xbf<a/>",
        b"<a><![CDATA[& <!-- ]]></a>",
    ],
)
def test_accepted(text: bytes) -> None:
    check(text)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (b"<a>\n<b></a>", 2),
        (b"<a>x < y</a>", 1),
        (rb"<a>\<</a>", 1),
        (b"<a b=1/>", 1),
        (b"<a", 1),
        (b"</ruleset><ruleset>", 1),
        (b"<?xml version='1.0'?><a/>", 1),
        (b"<!DOCTYPE a><a/>", 1),
        (b"\n<a>\xff</a>", 2),
        (b"<a>" * 80 + b"</a>" * 80, 1),
    ],
)
def test_refused(text: bytes, line: int) -> None:
    with pytest.raises(MalformedXml, match=f"^line {line}: "):
        check(text)


def test_an_object() -> None:
    text = b"""<group name="shop,"><!-- x --><rule id="1" level="3"><decoded_as>shop</decoded_as>
      <regex type="pcre2"> a&lt;b </regex><regex>c</regex><same_source_ip/></rule></group><group name="b"/>"""
    assert read_object(text) == {
        "group": [
            {
                "@name": "shop,",
                "rule": {
                    "@id": "1",
                    "@level": "3",
                    "decoded_as": "shop",
                    "regex": [{"@type": "pcre2", "#text": "a&lt;b"}, "c"],
                    "same_source_ip": None,
                },
            },
            {"@name": "b"},
        ]
    }


@given(NAMES, NAMES, TEXTS, TEXTS)
@settings(max_examples=150)
def test_texts_stay_as_typed(tag: str, attribute: str, value: str, text: str) -> None:
    data = f"<{tag} {attribute}={quoteattr(value, {'&amp;': '&'})}>{text}</{tag}>".encode()
    if '"' in value and "'" in value:
        return  # quoted with an entity, which is text here
    found = read_object(data)[tag]
    assert found == {f"@{attribute}": value} | ({"#text": text} if text else {})


@given(st.binary(max_size=60) | st.text("<>/ab ='\"&!-\n", max_size=60).map(str.encode))
@settings(max_examples=200)
def test_anything_is_accepted_or_refused(data: bytes) -> None:
    try:
        check(data)
    except MalformedXml:
        return
    assert isinstance(read_object(data), dict)


def test_the_engine_reads_what_is_accepted() -> None:
    text = b"<group name='a'><rule id='1' level='0'><match>a & b &lt;</match></rule></group>"
    check(text)
    [group] = parse(text)
    assert group.children[0].children[0].content == b"a & b &lt;"


@pytest.mark.parametrize("mark", [b"<!-- ", b"<![CDATA["])
def test_what_is_not_closed_does_not_take_quadratic_time(mark: bytes) -> None:
    with pytest.raises(MalformedXml):
        check(b"<group>" + mark * 400_000)
