"""Bodies that no client library would make."""

import gzip
import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secmon.cluster.catalogue import Operation
from secmon.operations.all import CATALOGUE
from tests.fuzz.effort import effort
from tests.fuzz.oracle import DOCUMENT, check
from tests.fuzz.target import NODES, Target
from tests.fuzz.wire import Header, Reply
from tests.offenders import Offenders

WITH_BODY = [one for one in CATALOGUE if one.body is not None]
JSON = b"application/json"

DEEP = [b"[" * 900 + b"]" * 900, b'{"a":' * 150 + b"1" + b"}" * 150, b'{"a":' * 900 + b"1" + b"}" * 900]
DEEP += [b'{"a":' * depth + b"1" + b"}" * depth for depth in (198, 199, 200, 950, 965, 968, 971, 974, 977)]
TOO_DEEP = [b"[" * 200_000, b"[" * 50_000 + b"]" * 50_000, b'{"a":' * 50_000 + b"{}" + b"}" * 50_000]
NUMBERS = [b"1e400", b"-1e400", b"9" * 5000, b"-" + b"9" * 30, b"1." + b"0" * 5000, b"1e-9999999", b"-0", b"-0.0"]
NUMBERS += [b"18446744073709551616", b"9223372036854775808", b"NaN", b"Infinity", b"0x10", b"01", b"1_0", b"+1"]
NUMBERS += [b"18446744073709551615", b"-9223372036854775808", b"-9223372036854775809"]
STRINGS = [rb'"\u0000"', rb'"\ud800"', rb'"\udc00\ud800"', rb'"\ud83d\ude00"', b'"\xff\xfe"', b'"\xc0\x80"', rb'"\x"']
STRINGS += [b'"\x00"', b'"\xed\xa0\x80"', b'"' + b"a" * 70_000 + b'"', b'"\xe2\x80\xae"', b'"a', b'"\xf4\x90\x80\x80"']
OTHERS = [b"null", b"true", b"[]", b"{}", b"", b" ", b'{"a":1,"a":2}', b"[null]", b"[,]", b'{"":{}}', b"\xef\xbb\xbf1"]
VALUES = st.sampled_from([*DEEP, *TOO_DEEP, *NUMBERS, *STRINGS, *OTHERS])
WHOLE = VALUES | st.binary(max_size=64) | st.sampled_from([json.dumps({"a": "é"}).encode("utf-16"), b"{}{}", b"{}\x00"])

TYPES = [JSON, JSON, JSON, b"application/json; charset=utf-8", b"application/json; charset=utf-16", b"", b"text/xml"]
TYPES += [
    b"application/octet-stream",
    b"application/x-www-form-urlencoded",
    b"multipart/form-data; boundary=x",
    b"\xff",
]


def _members(operation: Operation) -> dict[str, bytes]:
    """A body with values that are all right, member by member."""
    schema = DOCUMENT["paths"][operation.path][operation.method.lower()]["requestBody"]["content"][operation.body_type][
        "schema"
    ]
    if reference := schema.get("$ref"):
        schema = DOCUMENT["components"]["schemas"][reference.rsplit("/", 1)[1]]
    return {name: _GOOD.get(name, b'"fuzzed"') for name in schema.get("properties", {"a": None})}


_GOOD = {
    "policy": b'{"actions":["cluster:read"],"resources":["node:id:*"],"effect":"allow"}',
    "rule": b'{"MATCH":{"a":"b"}}',
    "password": b'"Fuzzed-word-1"',
    "auth_token_exp_timeout": b"900",
    "rbac_mode": b'"white"',
}


@st.composite
def bodies(draw: st.DrawFn, operation: Operation) -> bytes:
    """JSON texts whose members are replaced, repeated or added; or anything."""
    if operation.body_type != "application/json" or draw(st.integers(0, 3)) == 0:
        return draw(WHOLE)
    members: list[tuple[bytes, bytes]] = [(name.encode(), value) for name, value in _members(operation).items()]
    for _ in range(draw(st.integers(1, 2))):
        name = draw(st.sampled_from([*(one[0] for one in members), b"a", rb"\u0000", b"\xff", b"__proto__"]))
        value = draw(VALUES | st.just(b'{"MATCH":{"a":%s}}' % draw(VALUES)) | st.just(b'{"a":[%s]}' % draw(VALUES)))
        kept = members if draw(st.booleans()) else [one for one in members if one[0] != name]
        place = draw(st.integers(0, len(kept)))  # of a name that occurs twice the last one counts
        members = [*kept[:place], (name, value), *kept[place:]]
    return b"{" + b",".join(b'"%s":%s' % one for one in members) + b"}"


def send(target: Target, operation: Operation, headers: list[Header], body: bytes, node: str) -> Reply:
    path = operation.path.replace("{node_id}", "worker1")
    for kind in ("user", "role", "policy", "rule"):
        path = path.replace(f"{{{kind}_id}}", "100")
    if operation.auth == "basic":
        return target.wires[node].send(operation.method, path.encode(), [*headers, target.basic()], body)
    return target.ask(operation.method, path.encode(), headers, body, node=node)


@pytest.mark.parametrize("operation", WITH_BODY, ids=lambda one: one.name)
def test_any_body_is_answered(target: Target, operation: Operation) -> None:
    @effort(20 if operation.auth == "basic" else 40)
    @given(bodies(operation), st.just(operation.body_type.encode()) | st.sampled_from(TYPES), st.sampled_from(NODES))
    def ask(body: bytes, kind: bytes, node: str) -> None:
        headers = [(b"Content-Type", kind)] if kind else []
        check(send(target, operation, headers, body, node), operation)

    ask()
    target.restore()


def test_compressed_bodies_are_not_unpacked(target: Target) -> None:
    """No coding is understood, so no small body can become a large one."""
    body = gzip.compress(b"{" + b" " * 5_000_000 + b"}")
    with Offenders() as offenders:
        for operation, coding in itertools.product(WITH_BODY, (b"gzip", b"deflate", b"br", b"identity", b"gzip, gzip")):
            with offenders.row(operation.name, coding):
                headers = [(b"Content-Type", operation.body_type.encode()), (b"Content-Encoding", coding)]
                reply = send(target, operation, headers, body, NODES[0])
                check(reply, operation)
                limited = operation.path in ("/event", "/events")  # 30 a minute
                assert reply.status in ((400, 429) if limited else (400,))


def test_unexpected_bodies(target: Target) -> None:
    """They are read and left alone; without credentials, so that nothing is done."""
    bodies = (b"[" * 100_000, b"\xff", b'{"a": 1}')
    with Offenders() as offenders:
        for operation, body in itertools.product((one for one in CATALOGUE if one.body is None), bodies):
            with offenders.row(operation.name, body[:20]):
                path = operation.path.replace("{node_id}", "worker1").replace("{user_id}", "100").encode()
                reply = target.wires[NODES[0]].send(operation.method, path, [(b"Content-Type", JSON)], body)
                check(reply, operation)
                assert reply.status == 401


def test_a_rule_that_is_stored_can_be_listed(target: Target) -> None:
    """Whatever a rule holds has to come back, on every node, and to be judged at logins."""
    drawn = st.recursive(st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(), _nested)

    @effort(40)
    @given(drawn.map(lambda value: json.dumps(value).encode()) | VALUES)
    def store(value: bytes) -> None:
        body = b'{"name": "kept", "rule": {"MATCH": {"a": %s}}}' % value
        reply = send(target, _POST_RULE, [(b"Content-Type", JSON)], body, NODES[1])
        check(reply, _POST_RULE)
        if reply.status != 200:
            return
        made = json.loads(reply.body)["data"]["affected_items"]
        for node in NODES:
            listed = target.ask("GET", b"/security/rules?sort=-id&limit=1", node=node)
            check(listed, _GET_RULES)
            assert not made or json.loads(listed.body)["data"]["affected_items"] == made
            for context in (b'{"a": 1}', b'{"a": %s}' % value):
                check(send(target, _RUN_AS, [], context, node), _RUN_AS)
        ids = ",".join(str(one["id"]) for one in made) or "99"
        check(target.ask("DELETE", f"/security/rules?rule_ids={ids}".encode()), _DELETE_RULES)

    store()


def _nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)


def _operation(name: str) -> Operation:
    found = CATALOGUE.get(name)
    assert found is not None
    return found


_RUN_AS = _operation("POST /security/user/authenticate/run_as")
_POST_RULE = _operation("POST /security/rules")
_GET_RULES = _operation("GET /security/rules")
_DELETE_RULES = _operation("DELETE /security/rules")
