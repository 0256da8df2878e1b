"""Reading requests."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.types import Message

from secmon.api.problems import RequestRefused
from secmon.api.request import BodyMemory, Request, logged_body, logged_query, parse_query, read_body


def _request(*headers: tuple[bytes, bytes], client: str = "192.0.2.1") -> Request:
    return Request(
        {
            "type": "http",
            "method": "PUT",
            "path": "/",
            "raw_path": b"/",
            "query_string": b"",
            "headers": list(headers),
            "client": (client, 1),
        }
    )


@pytest.mark.parametrize(
    ("raw", "pairs"),
    [
        (b"", []),
        (b"a=1&b=2&a=3", [("a", "1"), ("b", "2"), ("a", "3")]),
        (b"q=name=x;y=z", [("q", "name=x;y=z")]),
        (b"a=x+y%2Bz&b=%252B", [("a", "x y+z"), ("b", "%2B")]),
        (b"a&=x&&b=", [("a", ""), ("b", "")]),
        (b"%C3%A9=%00", [("é", "\0")]),
        (b"a=%zz%", [("a", "%zz%")]),
    ],
)
def test_query(raw: bytes, pairs: list[tuple[str, str]]) -> None:
    assert parse_query(raw) == pairs


@given(st.binary(max_size=200))
def test_anything_can_be_logged(raw: bytes) -> None:
    assert all(isinstance(value, str) for value in logged_query(raw).values())
    logged_body(raw)


def test_bodies_that_are_not_json_are_logged_as_empty() -> None:
    for raw in (b"", b"\xff", b"{", b"[" * 100_000, b"9" * 5000):
        assert logged_body(raw) == {}


def test_addresses() -> None:
    assert _request(client="::ffff:192.0.2.7").client == "192.0.2.7"
    assert _request(client="::ffff:abcd").client == "::ffff:abcd"
    assert _request(client="2001:db8::1").client == "2001:db8::1"


@pytest.mark.anyio
async def test_bodies_of_all_requests_have_one_bound_and_one_address_half_of_it() -> None:
    bodies = BodyMemory(1000, lambda _request: True)
    chunked = (b"transfer-encoding", b"chunked")
    first, again, other, third = (_request(chunked, client=f"192.0.2.{number}") for number in (1, 1, 2, 3))

    async def receive() -> Message:
        return {"type": "http.request", "body": b"x" * 400, "more_body": False}

    assert len(await read_body(first, receive, bodies, limit=0, seconds=5)) == 400
    with pytest.raises(RequestRefused, match="503"):
        await read_body(again, receive, bodies, limit=0, seconds=5)
    assert len(await read_body(other, receive, bodies, limit=0, seconds=5)) == 400
    with pytest.raises(RequestRefused, match="503"):
        await read_body(third, receive, bodies, limit=0, seconds=5)
    for each in (again, third):
        bodies.release(each)
    assert bodies.held == 800
    bodies.release(first)
    assert len(await read_body(again, receive, bodies, limit=0, seconds=5)) == 400
    bodies.release(other)
    bodies.release(again)
    assert bodies.held == 0


def test_strangers_from_many_addresses_leave_room_for_known_clients() -> None:
    bodies = BodyMemory(1000, lambda request: request.client.startswith("198.51.100."))
    strangers = [_request(client=f"2001:db8:{number}::1") for number in range(20)]
    for _ in range(10):
        for stranger in strangers:
            with contextlib.suppress(RequestRefused):
                bodies.hold(stranger, 50)
    assert bodies.held == 500
    for number in range(2):
        bodies.hold(_request(client=f"198.51.100.{number}"), 250)
    with pytest.raises(RequestRefused, match="503"):
        bodies.hold(_request(client="198.51.100.3"), 1)
    for stranger in strangers:
        bodies.release(stranger)
    assert bodies.held == 500


def test_one_stranger_leaves_room_for_others() -> None:
    bodies = BodyMemory(1000)
    for number in range(4):
        request = _request(client=f"2001:db8:1:2::{number}")
        with contextlib.suppress(RequestRefused):
            for _ in range(100):
                bodies.hold(request, 10)
    assert bodies.held == 250, "all addresses of a /64 are one"
    bodies.hold(_request(client="192.0.2.1"), 250)


@given(st.lists(st.tuples(st.integers(0, 6), st.booleans(), st.integers(0, 400)), max_size=60))
def test_the_memory_of_bodies_is_bounded_whatever_comes(steps: list[tuple[int, bool, int]]) -> None:
    bodies = BodyMemory(1000, lambda request: request.client.endswith("6"))
    requests: dict[int, Request] = {}
    for number, ends, size in steps:
        request = requests.setdefault(number, _request(client=f"192.0.2.{number}"))
        if ends:
            bodies.release(request)
        else:
            with contextlib.suppress(RequestRefused):
                bodies.hold(request, size)
        assert bodies.held == sum(each.held for each in requests.values()) <= 1000
    for request in requests.values():
        bodies.release(request)
    assert bodies.held == 0
