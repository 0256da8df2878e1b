"""The query language of every listing operation."""

from urllib.parse import quote

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from secmon.cluster.catalogue import Operation
from tests.fuzz.cases import ONE_ANSWER
from tests.fuzz.effort import effort
from tests.fuzz.grammar import listings
from tests.fuzz.oracle import check
from tests.fuzz.target import LINE_BYTES, NODES, Target

LISTINGS = [one for one in ONE_ANSWER if one.fields is not None or any(each.wire == "q" for each in one.parameters)]


def encoded(values: dict[str, str]) -> bytes:
    """A query string; lone surrogates become the bytes that UTF-8 forbids."""
    pairs = (f"{quote(name, safe='', errors='surrogatepass')}={_quoted(text)}" for name, text in values.items())
    return "&".join(pairs).encode("ascii")


def _quoted(text: str) -> str:
    # Signs of the language may be unencoded; clients differ in what they encode.
    return quote(text, safe=";,=<>!~():*'[]" if len(text) % 2 else "", errors="surrogatepass")


@pytest.mark.parametrize("operation", LISTINGS, ids=lambda one: one.name)
def test_any_query_is_answered(target: Target, operation: Operation) -> None:
    @effort(30)
    @given(listings(operation), st.sampled_from(NODES))
    def ask(values: dict[str, str], node: str) -> None:
        path = operation.path.replace("{node_id}", "worker1").encode()
        query = encoded(values)
        assume(len(query) < LINE_BYTES)
        reply = target.ask(operation.method, path + b"?" + query, node=node)
        check(reply, operation, selected="select" in values)

    ask()


@pytest.mark.parametrize("operation", LISTINGS, ids=lambda one: one.name)
@given(raw=st.binary(max_size=40))
@effort(10)
def test_any_bytes_are_answered(target: Target, operation: Operation, raw: bytes) -> None:
    """Bytes that a request line can hold: no controls, no blanks."""
    path = operation.path.replace("{node_id}", "worker1").encode()
    query = bytes(one for one in raw if 0x20 < one < 0x7F and one != ord("#"))
    check(target.ask(operation.method, path + b"?q=" + query), operation, selected=b"select" in query)
