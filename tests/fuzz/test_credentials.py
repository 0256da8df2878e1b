"""Forged tokens and Authorization headers."""

import hmac
import json
from base64 import b64encode, urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator
from contextlib import closing
from hashlib import sha256
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from hypothesis import given
from hypothesis import strategies as st

from secmon.cluster.catalogue import Operation
from secmon.operations.all import CATALOGUE
from secmon.security.signing_keys import SigningKey
from secmon.security.store.security_store import SecurityStore
from tests.fuzz.effort import effort
from tests.fuzz.oracle import check
from tests.fuzz.target import NODES, Target
from tests.fuzz.wire import Reply

ROOT = CATALOGUE.get("GET /")
LOGINS = [one for one in CATALOGUE if one.auth == "basic"]

Json = dict[str, Any]


def refused(target: Target, header: bytes, node: str = NODES[0]) -> Reply:
    """The answer to ``GET /`` with this Authorization header, which must be a refusal."""
    reply = target.wires[node].send("GET", b"/", [(b"Authorization", header)])
    check(reply, ROOT)
    assert reply.status == 401, (header[:300], reply)
    return reply


def text64(value: object) -> bytes:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return urlsafe_b64encode(data).rstrip(b"=")


@pytest.fixture(scope="module")
def token(target: Target) -> bytes:
    """A good token; nothing in this module revokes it."""
    return target.token()


@pytest.fixture(scope="module")
def key(target: Target, token: bytes) -> Iterator[SigningKey]:
    """The key that signed it, as only the nodes have it."""
    with closing(SecurityStore(target.cluster.master.paths.security_db, writable=False)) as store:
        yield store.view().keys[jwt.get_unverified_header(token)["kid"]]


@pytest.fixture(scope="module")
def claims(token: bytes) -> Json:
    return dict(jwt.decode(token, options={"verify_signature": False}))


def test_the_good_one(target: Target, token: bytes, key: SigningKey, claims: Json) -> None:
    """What is forged below would be accepted if it were signed, and said what the store says."""
    again = jwt.encode(claims, key.private, algorithm="ES256", headers={"kid": key.kid}).encode()
    for one in (token, again):
        assert target.wires[NODES[1]].send("GET", b"/", [(b"Authorization", b"Bearer " + one)]).status == 200


@pytest.mark.parametrize("algorithm", ["none", "None", "NONE", "nOnE", "", "HS256", "HS512", "ES384", "RS256", None, 1])
def test_other_algorithms(target: Target, key: SigningKey, claims: Json, algorithm: object) -> None:
    """None at all, and the public key taken for a shared secret."""
    signed = text64({"alg": algorithm, "typ": "JWT", "kid": key.kid}) + b"." + text64(claims)
    for secret in (key.public_pem.encode(), key.public_pem.strip().encode(), b"", key.kid.encode()):
        refused(target, b"Bearer " + signed + b"." + text64(hmac.digest(secret, signed, sha256)))
    refused(target, b"Bearer " + signed + b".")


def test_other_keys(target: Target, key: SigningKey, claims: Json) -> None:
    other = ec.generate_private_key(ec.SECP256R1())
    for kid in (key.kid, "", "../../key", "' OR 1=1 --", "\0", "x" * 3000):
        refused(target, b"Bearer " + jwt.encode(claims, other, algorithm="ES256", headers={"kid": kid}).encode())
    embedded = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(other.public_key()))
    for extra in ({"jwk": embedded}, {"jku": "https://127.0.0.1:1/"}, {"x5u": "file:///etc/passwd"}):
        headers = {"kid": key.kid, **extra}
        refused(target, b"Bearer " + jwt.encode(claims, other, algorithm="ES256", headers=headers).encode())
    rsa_key = rsa.generate_private_key(65537, 2048)
    refused(target, b"Bearer " + jwt.encode(claims, rsa_key, algorithm="RS256", headers={"kid": key.kid}).encode())


@pytest.mark.parametrize("kid", [None, 1, [], {}, ["a"], True, 1.5, "", "\u0000", "\ud800", "x" * 4000])
def test_names_of_keys_of_any_type(target: Target, key: SigningKey, claims: Json, kid: object) -> None:
    header = text64({"alg": "ES256", "typ": "JWT", "kid": kid})
    refused(target, b"Bearer " + header + b"." + text64(claims) + b"." + text64(b"\x01" * 64))


def test_damaged_tokens(target: Target, token: bytes) -> None:
    """Every part changed, cut, repeated or replaced."""
    header, payload, signature = token.split(b".")
    other = text64({**json.loads(urlsafe_b64decode(payload + b"==")), "rbac_roles": [1, 2, 3]})
    parts = [b".".join(one) for one in ((header, other, signature), (payload, header, signature))]
    parts += [header + b"." + payload, b"..", b".", b"a.b.c", token + b"." + token, b"." + token, token + b".", b"\xff"]
    parts += [token[:cut] for cut in range(1, len(token), 29)]
    for size in (7000, 8100, 8160):
        parts += [b"a" * size, token + b"A" * (size - len(token)), b"." * size]
    for signed in (
        b"[]",
        b"1",
        b'"a"',
        b"null",
        b"\xff",
        b"{",
        b"[" * 3000,
        b'{"alg":"ES256","crit":["b64"],"b64":false}',
    ):
        parts += [text64(signed) + b"." + payload + b"." + signature, header + b"." + text64(signed) + b"." + signature]
    for one in parts:
        for node in NODES:
            refused(target, b"Bearer " + one, node)


@given(place=st.integers(0, 10_000), bits=st.integers(1, 127), node=st.sampled_from(NODES))
@effort(60)
def test_flipped_bits(target: Target, token: bytes, place: int, bits: int, node: str) -> None:
    place %= len(token) - 2  # the last letter holds bits that the signature does not use
    letter = bytes([(token[place] ^ bits) & 0x7F])
    if letter <= b" " or letter == b"\x7f":  # no header may hold these
        letter = b"~"
    refused(target, b"Bearer " + token[:place] + letter + token[place + 1 :], node)


_NAMES = [
    "sub",
    "uid",
    "nbf",
    "exp",
    "run_as",
    "rbac_roles",
    "rbac_mode",
    "srev",
    "hash_auth_context",
    "aud",
    "iss",
    "iat",
]
_SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.just(2**70)
_ANY = _SCALARS | st.lists(_SCALARS, max_size=3) | st.dictionaries(st.text(max_size=4), _SCALARS, max_size=2)


@given(change=st.dictionaries(st.sampled_from(_NAMES), _ANY, min_size=1, max_size=2), node=st.sampled_from(NODES))
@effort(80)
def test_signed_claims_of_any_type(target: Target, key: SigningKey, claims: Json, change: Json, node: str) -> None:
    """Even what a node has signed is checked before it is used."""
    payload = json.dumps({**claims, **change}).encode()
    made = jwt.api_jws.encode(payload, key.private, algorithm="ES256", headers={"kid": key.kid})
    reply = target.wires[node].send("GET", b"/", [(b"Authorization", b"Bearer " + made.encode())])
    if reply.status == 500:  # a worker waits for the revision of a signed token, and then says that it is behind
        assert node != NODES[0]
        assert change["srev"] > claims["srev"]
        assert json.loads(reply.body)["error"] == 3044
    else:
        check(reply, ROOT)


_HEADER = st.binary(max_size=60).map(lambda raw: bytes(one for one in raw if one == 9 or (one > 31 and one != 127)))
_SCHEMES = st.sampled_from([b"Bearer ", b"bearer  ", b"BEARER\t", b"Basic ", b"Digest ", b"Bearer", b"", b"Bearer a "])


@given(scheme=_SCHEMES, rest=_HEADER, node=st.sampled_from(NODES))
@effort(60)
def test_any_header(target: Target, scheme: bytes, rest: bytes, node: str) -> None:
    refused(target, scheme + rest, node)


@pytest.mark.parametrize("operation", LOGINS, ids=lambda one: one.name)
def test_any_login(target: Target, operation: Operation) -> None:
    """Names and passwords of any bytes; and what is no base64."""
    names = st.sampled_from([b"admin", b"nobody", b"", b"\0", b"a" * 3000, b"\xff", b"admin\0", b"ADMIN", b"' or 1=1"])
    pairs = st.tuples(names | st.binary(max_size=8), st.sampled_from([b":", b"", b"::"]), st.binary(max_size=8))
    encoded = pairs.map(lambda one: b"Basic " + b64encode(b"".join(one)))

    @effort(15)
    @given(encoded | encoded | st.tuples(_SCHEMES, _HEADER).map(b"".join))
    def log_in(header: bytes) -> None:
        reply = target.wires[NODES[1]].send(
            operation.method, operation.path.encode(), [(b"Authorization", header)], b"{}" if operation.body else None
        )
        check(reply, operation)
        assert reply.status == 401

    log_in()
