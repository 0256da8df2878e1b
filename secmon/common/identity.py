"""The caller. An identity travels with every call, between nodes too."""

from typing import Literal

import msgspec

Mode = Literal["white", "black"]


class Identity(msgspec.Struct, frozen=True):
    """An authenticated caller, as judged at security revision ``revision``.

    ``roles`` are the ids carried by the token, in order: the user's own or, for a run_as login, those that its context
    (``context_hash``, 32 hex digits) was granted. ``local`` marks calls made on the node itself without a token
    (command line, internal jobs): everything is allowed (rbac.md 7.5). ``issuer`` is the worker that issued the token;
    empty for the master, and without a token. The decoder of an identity from a peer must
    refuse ``local``: it never crosses the network. A master accepts no identity from a worker.
    """

    user: str
    user_id: int
    roles: tuple[int, ...]
    run_as: bool
    mode: Mode
    context_hash: str | None = None
    revision: int = 0
    local: bool = False
    issuer: str = ""


def node_identity() -> Identity:
    """The caller of what a worker asks the master for itself: no roles, so only what is open to nodes is allowed."""
    return Identity(user="local", user_id=0, roles=(), run_as=False, mode="white")


def scraper_identity() -> Identity:
    """The caller of what scrapers may read by their address. It runs on the node asked."""
    return Identity(user="scraper", user_id=0, roles=(), run_as=False, mode="black", local=True)


def local_identity(revision: int = 0) -> Identity:
    """The caller of internal work: black mode and no policies, which allows everything."""
    return Identity(user="local", user_id=0, roles=(), run_as=False, mode="black", revision=revision, local=True)
