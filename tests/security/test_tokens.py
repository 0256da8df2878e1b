"""Tokens: what they say, what kills them, what must not be accepted."""

from collections.abc import Callable
from datetime import timedelta

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from secmon.common.errors import SecmonError
from secmon.common.identity import Identity
from secmon.security.authentication_error import AuthenticationError
from secmon.security.key_rotation import rotate_signing_key
from secmon.security.revocation import revoke_all, revoke_role, revoke_run_as, revoke_user
from secmon.security.settings import reset_security_config, set_security_config
from secmon.security.store import schema
from secmon.security.store.security_store import SecurityStore
from secmon.security.store.transaction import WriteTransaction
from secmon.security.tokens import AUDIENCE, Tokens
from secmon.security.user_changes import set_password
from tests.manual_clock import ManualClock
from tests.security.conftest import PASSWORD, find
from tests.security.store.rows import link_role, put_role, put_user

CLOCK = ManualClock()
Change = Callable[[WriteTransaction], object]


def refused(tokens: Tokens, store: SecurityStore, token: str) -> bool:
    try:
        tokens.verify(store.view(), token)
    except AuthenticationError as error:
        return error.detail == "Invalid token"
    return False


def issue(tokens: Tokens, store: SecurityStore, name: str = "mira", context_hash: str | None = None) -> str:
    view = store.view()
    return tokens.issue(view, find(view, name), context_hash=context_hash)


def test_round_trip(store: SecurityStore, tokens: Tokens) -> None:
    token = issue(tokens, store)
    for _ in range(2):
        assert tokens.verify(store.view(), token) == Identity(
            user="mira", user_id=100, roles=(100, 101), run_as=False, mode="white", revision=store.revision()
        )


def test_a_verified_token_is_recognised_while_it_is_valid(store: SecurityStore, tokens: Tokens) -> None:
    token = issue(tokens, store)
    assert tokens.recognise(store.view(), token) is None
    tokens.verify(store.view(), token)
    assert tokens.recognise(store.view(), token) == "mira"
    assert tokens.recognise(store.view(), token + "x") is None
    with store.write() as change:
        revoke_user(change, 100, CLOCK)
    assert tokens.recognise(store.view(), token) is None


def test_claims(store: SecurityStore, tokens: Tokens) -> None:
    view = store.view()
    token = tokens.issue(view, find(view, "admin"), (7, 3), context_hash="ab" * 16)
    claims = jwt.decode(token, options={"verify_signature": False})
    issued = int(CLOCK.now().timestamp())
    assert claims == {
        "iss": "secmon",
        "aud": "secmon API REST",
        "nbf": issued,
        "exp": issued + 900,
        "sub": "admin",
        "uid": 1,
        "run_as": True,
        "rbac_roles": [7, 3],
        "rbac_mode": "white",
        "srev": view.revision,
        "hash_auth_context": "ab" * 16,
    }
    identity = tokens.verify(view, token)
    assert (identity.roles, identity.run_as, identity.context_hash) == ((7, 3), True, "ab" * 16)


KILLERS: dict[str, Change] = {
    "logout": lambda tx: revoke_user(tx, 100, CLOCK),
    "password": lambda tx: set_password(tx, 100, PASSWORD, CLOCK),
    "role": lambda tx: revoke_role(tx, 101, CLOCK),
    "everyone": revoke_all,
    "configuration": lambda tx: set_security_config(tx, rbac_mode="white"),
    "configuration reset": reset_security_config,
}


@pytest.mark.parametrize("change", KILLERS.values(), ids=KILLERS)
def test_revocation_within_the_same_second(change: Change, store: SecurityStore, tokens: Tokens) -> None:
    before = issue(tokens, store)
    assert not refused(tokens, store, before)
    with store.write() as tx:
        change(tx)
    after = issue(tokens, store)
    assert refused(tokens, store, before)
    assert not refused(tokens, store, after)


SPARERS: dict[str, Change] = {
    "another user": lambda tx: revoke_user(tx, 1, CLOCK),
    "another role": lambda tx: revoke_role(tx, 1, CLOCK),
    "run_as": lambda tx: revoke_run_as(tx, CLOCK),
    "a new user": lambda tx: put_user(tx, 500),
    "key rotation": lambda tx: rotate_signing_key(tx, CLOCK),
}


@pytest.mark.parametrize("change", SPARERS.values(), ids=SPARERS)
def test_unrelated_changes_do_not_revoke_the_token(change: Change, store: SecurityStore, tokens: Tokens) -> None:
    token = issue(tokens, store)
    with store.write() as tx:
        change(tx)
    assert not refused(tokens, store, token)
    assert not refused(Tokens(CLOCK), store, token)


def test_a_login_during_a_password_change_yields_a_revoked_token(store: SecurityStore, tokens: Tokens) -> None:
    checked = store.revision()
    with store.write() as tx:
        set_password(tx, 100, PASSWORD, CLOCK)
    view = store.view()
    assert refused(tokens, store, tokens.issue(view, find(view, "mira"), revision=checked))
    assert not refused(tokens, store, tokens.issue(view, find(view, "mira")))


def test_user_without_roles_can_be_logged_out(store: SecurityStore, tokens: Tokens) -> None:
    with store.write() as tx:
        put_user(tx, 200, "bare")
    token = issue(tokens, store, "bare")
    assert not refused(tokens, store, token)
    with store.write() as tx:
        revoke_user(tx, 200, CLOCK)
    assert refused(tokens, store, token)


def test_run_as_revocation_revokes_run_as_tokens(store: SecurityStore, tokens: Tokens) -> None:
    context, plain = issue(tokens, store, "admin", "00" * 16), issue(tokens, store, "admin")
    with store.write() as tx:
        revoke_run_as(tx, CLOCK)
    assert refused(tokens, store, context)
    assert not refused(tokens, store, plain)


def test_the_roles_of_the_token_count_for_role_revocation(store: SecurityStore, tokens: Tokens) -> None:
    view = store.view()
    token = tokens.issue(view, find(view, "dashboard"), (5,), context_hash="00" * 16)
    with store.write() as tx:
        revoke_role(tx, 1, CLOCK)  # the user's own role, not in the token
    assert not refused(tokens, store, token)
    with store.write() as tx:
        revoke_role(tx, 5, CLOCK)
    assert refused(tokens, store, token)


def test_roles_are_compared_as_a_set_unless_run_as_is_allowed(store: SecurityStore, tokens: Tokens) -> None:
    mira, admin = issue(tokens, store), issue(tokens, store, "admin")
    with store.write() as tx:
        link_role(tx, 100, 100, position=1)
        link_role(tx, 100, 101, position=0)
    assert not refused(tokens, store, mira)
    with store.write() as tx:
        tx.delete(schema.user_roles, 100, 101)
        put_role(tx, 200)
        link_role(tx, 1, 200, position=1)
    assert refused(tokens, store, mira)
    assert not refused(tokens, store, admin)


def test_mode_and_lifetime_must_be_the_current_ones(store: SecurityStore, tokens: Tokens) -> None:
    token = issue(tokens, store)
    for name, value, current in (("rbac_mode", '"black"', '"white"'), ("auth_token_exp_timeout", "60", "900")):
        with store.write() as tx:
            tx.put(schema.settings, {"name": name, "value": value})
        assert refused(tokens, store, token)
        with store.write() as tx:
            tx.put(schema.settings, {"name": name, "value": current})
    assert not refused(tokens, store, token)


def test_a_namesake_does_not_inherit_tokens(store: SecurityStore, tokens: Tokens) -> None:
    token = issue(tokens, store)
    with store.write() as tx:
        tx.delete(schema.users, 100)
    assert refused(tokens, store, token)
    with store.write() as tx:
        number = tx.next_id(schema.users)
        put_user(tx, number, "mira")
        link_role(tx, number, 100, 0)
        link_role(tx, number, 101, 1)
    assert refused(tokens, store, token)


def test_time(store: SecurityStore, tokens: Tokens, clock: ManualClock) -> None:
    behind = ManualClock(clock.now() - timedelta(seconds=5))
    far_behind = ManualClock(clock.now() - timedelta(seconds=6))
    token = issue(tokens, store)
    assert not refused(Tokens(behind), store, token)
    assert refused(Tokens(far_behind), store, token)
    assert not refused(Tokens(far_behind, clock_difference_seconds=1), store, token)
    clock.advance(899.9)
    assert not refused(tokens, store, token)
    clock.advance(0.1)
    assert refused(tokens, store, token)


def test_rotation_keeps_old_tokens_and_drops_old_keys(store: SecurityStore, tokens: Tokens, clock: ManualClock) -> None:
    old = issue(tokens, store)
    with store.write() as tx:
        first = next(iter(store.view().keys))
        second = rotate_signing_key(tx, clock).kid
    assert jwt.get_unverified_header(issue(tokens, store))["kid"] == second
    assert not refused(tokens, store, old)
    clock.advance(2000)
    with store.write() as tx:
        third = rotate_signing_key(tx, clock).kid
    assert set(store.view().keys) == {second, third}
    assert first not in store.view().keys
    clock.advance(-2000)
    assert refused(tokens, store, old)  # its key is gone, though the signature was checked before


def test_a_retired_key_cannot_sign_later(store: SecurityStore, clock: ManualClock) -> None:
    before = store.view()
    with store.write() as tx:
        rotate_signing_key(tx, clock)
    clock.advance(61)
    forged = Tokens(clock).issue(before, find(before, "mira"))
    assert refused(Tokens(clock), store, forged)


def test_no_key_at_all(store: SecurityStore, tokens: Tokens) -> None:
    with store.write() as tx:
        for row in tx.select(schema.signing_keys):
            tx.delete(schema.signing_keys, row["kid"])
    with pytest.raises(SecmonError, match="6003"):
        issue(tokens, store)


def forge(store: SecurityStore, tokens: Tokens, **overrides: object) -> str:
    """A token signed with the right key, whose claims are changed; None removes one."""
    key = next(iter(store.view().keys.values()))
    claims = jwt.decode(issue(tokens, store), options={"verify_signature": False}) | overrides
    kept = {name: value for name, value in claims.items() if value is not None}
    return jwt.encode(kept, key.private, algorithm="ES256", headers={"kid": key.kid})


@pytest.mark.parametrize(
    "claim", ["iss", "aud", "nbf", "exp", "sub", "uid", "run_as", "rbac_roles", "rbac_mode", "srev"]
)
def test_every_claim_is_required(claim: str, store: SecurityStore, tokens: Tokens) -> None:
    assert not refused(tokens, store, forge(store, tokens))
    assert refused(tokens, store, forge(store, tokens, **{claim: None}))


@pytest.mark.parametrize(
    "overrides",
    [
        {"aud": "other"},
        {"iss": "other"},
        {"run_as": 1},
        {"uid": "100"},
        {"uid": 101},
        {"sub": "nobody"},
        {"rbac_roles": [100, "101"]},
        {"rbac_roles": [100]},
        {"rbac_mode": "grey"},
        {"srev": -1, "sub": 5},
        {"srev": 10**6},
        {"exp": 2**70},
    ],
    ids=str,
)
def test_invalid_claims(overrides: dict[str, object], store: SecurityStore, tokens: Tokens) -> None:
    assert refused(tokens, store, forge(store, tokens, **overrides))


def test_other_keys_and_algorithms(store: SecurityStore, tokens: Tokens) -> None:
    good = issue(tokens, store)
    header, payload, signature = good.split(".")
    claims = jwt.decode(good, options={"verify_signature": False})
    key = next(iter(store.view().keys.values()))
    stranger = ec.generate_private_key(ec.SECP256R1())
    bad = [
        jwt.encode(claims, stranger, algorithm="ES256", headers={"kid": key.kid}),
        jwt.encode(claims, stranger, algorithm="ES256", headers={"kid": "unknown"}),
        jwt.encode(claims, key.private, algorithm="ES256"),
        jwt.encode(claims, "", algorithm="none", headers={"kid": key.kid}),
        jwt.encode(claims, "s" * 64, algorithm="HS256", headers={"kid": key.kid}),
        f"{header}.{payload}.",
        f"{header}.{payload}",
        f"{header}..{signature}",
        f"{header}.{payload}.{signature[:-8]}AAAAAAAA",
        "",
        "...",
        "a" * 100_000,
        jwt.utils.base64url_encode(b"[" * 20_000).decode() + ".e30.e30",
        jwt.utils.base64url_encode(b'{"alg":"ES256","kid":["x"]}').decode() + ".e30.e30",
        "\ud800.x.x",
    ]
    assert [token[:40] for token in bad if not refused(tokens, store, token)] == []


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_damaged_tokens_are_refused(data: st.DataObject, store: SecurityStore, tokens: Tokens) -> None:
    token = issue(tokens, store)
    # The last character of a base64url part may hold unused bits; any other place carries meaning.
    place = data.draw(st.integers(0, len(token) - 2).filter(lambda at: token[at + 1] != "."))
    letter = data.draw(st.characters(codec="utf-8").filter(lambda new: new != token[place]))
    assert refused(tokens, store, token[:place] + letter + token[place + 1 :])


def test_forgotten_signatures_are_checked_again(store: SecurityStore, clock: ManualClock) -> None:
    tokens = Tokens(clock, remembered=1)
    first, second = issue(tokens, store), issue(tokens, store, "admin")
    for token in (first, second, first):
        assert not refused(tokens, store, token)


def test_a_replica_behind_answers_3044(store: SecurityStore, tokens: Tokens) -> None:
    replica = SecurityStore(store.path.with_name("replica.db"), writable=False)
    replica.apply_snapshot(store.snapshot())
    base = store.revision()
    assert tokens.verify(replica.view(), issue(tokens, store)).user == "mira"
    with store.write() as tx:
        set_password(tx, 100, PASSWORD, CLOCK)
    token = issue(tokens, store)
    with pytest.raises(SecmonError, match="3044"):
        tokens.verify(replica.view(), token)
    replica.apply_changes(store.store_id(), base, store.changes_since(base) or [], store.revision())
    assert tokens.verify(replica.view(), token).revision == store.revision()
    replica.close()


def test_the_audience_is_checked() -> None:
    assert AUDIENCE == "secmon API REST"
