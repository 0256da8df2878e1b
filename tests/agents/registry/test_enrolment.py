"""Enrolment requests, case by case and at random."""

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secmon.agents.names import AGENT_NAME, normal_address
from secmon.agents.registry.enrolment import (
    Refusal,
    Request,
    Rules,
    accepted,
    parse,
    refusal,
    relayed_refusal,
)
from secmon.agents.registry.entries import Entry
from secmon.common.errors import SecmonError
from secmon.config.agent_versions import HIGHEST_AGENT
from tests.agents.wire.vectors import section

SOURCE = "192.0.2.9"


def said(text: bytes | str, rules: Rules | None = None, source: str = SOURCE) -> str:
    data = text if isinstance(text, bytes) else text.encode()
    with pytest.raises(Refusal) as refused:
        parse(data, source, rules or Rules())
    return str(refused.value)


def outcome(data: bytes, source: str, rules: Rules) -> Request | Refusal:
    try:
        return parse(data, source, rules)
    except Refusal as refused:
        return refused


@pytest.mark.parametrize("case", section("enrolment_requests")["cases"], ids=lambda case: case["request"][:60])
def test_every_known_case(case: dict[str, Any]) -> None:
    password = case["password"]
    rules = Rules(
        password=None if password is None else password.encode(),
        use_source_ip=case["use_source_ip"],
        highest_version=None if case["allow_higher_versions"] else HIGHEST_AGENT,
    )
    found = outcome(case["request"].encode(), case["source_address"], rules)
    if isinstance(found, Refusal):
        assert case["reply"] == found.line
    else:
        groups = ",".join(found.groups) or None
        assert {"name": found.name, "groups": groups, "ip": found.address, "key_hash": found.key_hash} == case["parsed"]


@pytest.mark.parametrize("case", section("enrolment_success_reply"))
def test_the_reply_of_success(case: dict[str, Any]) -> None:
    entry = Entry(int(case["id"]), case["name"], case["ip"], case["key"], 0, None, None, 1)
    assert accepted(entry) == case["reply"].encode()


@pytest.mark.parametrize(
    ("text", "reply"),
    [
        ("OSSEC A:'web-01' G:'a b,c'", "Invalid group name: a b,c... white spaces are not allowed"),
        ("OSSEC A:'web-01' G:',a'", "Invalid group name: ,a... cannot start or end with ','"),
        (f"OSSEC A:'web-01' G:'{'ab' * 40000}'", f"Invalid group name: {('ab' * 200)[:255]}... group is too large"),
        (f"OSSEC A:'web-01' G:'{'a,' * 40000}a'", f"Invalid group name: {'a,' * 127}a... multigroup is too large"),
        ("OSSEC A:'web-01' IP:''", "Invalid IP: "),
        ("OSSEC A:'web-01' IP:'10.0.0.0/33'", "Invalid IP: 10.0.0.0/33"),
        (f"OSSEC A:'web-01' IP:'{'1' * 60}'", f"Invalid IP: {'1' * 60}"),
        (f"OSSEC A:'web-01' V:'v{'4' * 3000}'", "Unterminated version field"),
        ("OSSEC A:''", "Invalid agent name: "),
    ],
)  # fmt: skip
def test_more_refusals(text: str, reply: str) -> None:
    assert said(text) == reply


def test_the_password_is_compared_exactly() -> None:
    rules = Rules(password="pä ss".encode())
    assert parse("OSSEC PASS: pä ss OSSEC A:'web-01'\n".encode(), SOURCE, rules).name == "web-01"
    for wrong in ("OSSEC PASS: pä ssOSSEC A:'web-01'", "OSSEC PASS: ", "OSSEC PASS:pä ss OSSEC A:'web-01'", ""):
        assert said(wrong, rules) == "Invalid password"
    assert said("OSSEC PASS: pä ss OSSEC B:'web-01'", rules) == "Invalid request for new agent"


def test_bytes_after_the_request_are_ignored() -> None:
    for tail in ("\0 G:'a", "\n G:'a", "  G:'a'", " X:'1' G:''"):
        assert parse(f"OSSEC A:'web-01'{tail}".encode(), SOURCE, Rules()) == Request(name="web-01")


def test_source_addresses() -> None:
    six = "2001:0DB8:0000:0000:0000:0000:0000:0017"
    text = b"OSSEC A:'web-01' IP:'src'"
    assert parse(text, "::ffff:192.0.2.1", Rules()).address == "192.0.2.1"
    assert parse(text, "2001:db8::17", Rules()).address == six
    assert parse(b"OSSEC A:'web-01'", "2001:db8::17", Rules(use_source_ip=True)).address == six


def test_refusals_of_the_registry() -> None:
    request = Request(name="web-01", address="10.0.0.1", groups=("a",))

    def line(code: int, extra: str | None = None, host: str = "boss") -> str:
        return refusal(request, SecmonError(code, extra), host_name=host).line

    assert line(1705) == "ERROR: Duplicate agent name: web-01"
    assert line(1705, host="web-01") == "ERROR: Invalid agent name: web-01"
    assert line(1706) == "ERROR: Duplicate IP: 10.0.0.1"
    assert line(1710, "a") == "ERROR: Invalid group: a"
    assert line(1737) == "ERROR: Maximum multigroup reached: Limit is 128"
    assert line(1725) == "ERROR: Internal manager error adding agent: web-01"


def test_refusals_relayed_by_a_worker() -> None:
    said_by_worker = {
        code: relayed_refusal(SecmonError(code)).line for code in (1705, 1706, 1710, 1725, 3023, 3036, 1000)
    }
    assert said_by_worker == {
        1705: "ERROR: Duplicate name",
        1706: "ERROR: Duplicate IP",
        1710: "ERROR: Invalid Group(s) Name(s)",
        1725: "ERROR: Issue generating key",
        3023: "ERROR: Cannot comunicate with master",
        3036: "ERROR: Invalid message format",
        1000: "ERROR: Internal error",
    }


PIECES = st.sampled_from(
    ["OSSEC PASS: ", "pw ", "OSSEC A:'", "web-01", "'", " V:'", "v4.8", "v9", " G:'", "a,b", ",", " IP:'", "10.0.0.1",
     "::1", "src", "any", "/8", " K:'", "0" * 40, "\n", "\0", " ", "\udcff"]
)  # fmt: skip
REQUESTS = st.one_of(
    st.binary(max_size=80),
    st.lists(PIECES, max_size=14).map(lambda parts: "".join(parts).encode("utf-8", "surrogateescape")),
)


@settings(max_examples=300)
@given(REQUESTS, st.sampled_from([None, b"pw"]), st.booleans())
def test_any_bytes_give_a_request_that_the_registry_takes_or_a_refusal(
    data: bytes, password: bytes | None, flag: bool
) -> None:
    rules = Rules(password=password, use_source_ip=flag, highest_version=HIGHEST_AGENT if flag else None)
    found = outcome(data, SOURCE, rules)
    if isinstance(found, Refusal):
        assert str(found)
        found.line.encode("utf-8", "surrogateescape")
        return
    assert AGENT_NAME.fullmatch(found.name)
    assert normal_address(found.address) == found.address
    assert all(re.fullmatch(r"[^\s',]{1,255}", name) for name in found.groups)
    assert len(set(found.groups)) == len(found.groups)
    assert found.key_hash is None or re.fullmatch("[0-9a-f]{40}", found.key_hash)
