"""Password rules, hashes, generation."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secmon.common.errors import SecmonError
from secmon.security.passwords import (
    DUMMY_HASH,
    check_password,
    generate_password,
    hash_password,
    needs_rehash,
    verify_password,
)

PBKDF2 = "pbkdf2:sha256:260000$k3Vt0pZqLm9RsXaY$c891267ca498cb968db0d293a46fe8c590098bc4e87408cc1674709c3cfce0f2"


@pytest.mark.parametrize("password", ["Abcdef1!", "Abc def1", "Abcdef1é", "A" * 61 + "b1:", "Quarry-7!lamp"])
def test_good_passwords(password: str) -> None:
    check_password(password)


@pytest.mark.parametrize(
    ("password", "code"),
    [
        ("", 5009),
        ("Ab1!", 5009),
        ("Abcdef1", 5009),
        ("Ab1!" * 16 + "x", 5009),
        ("Abcdefg1", 5007),
        ("Ábcdef1!", 5007),
        ("ABCDEF1!", 5007),
        ("Abcdefg!", 5007),
        ("Abc\ndef1!", 5007),
    ],
)
def test_bad_passwords(password: str, code: int) -> None:
    with pytest.raises(SecmonError) as caught:
        check_password(password)
    assert caught.value.code == code


def test_generated_passwords_obey_the_rules_and_differ() -> None:
    made = [generate_password() for _ in range(200)]
    for password in made:
        check_password(password)
        assert len(password) == 20
    assert len(set(made)) == 200


def test_argon2_round_trip() -> None:
    stored = hash_password("Quarry-7!lämp")
    assert stored.startswith("$argon2id$")
    assert verify_password(stored, "Quarry-7!lämp")
    assert not verify_password(stored, "Quarry-7!lamp")
    assert not needs_rehash(stored)


def test_an_older_hash_is_verified_and_upgraded() -> None:
    assert verify_password(PBKDF2, "Quarry-7!lamp")
    assert not verify_password(PBKDF2, "Quarry-7!lamb")
    assert needs_rehash(PBKDF2)


def test_round_count_and_salt_are_read_from_the_hash() -> None:
    assert not verify_password(PBKDF2.replace("260000", "1000"), "Quarry-7!lamp")
    assert not verify_password(PBKDF2.replace("k3Vt", "k3Vu"), "Quarry-7!lamp")


@pytest.mark.parametrize(
    "stored",
    ["", "x", "$argon2id$", "pbkdf2:", "pbkdf2:md5:1$a$b", "pbkdf2:sha256:0$abc$" + "0" * 64, PBKDF2 + "0"],
)
def test_unreadable_hash_matches_nothing(stored: str) -> None:
    assert not verify_password(stored, "Quarry-7!lamp")


@given(st.text(max_size=80))
def test_an_unknown_user_has_no_password(password: str) -> None:
    assert not verify_password("x", password)


def test_unknown_user_costs_a_real_hash() -> None:
    assert not verify_password(None, "Quarry-7!lamp")
    assert not needs_rehash(DUMMY_HASH)  # same parameters, so the same time
