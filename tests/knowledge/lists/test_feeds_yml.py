"""``feeds.yml``: what is accepted, and how it is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secmon.common.errors import ConfigError
from secmon.knowledge.lists.feeds_yml import ListFeed, parse_feeds

FULL = r"""
feeds:
  bad-addresses:
    url: https://feeds.example.org/a.csv?key=1
    format: csv
    kind: address
    key_field: ip
    value_field: "2"
    expiry_field: until
    value: botnet
    delimiter: \t
    every: 15m
    keep: 7d
    max_bytes: 10M
    max_entries: "5000"
    sha256_url: https://feeds.example.org/a.csv.sha256
    headers: {Auth-Key: "a b"}
    internal_redirects: yes
  other: {url: "http://10.0.0.1/x"}
"""


def test_all_options() -> None:
    feeds = parse_feeds(FULL.encode())
    assert feeds["other"] == ListFeed(name="other", url="http://10.0.0.1/x")
    assert feeds["bad-addresses"] == ListFeed(
        name="bad-addresses", url="https://feeds.example.org/a.csv?key=1", format="csv", kind="address", key_field="ip",
        value_field="2", expiry_field="until", value="botnet", delimiter="\t", every=900, keep=604800,
        max_bytes=10 << 20, max_entries=5000, sha256_url="https://feeds.example.org/a.csv.sha256",
        headers={"Auth-Key": "a b"}, internal_redirects=True,
    )  # fmt: skip


@pytest.mark.parametrize("text", ["", "feeds:", "feeds: {}"])
def test_no_feeds(text: str) -> None:
    assert parse_feeds(text.encode()) == {}


@pytest.mark.parametrize(
    ("options", "key", "text"),
    [
        ("{}", "feeds.a.url", "missing"),
        ("{url: ftp://x/}", "feeds.a.url", "http://"),
        ("{url: http://x/, evry: 1h}", "feeds.a.evry", "no such name"),
        ("{url: http://x/, every: 10s}", "feeds.a.every", "60 to"),
        ("{url: http://x/, every: [1]}", "feeds.a.every", "60 to"),
        ("{url: http://x/, max_bytes: 2G}", "feeds.a.max_bytes", "bytes"),
        ("{url: http://x/, format: xml}", "feeds.a.format", "lines, list, csv, json"),
        ("{url: http://x/, format: json}", "feeds.a.key_field", "missing"),
        ("{url: http://x/, kind: port}", "feeds.a.kind", "address"),
        ("{url: http://x/, delimiter: ab}", "feeds.a.delimiter", "one character"),
        ("{url: http://x/, value: 'a\"b'}", "feeds.a.value", "quotes"),
        ('{url: http://x/, headers: {X: "a\\r\\nY: b"}}', "feeds.a.headers", "ASCII"),
        ("{url: http://x/, internal_redirects: perhaps}", "feeds.a.internal_redirects", "yes, no"),
        ("[]", "feeds.a", "not a mapping"),
    ],
)
def test_faults_are_named(options: str, key: str, text: str) -> None:
    with pytest.raises(ConfigError, match=text) as refused:
        parse_feeds(f"feeds:\n  a: {options}\n".encode())
    assert refused.value.key == key


@pytest.mark.parametrize("name", ["a.b", "../x", "a/b", "''", "x" * 201])
def test_names_are_those_of_lists(name: str) -> None:
    with pytest.raises(ConfigError, match="names of lists"):
        parse_feeds(f"feeds:\n  {name}: {{url: http://x/}}\n".encode())


def test_secrets_are_not_shown() -> None:
    with pytest.raises(ConfigError) as refused:
        parse_feeds(b"feeds:\n  a: {url: 'https://user:secret@x/?key=secret'}\n")
    assert "secret" not in refused.value.message


@given(st.binary(max_size=100) | st.text("feds:{}[]*&-!|> \n\"'1,", max_size=60).map(str.encode))
def test_any_text_is_read_or_refused(data: bytes) -> None:
    try:
        parse_feeds(data)
    except ConfigError:
        pass
