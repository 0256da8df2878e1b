"""Requests of both dialects, byte for byte, and what answers mean (vectors, agent-link.md 10.5)."""

import pytest

from secmon.agentlink.upgrade.dialects import CLEAR, LOCK, AgentRefused, JsonDialect, TextDialect, dialect_of, text_data
from tests.agents.wire.vectors import section

CASE = section("upgrade_requests")
CHUNK = bytes.fromhex(CASE["chunk_hex"])
FILE = "wazuh_agent_v4.8.2_linux_x86_64.wpk"


def joined(target: str, request: bytes) -> bytes:
    return target.encode() + b" " + request


@pytest.mark.parametrize(("dialect", "name"), [(JsonDialect(), "new"), (TextDialect(), "legacy")])
def test_requests(dialect: JsonDialect | TextDialect, name: str) -> None:
    own = [
        dialect.open(FILE), dialect.write(FILE, CHUNK), dialect.close(FILE), dialect.sha1(FILE),
        dialect.upgrade(FILE, "upgrade.sh"),
    ]  # fmt: skip
    sent = [joined(*LOCK), *(joined(dialect.target, one) for one in own)]
    if name == "new":
        sent.append(joined(*CLEAR))
    expected = [one.encode().replace(b"<48 raw bytes>", CHUNK) for one in CASE[name]]
    assert sent == expected


def test_answers() -> None:
    ok, digest, done, refused = (one.encode() for one in CASE["new_replies"])
    assert (JsonDialect().data(ok), JsonDialect().data(done)) == ("ok", "0")
    assert JsonDialect().data(digest) == "df7f23b160e75b9bae5ea1e62b43a5a34a260127"
    with pytest.raises(AgentRefused, match="Could not verify signature"):
        JsonDialect().data(refused)
    ok, digest, done, refused = (one.encode() for one in CASE["legacy_replies"])
    assert (TextDialect().data(ok), TextDialect().data(done)) == ("", "0")
    assert TextDialect().data(digest) == "df7f23b160e75b9bae5ea1e62b43a5a34a260127"
    with pytest.raises(AgentRefused, match="Could not verify signature"):
        TextDialect().data(refused)


@pytest.mark.parametrize("answer", [b"err Response timeout", b"", b"[]", b"\xff", b'{"error":"x"}', b"okay"])
def test_error_answers(answer: bytes) -> None:
    for data in (JsonDialect().data, TextDialect().data, text_data):
        with pytest.raises(AgentRefused):
            data(answer)


@pytest.mark.parametrize(
    ("version", "kind"),
    [("Wazuh v4.1.0", JsonDialect), ("Wazuh v4.0.4", TextDialect), ("v5.0.0", JsonDialect), (None, TextDialect)],
)
def test_dialects_by_version(version: str | None, kind: type) -> None:
    assert isinstance(dialect_of(version), kind)
