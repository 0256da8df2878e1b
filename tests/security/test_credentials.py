"""Basic credentials."""

import base64
import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secmon.security.authentication_error import AuthenticationError
from secmon.security.credentials import authenticate, decode_basic
from secmon.security.store.security_store import SecurityStore
from tests.security.conftest import PASSWORD


def basic(raw: bytes, scheme: str = "Basic") -> str:
    return f"{scheme} {base64.b64encode(raw).decode()}"


@pytest.mark.parametrize(
    ("header", "credentials"),
    [
        (basic(b"mira:secret"), ("mira", "secret")),
        (basic(b"mira:se:cr:et"), ("mira", "se:cr:et")),
        (basic(b"mira:", "bAsIc"), ("mira", "")),
        (basic(b":secret"), ("", "secret")),
        (basic("zoë:pässword".encode()), ("zoë", "pässword")),
        (basic("zoë:pässword".encode("latin-1")), ("zoë", "pässword")),
        ("Basic   " + base64.b64encode(b"a:b").decode() + " ", ("a", "b")),
    ],
)
def test_decoding(header: str, credentials: tuple[str, str]) -> None:
    assert decode_basic(header) == credentials


@pytest.mark.parametrize(
    "header", [None, "", "Basic", "Basic !!!", "Bearer abc", basic(b"no colon"), "BasicbWlyYTpz", "Basic \xe9"]
)
def test_anything_else_is_invalid(header: str | None) -> None:
    with pytest.raises(AuthenticationError, match=r"^Invalid credentials$"):
        decode_basic(header)


@given(st.text())
def test_no_header_crashes(header: str) -> None:
    for value in (header, f"Basic {header}"):
        with contextlib.suppress(AuthenticationError):
            decode_basic(value)


def test_authenticate(store: SecurityStore) -> None:
    view = store.view()
    assert authenticate(view, "admin", PASSWORD).id == 1
    assert authenticate(view, "dashboard", PASSWORD).id == 2
    for name, password in (("admin", "wrong"), ("Admin", PASSWORD), ("nobody", PASSWORD), ("mira", ""), ("", "")):
        with pytest.raises(AuthenticationError, match=r"^Invalid credentials$"):
            authenticate(view, name, password)
