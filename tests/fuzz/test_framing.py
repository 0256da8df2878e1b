"""Paths, methods, heads and bodies at the edge of HTTP, and over it."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secmon.cluster.catalogue import Operation
from secmon.operations.all import CATALOGUE
from tests.fuzz.effort import effort
from tests.fuzz.oracle import check
from tests.fuzz.target import NODES, Target
from tests.fuzz.wire import Reply
from tests.offenders import Offenders

METHODS = ["GET", "POST", "PUT", "DELETE", "HEAD", "PATCH", "OPTIONS", "TRACE", "PROPFIND", "LOCK", "MKCOL", "PURGE"]
PATHS = sorted({one.path for one in CATALOGUE})
LIMITED = ("/event", "/events")
"""30 requests a minute, counted before anybody is asked for a token (conventions.md 9.2)."""


def refused_framing(reply: Reply, status: int = 400) -> None:
    """The one answer that is no problem document: text, and the end of the connection (conventions.md 0, step 1)."""
    assert (reply.status, reply.media_type) == (status, "text/plain; charset=utf-8"), reply
    assert reply.headers["connection"] == "close"
    assert reply.body


def answered(reply: Reply, *statuses: int) -> None:
    """A problem document without an operation behind it, or a refusal of the framing."""
    if reply.media_type.startswith("text/plain") and reply.status != 308:
        refused_framing(reply, reply.status)
    elif reply.status == 401:
        check(reply, CATALOGUE.get("GET /"))
    else:
        check(reply, None)
    assert not statuses or reply.status in statuses, reply


def test_all_methods_on_all_paths(target: Target) -> None:
    """Without a token: 401 where there is an operation, 405 elsewhere, with or without a slash at the end."""
    with Offenders() as offenders:
        for path, method, ending in itertools.product(PATHS, METHODS, ("", "/")):
            if path + ending != "//":
                with offenders.row(method, path + ending):
                    _one_method_on_one_path(target, method, path, ending)


def _one_method_on_one_path(target: Target, method: str, path: str, ending: str) -> None:
    concrete = path.replace("{node_id}", "worker1").replace("{", "").replace("}", "")
    reply = target.wires[NODES[0]].send(method, (concrete + ending).encode())
    if method == "HEAD":
        assert (reply.status, reply.body) == (405, b"")
        return
    operation = _operation(method, path, concrete)
    check(reply, operation)
    if reply.status != 429 or path not in LIMITED:
        assert reply.status == (401 if operation else 405), reply


def _operation(method: str, path: str, concrete: str) -> Operation | None:
    """The operation at a path: ``/security/users/me`` is also a value of ``/security/users/{user_id}``."""
    found = CATALOGUE.get(f"{method} {path}")
    others = (one for one in CATALOGUE if one.method == method and one.template.fullmatch(concrete))
    return found or next(others, None)


@pytest.mark.parametrize("method", ["FOO", "get", "", "CONNECT", "GET\x00", "M" * 9000, "GET POST", "\xff"])
def test_other_methods(target: Target, method: str) -> None:
    answered(target.wires[NODES[0]].send(method, b"/"), 400, 405)


PIECES = [
    "%2e%2e",
    "..",
    ".",
    "%2E",
    "%00",
    "%2f",
    "/",
    "//",
    "%5c",
    "\\",
    "%",
    "%zz",
    "%ff",
    "%c0%af",
    "%u002f",
    ";a=b",
]
PIECES += [
    "cluster",
    "security",
    "users",
    "1",
    "me",
    "nodes",
    "worker1",
    "configuration",
    "%0d%0a",
    "%20",
    "%3f",
    "%25",
]
PIECES += [
    "manager",
    "logs",
    "{node_id}",
    "~",
    "*",
    "'",
    '"',
    "<",
    "|",
    "^",
    "`",
    "é",
    "\x80",
    "%F0%9F%98%80",
    "a" * 500,
]


@given(parts=st.lists(st.sampled_from(PIECES), max_size=6), slashes=st.booleans(), node=st.sampled_from(NODES))
@effort(150)
def test_any_path(target: Target, parts: list[str], slashes: bool, node: str) -> None:
    path = ("/" + ("/" if slashes else "").join(parts)).encode("latin-1")
    answered(target.wires[node].send("GET", path), 308, 400, 401, 404, 405)


@given(
    parts=st.lists(st.sampled_from(PIECES[:16] + PIECES[24:28]), min_size=1, max_size=3), node=st.sampled_from(NODES)
)
@effort(80)
def test_any_name_of_a_node(target: Target, parts: list[str], node: str) -> None:
    """No path value leads out of its segment: with a token, nothing but refusals and failed items."""
    path = f"/cluster/{''.join(parts)}/configuration".encode("latin-1")
    reply = target.ask("GET", path, node=node)
    if reply.status == 200:
        check(reply, CATALOGUE.get("GET /cluster/{node_id}/configuration"))
        assert b"1730" in reply.body, reply
    elif reply.media_type.startswith("text/plain") and reply.status != 308:
        refused_framing(reply)
    else:
        check(reply, None)


@pytest.mark.parametrize("path", [b"/" + b"a" * 8000, b"/" + b"%2e%2e/" * 1100, b"/" + b"a/" * 4000])
def test_long_paths(target: Target, path: bytes) -> None:
    answered(target.wires[NODES[0]].send("GET", path), 404)


@pytest.mark.parametrize("path", [b"/" + b"a" * 9000, b"/?" + b"a" * 9000, b"/" + b"a" * 100_000, b"", b"a b", b"\xff"])
def test_lines_that_are_no_request(target: Target, path: bytes) -> None:
    refused_framing(target.wires[NODES[0]].send("GET", path))


@pytest.mark.parametrize(
    "form", [b"*", b"https://other/", b"//other/x", b"/\\other", b"///", b"/#a", b"/?#", b"other:1", b"/%2f%2fother"]
)
def test_forms_of_targets(target: Target, form: bytes) -> None:
    for method in ("GET", "OPTIONS"):
        answered(target.wires[NODES[0]].send(method, form))


HEADS = {
    "a header of many bytes": (b"X-Long: " + b"a" * 9000, 400),
    "a name of many bytes": (b"a" * 9000 + b": 1", 400),
    "many headers": (b"\r\n".join(b"X-%d: 1" % number for number in range(150)), 400),
    "much in all": (b"\r\n".join(b"X-%d: %s" % (number, b"a" * 8000) for number in range(12)), 400),
    "a NUL in a header": (b"X-A: a\x00b", 400),
    "a blank in a name": (b"X A: 1", 400),
    "no colon": (b"X-A", 400),
    "no name": (b": 1", 400),
    "a folded header": (b"X-A: 1\r\n folded", None),
    "bytes that are no text": (b"X-A: \xff\xfe", 401),
    "a length that is negative": (b"Content-Length: -1", 400),
    "a length that is none": (b"Content-Length: 1e3", 400),
    "a length beyond all numbers": (b"Content-Length: " + b"9" * 60, 400),
    "a length beyond the limit": (b"Content-Length: 99999999999", 413),
    "two lengths": (b"Content-Length: 1\r\nContent-Length: 2", 400),
    "length and chunks": (b"Content-Length: 1\r\nTransfer-Encoding: chunked", 400),
    "chunks": (b"Transfer-Encoding: Chunked", 401),
    "chunks of a coding": (b"Transfer-Encoding: gzip, chunked", 400),
    "an unknown coding": (b"Transfer-Encoding: other", 400),
    "chunks twice": (b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", 400),
    "an expectation": (b"Expect: 200-ok", 417),
    "another protocol": (b"Connection: Upgrade\r\nUpgrade: websocket", 401),
    "HTTP/2 as an upgrade": (b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk", 401),
    "two tokens": (b"Authorization: Bearer a\r\nAuthorization: Bearer b", 401),
    "an origin": (b"Origin: https://other\r\nAccess-Control-Request-Method: GET", 401),
    "no acceptable type": (b"Accept: image/png\r\nAccept-Language: \xff", 401),
}


@pytest.mark.parametrize(("head", "status"), HEADS.values(), ids=HEADS.keys())
def test_heads(target: Target, head: bytes, status: int | None) -> None:
    ending = b"0\r\n\r\n" if b"hunked" in head else b""
    reply = target.wires[NODES[0]].raw(b"GET / HTTP/1.1\r\nHost: test\r\n" + head + b"\r\n\r\n" + ending)
    if reply.status == 413:
        check(reply, CATALOGUE.get("GET /"))
        target.wires[NODES[0]].close()  # the rest of the body is still awaited
    else:
        answered(reply, *([status] if status else []))


CHUNKS = [
    b"zz\r\n",
    b"-1\r\n",
    b"ffffffffffffffffff\r\n",
    b"1\r\nabc\r\n0\r\n\r\n",
    b"1;" + b"x" * 9000 + b"\r\na\r\n0\r\n\r\n",
    b"\r\n\r\n",
]


@pytest.mark.parametrize("chunk", CHUNKS, ids=range(len(CHUNKS)))
def test_chunks_that_are_none(target: Target, chunk: bytes) -> None:
    """The request is in the middle of its body when the fault is found: text or the end, but no answer to it."""
    head = b"POST /security/users HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n"
    reply = target.wires[NODES[0]].raw(head + chunk, "POST")
    if reply.status == 401:
        check(reply, CATALOGUE.get("POST /security/users"))
    elif reply.status:
        refused_framing(reply)


WORDS = [
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"GET / HTTP/9.9\r\n\r\n",
    b"\x16\x03\x01\x00\xa5\x01\r\n\r\n",
    b"\0\0\0\0",
]
WORDS += [
    b"GET / HTTP/1.1\n\n",
    b"HTTP/1.1 200 OK\r\n\r\n",
    b"GET  /  HTTP/1.1\r\n\r\n",
    b"{}\r\n\r\n",
    b"GET / http/1.1\r\n\r\n",
]


@pytest.mark.parametrize("word", WORDS, ids=range(len(WORDS)))
def test_words_that_are_no_http(target: Target, word: bytes) -> None:
    answered(target.wires[NODES[0]].raw(word))


@given(raw=st.binary(min_size=1, max_size=80))
@effort(60)
def test_any_bytes(target: Target, raw: bytes) -> None:
    """Whatever comes first, an empty line behind it ends the head."""
    reply = target.wires[NODES[1]].raw(b"GET / HTTP/1.1\r\nX: " + raw + b"\r\n\r\n\r\n\r\n")
    if reply.status not in (0, 408):
        answered(reply)


def test_old_versions(target: Target) -> None:
    reply = target.wires[NODES[0]].raw(b"GET / HTTP/1.0\r\n\r\n")
    check(reply, CATALOGUE.get("GET /"))
    assert reply.status == 401


def test_all_of_this_left_both_nodes_well(target: Target) -> None:
    for node in NODES:
        check(target.ask("GET", b"/", node=node), CATALOGUE.get("GET /"))
        reply = target.ask("GET", b"/cluster/nodes", node=node)
        assert all(name.encode() in reply.body for name in NODES)
