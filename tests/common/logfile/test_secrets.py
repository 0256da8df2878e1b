"""Secrets in what is logged."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secmon.common.logfile.secrets import MASK, SecretMasker, is_secret

SECRET = "Zx9-not-to-be-seen"
NAMES = (
    "password", "Password", "PASSWD", "new_password", "db.password", "api_key", "apiKey", "API-KEY", "key", "KEY",
    "token", "access_token", "X-Auth-Token", "Authorization", "Set-Cookie", "client_secret", "SecretValue",
    "shared_key", "private-key", "credentials", "hook_url", "passphrase",
    "pass", "authd.pass", "smtp_Pass", "userPass", "PIN", "card-pin", "otp", "sessionId", "session_id", "jwt", "bearer",
    "X-Signature", "auth", "X-Auth", "sig", "auth_token_exp_timeout_backup", "AuthTokenExpTimeout",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_names_of_secrets(name: str) -> None:
    assert is_secret(name)


@pytest.mark.parametrize(
    "name",
    [
        "auth_token_exp_timeout",
        "keys_count",
        "auth_context",
        "author",
        "config",
        "monkey",
        "user",
        "name",
        "keyboard",
        "agent_id",
        "compass",
        "pass_count",
        "spin",
        "laptop",
        "session",
        "passing",
    ],
)
def test_other_names(name: str) -> None:
    assert not is_secret(name)


def test_a_copy_is_made() -> None:
    given_ = {
        "user": "ana",
        "Authorization": "Bearer x",
        "login": {"key": "k", "list": [{"api_key": ["z"], "n": 1}, ({"Token": {"a": "b"}},)], "password": None},
        "auth_token_exp_timeout": 900,
    }
    assert SecretMasker().apply(given_) == {
        "user": "ana",
        "Authorization": MASK,
        "login": {"key": MASK, "list": [{"api_key": MASK, "n": 1}, [{"Token": MASK}]], "password": None},
        "auth_token_exp_timeout": 900,
    }
    assert given_["Authorization"] == "Bearer x"


def test_addresses_lose_their_password() -> None:
    text = f"from https://ana:{SECRET}@repo.example/wpk/ and http://[::1]/a@b"
    assert SecretMasker().apply([text]) == ["from https://****@repo.example/wpk/ and http://[::1]/a@b"]


@pytest.mark.parametrize("password", ["a@b", "a/b", "a b", "a\nb", "a#b@c/d", "a?b:1", "1a/b", "[::1]"])
def test_any_character_of_a_password_is_masked(password: str) -> None:
    shown = SecretMasker().apply(f"https://ana:{password}{SECRET}@repo.example/x")
    assert shown == "https://****@repo.example/x"
    for limit in range(1, 60):
        assert "Zx" not in SecretMasker(limit).apply(f"https://ana:{password}{SECRET}@repo.example/x")


@pytest.mark.parametrize("address", ["http://h/a@b", "http://h:80/a@b", "http://[::1]:8080/a@b", "http://h?m=a@b"])
def test_addresses_without_a_password_stay(address: str) -> None:
    assert SecretMasker().apply(address) == address


def test_many_addresses_cost_little() -> None:
    assert SecretMasker().apply("@" + "://a:b " * 20_000).count("://") == 20_000


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('{"user": "ana", "password": "' + SECRET + ' x", "n": 1}', '{"user": "ana", "password": ****, "n": 1}'),
        (f"{{'Token':'{SECRET}'}}", "{'Token':****}"),
        (f"api_key: {SECRET}", "api_key: ****"),
        (f'password="a b {SECRET}"', "password=****"),
        ("12:30:00 in C:/x", "12:30:00 in C:/x"),
    ],
)
def test_members_within_a_text(text: str, shown: str) -> None:
    assert SecretMasker().apply(text) == shown


def test_the_item_after_an_option_is_its_value() -> None:
    masked = SecretMasker().apply(["-u", "ana", "--password", SECRET, "-token", {"a": SECRET}, "x"])
    assert masked == ["-u", "ana", "--password", MASK, "-token", MASK, "x"]


def test_texts_lose_the_values_of_secrets() -> None:
    texts = {
        "q": f"name=web;password={SECRET},(token~{SECRET});api.key!={SECRET}",
        "Referer": f"https://host/x?a=1&access_token={SECRET}&b=2",
    }
    assert SecretMasker().apply(texts) == {
        "q": "name=web;password=****,(token~****);api.key!=****",
        "Referer": "https://host/x?a=1&access_token=****&b=2",
    }


@pytest.mark.parametrize("limit", range(1, 60))
def test_no_limit_cuts_a_secret_free(limit: int) -> None:
    for text in (
        f"see https://ana:{SECRET}@repo.example",
        f"x?password={SECRET}&a=1",
        f"a=1 {'x' * 20} token={SECRET}",
    ):
        shown = SecretMasker(limit).apply(text)
        assert not any(part in shown for part in ("Zx", SECRET[3:]))
        assert len(shown) <= max(limit, len(SecretMasker().apply(text)))


_values = st.sampled_from([SECRET, [SECRET], {"a": [SECRET]}])
_trees = st.recursive(
    st.builds(lambda name, value: {name: value}, st.sampled_from(NAMES), _values),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(_trees, st.none() | st.integers(0, 60))
def test_no_secret_is_shown_at_any_depth(tree: Any, limit: int | None) -> None:
    assert SECRET not in json.dumps(SecretMasker(limit).apply(tree))


@given(st.recursive(st.text(max_size=40), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_what_a_limit_leaves_out_lies_behind_it(value: Any) -> None:
    redaction = SecretMasker(30)
    shown = redaction.apply(value)
    whole = SecretMasker().apply(value)
    assert json.dumps(shown)[:30].rstrip('"]}') in json.dumps(whole)
    assert redaction.cut or shown == whole
