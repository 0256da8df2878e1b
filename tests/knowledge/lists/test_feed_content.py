"""What feeds send: formats, kinds, dates, and what is broken."""

import gzip
import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secmon.common.download import DownloadError, open_unpacked
from secmon.knowledge.lists.feed_content import FeedContent, FeedError, read_feed
from secmon.knowledge.lists.feeds_yml import ListFeed

NOW = 1_790_000_000


def read(text: str | bytes, **options: Any) -> FeedContent:
    feed = ListFeed(name="x", url="http://x/", **options)
    content = text.encode() if isinstance(text, str) else text
    return read_feed(open_unpacked(io.BytesIO(content), feed.max_bytes), feed, NOW)


def pairs(found: FeedContent) -> dict[str, str]:
    return {key.decode(): entry.value.decode() for key, entry in found.entries.items()}


def test_lines() -> None:
    text = "\ufeff# Comment\r\n; another\n\n192.0.2.7\r\n 10.1.2.3/8 ; SBL1\n2001:DB8::1, \nnone.example\n"
    found = read(text, kind="address", value="bad")
    assert pairs(found) == {"192.0.2.7": "bad", "10.0.0.0/8": "bad", "2001:db8::1": "bad"}
    assert found.left_out == 1


@pytest.mark.parametrize(
    ("kind", "word", "key"),
    [
        ("text", "Any:thing", "Any:thing"),
        ("domain", "WWW.Example.ORG.", "www.example.org"),
        ("domain", "xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("hash", "D41D8CD98F00B204E9800998ECF8427E", "d41d8cd98f00b204e9800998ecf8427e"),
        ("hash", "a" * 64, "a" * 64),
        ("address", "192.0.2.1/32", "192.0.2.1"),
        ("domain", "192.0.2.1", None),
        ("domain", "localhost", None),
        ("hash", "abc", None),
        ("address", "192.0.2.256", None),
        ("address", "fe80::1%eth0", None),
        ("address", "192.0.2.1/33", None),
    ],
)
def test_kinds(kind: str, word: str, key: str | None) -> None:
    good = {"address": "192.0.2.9", "domain": "good.example", "hash": "b" * 40, "text": "good"}[kind]
    assert pairs(read(f"{good}\n{word}\n", kind=kind)) == dict.fromkeys((good, key) if key else (good,), "")


def test_bytes_that_are_no_text_cost_their_line() -> None:
    found = read(b'{"a": "\x80"}\n{"a": "good"}\n', format="json", key_field="a")
    assert pairs(found) == {"good": ""}
    assert found.left_out == 1


def test_a_list_of_ours() -> None:
    found = read('a:1\n"b:c":"d:e"\n\n# comment\nno entry\nf:\n', format="list", value="other")
    assert pairs(found) == {"a": "1", "b:c": "d:e", "f": "other"}
    assert found.left_out == 1


CSV = '''# made today
ip,until,"threat, if known"
192.0.2.1,2026-09-22T00:00:00Z,"C2 ""x"""
192.0.2.2,1789999999,gone
192.0.2.3,,
192.0.2.4
'''


def test_columns_by_name() -> None:
    fields = {"key_field": "ip", "value_field": "threat, if known", "expiry_field": "until"}
    found = read(CSV, format="csv", kind="address", value="bad", **fields)
    assert pairs(found) == {"192.0.2.1": "C2  x ", "192.0.2.3": "bad", "192.0.2.4": "bad"}
    assert [entry.until for entry in found.entries.values()] == [1790035200, None, None]


def test_columns_by_number() -> None:
    found = read("a|1.2.3.4\nb|1.2.3.5\n", format="csv", kind="address", key_field="2", value_field="1", delimiter="|")
    assert pairs(found) == {"1.2.3.4": "a", "1.2.3.5": "b"}


def test_json_lines() -> None:
    lines = [
        '{"indicator": {"ip": "192.0.2.1"}, "score": 7, "until": 1790000001}',
        '{"indicator": {"ip": "192.0.2.2"}, "until": null}',
        '{"indicator": {"ip": "192.0.2.3"}, "until": "soon"}',
        '{"indicator": "192.0.2.4"}',
        '{"indicator": {"ip": "192.0.2.5"}, "score": true}',
    ]
    fields = {"key_field": "indicator.ip", "value_field": "score", "expiry_field": "until"}
    found = read("\n".join(lines), format="json", kind="address", **fields)
    assert pairs(found) == {"192.0.2.1": "7", "192.0.2.2": "", "192.0.2.5": ""}
    assert found.left_out == 2


def test_packed_feeds() -> None:
    assert pairs(read(gzip.compress(b"a\nb\n"))) == {"a": "", "b": ""}
    with pytest.raises(DownloadError, match="unpacks to more than 1000 bytes"):
        read(gzip.compress(b"a\n" * 100_000), max_bytes=1000)


@pytest.mark.parametrize(
    ("text", "options", "reason"),
    [
        ("", {}, "no entries"),
        ("# nothing\n\n", {}, "no entries"),
        ("<html>\n<body>Sorry</body>\n</html>\n", {"kind": "address"}, "3 of its 3 lines are no entries"),
        ("<html>\n" * 9 + "192.0.2.1\n", {"kind": "address"}, "9 of its 10 lines"),
        ("a\nb\nc\n", {"max_entries": 2}, "more than 2 entries"),
        ("a,b\n1,2\n", {"format": "csv", "key_field": "c"}, "no column 'c'"),
        ("[1,\n2]\n", {"format": "json", "key_field": "c"}, "2 of its 2 lines"),
        ('"' + "x" * 200_000, {"format": "csv", "key_field": "1"}, "is no CSV"),
    ],
)
def test_broken_feeds(text: str, options: dict[str, Any], reason: str) -> None:
    with pytest.raises(FeedError, match=reason):
        read(text, **options)


def test_a_feed_whose_entries_have_all_expired_is_not_broken() -> None:
    assert read("a,1\n", format="csv", key_field="1", expiry_field="2").entries == {}


@given(
    st.binary(max_size=80) | st.text('ab",:{}[]1.\n\r#\\"', max_size=60).map(str.encode),
    st.sampled_from(["lines", "list", "csv", "json"]),
)
def test_any_bytes_are_read_or_refused(data: bytes, form: str) -> None:
    try:
        read(data, format=form, key_field="1")
    except (FeedError, DownloadError):
        pass
