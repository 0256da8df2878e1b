"""Tokens: signed with ES256, verified locally against the replicated security state (rbac.md 13).

Each node signs with a key of its own, which the header names, so that a token says which node issued it.

The signature of a token is checked once per process and remembered; everything that can change (user, roles,
revocations, settings, keys, time) is checked on every request against the current view.
"""

import hashlib
import threading
from collections import OrderedDict
from typing import NamedTuple

import jwt
import msgspec

from secmon.common.clock import Clock
from secmon.common.errors import SecmonError
from secmon.common.identity import Identity, Mode
from secmon.security.authentication_error import INVALID_TOKEN, AuthenticationError
from secmon.security.rbac.model import User
from secmon.security.store.view import SecurityView

ISSUER = "secmon"
AUDIENCE = "secmon API REST"
ALGORITHM = "ES256"

NBF_LEEWAY_SECONDS = 5
"""How far the clock of the issuing node may be ahead, beyond what the cluster allows. ``exp`` gets no leeway:
lifetimes are exact."""

KEY_RETIREMENT_SECONDS = 60
"""A key may have signed so long after its retirement: other nodes apply the retirement a moment later."""

REMEMBERED_TOKENS = 4096
_MAX_TOKEN_LENGTH = 65_536


class Claims(msgspec.Struct, frozen=True):
    """The claims of a token. ``uid`` and ``srev`` are our own: names can be reused, ids and revisions cannot."""

    sub: str
    uid: int
    nbf: int
    exp: int
    run_as: bool
    rbac_roles: tuple[int, ...]
    rbac_mode: Mode
    srev: int
    hash_auth_context: str | None = None


class _Verified(NamedTuple):
    """Claims, and the key that their signature was checked with."""

    claims: Claims
    kid: str
    public_pem: str


class Tokens:
    """Issues and verifies the tokens of one process. Safe to use from several threads."""

    def __init__(
        self, clock: Clock, *, clock_difference_seconds: float = 0.0, remembered: int = REMEMBERED_TOKENS
    ) -> None:
        """``clock_difference_seconds``: how far the clocks of two nodes may differ."""
        self._clock = clock
        self._not_before_leeway = NBF_LEEWAY_SECONDS + clock_difference_seconds
        self._capacity = remembered
        self._known: OrderedDict[bytes, _Verified] = OrderedDict()
        self._lock = threading.Lock()

    def issue(
        self,
        view: SecurityView,
        user: User,
        roles: tuple[int, ...] | None = None,
        *,
        context_hash: str | None = None,
        revision: int | None = None,
    ) -> str:
        """A token for ``user``, valid from now for the configured lifetime.

        ``revision`` is the one that the credentials were checked at (default: the view's): a change of the password
        meanwhile then revokes this token too. A run_as login gives its granted ``roles`` and the ``context_hash``;
        otherwise the token carries the user's own roles. Raises 6003 without a usable signing key.
        """
        key = view.signing_key
        if key is None:
            raise SecmonError(6003)
        now = int(self._clock.now().timestamp())
        claims = {
            "iss": ISSUER,
            "aud": AUDIENCE,
            "nbf": now,
            "exp": now + view.settings.auth_token_exp_timeout,
            "sub": user.username,
            "uid": user.id,
            "run_as": context_hash is not None,
            "rbac_roles": list(user.roles if roles is None else roles),
            "rbac_mode": view.settings.rbac_mode,
            "srev": view.revision if revision is None else revision,
        }
        if context_hash is not None:
            claims["hash_auth_context"] = context_hash
        return jwt.encode(claims, key.private, algorithm=ALGORITHM, headers={"kid": key.kid})

    def verify(self, view: SecurityView, token: str, *, skew_seconds: float = 0.0) -> Identity:
        """The identity of a valid ``token`` at ``view`` (rbac.md 13.2 with its corrections).

        ``skew_seconds``: how far the clock of the node that has checked the times of this token may differ from ours.
        Raises :class:`AuthenticationError`; 3044 when a valid token was issued at a revision that this replica has
        not reached.
        """
        known = self._signed(view, token, skew_seconds)
        claims = known.claims
        self._check_state(view, claims)
        return Identity(
            user=claims.sub,
            user_id=claims.uid,
            roles=claims.rbac_roles,
            run_as=claims.run_as,
            mode=claims.rbac_mode,
            context_hash=claims.hash_auth_context,
            revision=view.revision,
            issuer=view.keys[known.kid].node,
        )

    def recognise(self, view: SecurityView, token: str) -> str | None:
        """The user of a ``token`` that :meth:`verify` has accepted before and would accept now; else None.

        For the log of requests that are refused before their credentials are checked. Costs little: the signature was
        checked before.
        """
        known = self._recall(_digest(token))
        if known is None or not self._alive(view, known):
            return None
        try:
            self._check_state(view, known.claims)
        except (AuthenticationError, SecmonError):
            return None
        return known.claims.sub

    def _signed(self, view: SecurityView, token: str, skew_seconds: float) -> _Verified:
        """The claims of a token with a valid signature and a key that is still valid."""
        if len(token) > _MAX_TOKEN_LENGTH:
            raise AuthenticationError(INVALID_TOKEN)
        name = _digest(token)
        known = self._recall(name)
        if known is None:
            known = _verify_signature(view, token)
            self._remember(name, known)
        if not self._alive(view, known, skew_seconds):
            raise AuthenticationError(INVALID_TOKEN)
        return known

    def _alive(self, view: SecurityView, known: _Verified, skew_seconds: float = 0.0) -> bool:
        """Whether key and token are valid at the present time."""
        key = view.keys.get(known.kid)
        now = self._clock.now().timestamp()
        claims = known.claims
        return (
            key is not None
            and key.public_pem == known.public_pem
            and (key.retired_at is None or claims.nbf <= key.retired_at + KEY_RETIREMENT_SECONDS)
            and claims.nbf <= now + max(self._not_before_leeway, skew_seconds)
            and now - skew_seconds < claims.exp
        )

    def _check_state(self, view: SecurityView, claims: Claims) -> None:
        if claims.srev > view.revision and not view.authoritative:
            raise SecmonError(3044)
        user = view.user(claims.sub)
        valid = (
            user is not None
            and user.id == claims.uid
            and claims.srev <= view.revision
            and claims.rbac_mode == view.settings.rbac_mode
            and claims.exp - claims.nbf == view.settings.auth_token_exp_timeout
            and (user.allow_run_as or set(user.roles) == set(claims.rbac_roles))
            and claims.srev >= _revoked_before(view, user, claims)
        )
        if not valid:
            raise AuthenticationError(INVALID_TOKEN)

    def _recall(self, name: bytes) -> _Verified | None:
        with self._lock:
            known = self._known.get(name)
            if known is not None:
                self._known.move_to_end(name)
            return known

    def _remember(self, name: bytes, verified: _Verified) -> None:
        with self._lock:
            self._known[name] = verified
            if len(self._known) > self._capacity:
                self._known.popitem(last=False)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()


def _revoked_before(view: SecurityView, user: User, claims: Claims) -> int:
    """The revision before which such tokens are revoked. The roles of the token count, not those of the user."""
    revoked = max(view.revoked_all, user.revoked, *map(view.revoked_role, claims.rbac_roles))
    return max(revoked, view.revoked_run_as) if claims.run_as else revoked


def _verify_signature(view: SecurityView, token: str) -> _Verified:
    """Only ES256, and only keys that the store knows, whatever the token's header asks for."""
    try:
        kid = jwt.get_unverified_header(token).get("kid")
        key = view.keys.get(kid) if isinstance(kid, str) else None
        if key is None:
            raise AuthenticationError(INVALID_TOKEN)
        payload = jwt.decode(
            token,
            key.public,
            algorithms=[ALGORITHM],
            audience=AUDIENCE,
            issuer=ISSUER,
            # Time is checked on every use, with the clock of this process.
            options={"verify_exp": False, "verify_nbf": False, "verify_iat": False},
        )
        return _Verified(msgspec.convert(payload, Claims), key.kid, key.public_pem)
    except (jwt.PyJWTError, ValueError, RecursionError) as error:
        raise AuthenticationError(INVALID_TOKEN) from error
