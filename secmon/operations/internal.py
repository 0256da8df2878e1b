"""Internal operations, which daemons and workers call without a user. They have no route: clients cannot call them.

Calls arrive over the local socket or from a connected worker.
"""

import asyncio
from dataclasses import replace
from typing import Annotated

from msgspec import Meta, Struct, structs, to_builtins

from secmon.agents.groups.first_groups import assign_first_groups
from secmon.agents.names import AGENT_NAME, MAX_ID, fits_key_file, normal_address
from secmon.agents.registry.registry import New
from secmon.cluster.catalogue import Catalogue, Place, operation
from secmon.cluster.executor import Context
from secmon.common.errors import SecmonError
from secmon.common.identity import Identity
from secmon.common.outcome import Plain
from secmon.security.credentials import authenticate
from secmon.security.key_rotation import register_signing_key
from secmon.security.passwords import hash_password, needs_rehash
from secmon.security.user_changes import upgrade_hash

INTERNAL = Catalogue()


class HashUpgrade(Struct, frozen=True, kw_only=True):
    """Name and password of a user who has just logged in; the master verifies them before it replaces the hash."""

    user: str
    password: str


@operation(
    "PUT", "/internal/password-hash", params=HashUpgrade, place=Place.MASTER, open_to_all=True, exempt=True,
    catalogue=INTERNAL,
)  # fmt: skip
async def upgrade_password_hash(ctx: Context, params: HashUpgrade) -> Plain:
    """Replace the outdated password hash of the user; tokens stay valid."""
    view = ctx.node.security.view()
    user = await ctx.node.hashing.run(authenticate, view, params.user, params.password)
    if needs_rehash(user.password):
        new = await ctx.node.hashing.run(hash_password, params.password)
        identity = Identity(user=user.username, user_id=user.id, roles=(), run_as=False, mode="white")
        by_user = replace(ctx, call=structs.replace(ctx.call, identity=identity))
        await by_user.change_security(lambda tx: upgrade_hash(tx, user.id, old=user.password, new=new))
    return Plain()


class FailedLoginCounts(Struct, frozen=True, kw_only=True):
    """Failed logins on a node since its last report, by the client's address."""

    failures: Annotated[
        dict[Annotated[str, Meta(max_length=64)], Annotated[int, Meta(ge=1, le=10**6)]], Meta(max_length=1000)
    ]


@operation(
    "PUT", "/internal/failed-logins", params=FailedLoginCounts, place=Place.MASTER, open_to_all=True, exempt=True,
    catalogue=INTERNAL,
)  # fmt: skip
async def count_failed_logins(ctx: Context, params: FailedLoginCounts) -> Plain:
    """Sum them; for each address its failures on all nodes, and how many seconds ago the first one was."""
    logins = ctx.node.services.failed_logins
    if logins is None:
        raise SecmonError(3012)
    for address, count in params.failures.items():
        logins.failed(address, count)
    return Plain(data={address: list(logins.series(address)) for address in params.failures})


class NewSigningKey(Struct, frozen=True, kw_only=True):
    """The public half of a worker's new key pair."""

    kid: Annotated[str, Meta(pattern="^[0-9a-f]{32}$")]
    public_pem: Annotated[str, Meta(max_length=1000)]


@operation(
    "PUT", "/internal/signing-key", params=NewSigningKey, place=Place.MASTER, open_to_all=True, exempt=True,
    catalogue=INTERNAL,
)  # fmt: skip
async def register_worker_key(ctx: Context, params: NewSigningKey) -> Plain:
    """Register the calling worker's new key; answered when all connected nodes accept tokens signed with it."""
    worker = ctx.call.node
    if not worker:
        raise SecmonError(3009, "the master makes its keys itself")
    await ctx.change_security(
        lambda tx: register_signing_key(tx, worker, params.kid, params.public_pem, ctx.node.clock)
    )
    await ctx.unconfirmed_nodes()
    return Plain()


def _is_printable(text: str) -> bool:
    return text.isascii() and text.isprintable()


def _validated(new: New) -> New:
    """``new`` itself, checked again: a worker is not trusted with texts that get into the key file. Raises 3036."""
    texts = [text for text in (new.key, new.key_hash) if text is not None]
    try:
        sound = AGENT_NAME.fullmatch(new.name) is not None and normal_address(new.address) == new.address
    except ValueError:
        sound = False
    sound = sound and fits_key_file(new.name, *texts) and all(map(_is_printable, texts))
    if not sound or not (new.id is None or 0 < new.id <= MAX_ID):
        raise SecmonError(3036, f"an agent {new.name[:64]!r} of this form cannot be added")
    return new


class Enrolment(Struct, frozen=True, kw_only=True):
    """An enrolment request that a worker has received and parsed (agent-link.md 13)."""

    name: str
    address: str
    groups: list[str] = []
    key_hash: str | None = None


@operation(
    "POST", "/internal/agents", params=Enrolment, place=Place.MASTER, open_to_all=True, exempt=True, catalogue=INTERNAL,
)  # fmt: skip
async def enrol_agent(ctx: Context, params: Enrolment) -> Plain:
    """Add an agent under the master's rules; its row of the registry."""
    new = New(name=params.name, address=params.address, groups=tuple(params.groups), key_hash=params.key_hash)
    added = await ctx.node.registrar.add(_validated(new))
    return Plain(data=to_builtins(added.entry))


class KeyedEnrolment(Struct, frozen=True, kw_only=True):
    """An agent with the id and key that a worker has received from the source of keys (agent-link.md 2.5)."""

    id: int
    name: str
    address: str
    key: str
    key_hash: str


@operation(
    "POST", "/internal/agents/keyed", params=KeyedEnrolment, place=Place.MASTER, open_to_all=True, exempt=True,
    catalogue=INTERNAL,
)  # fmt: skip
async def enrol_keyed_agent(ctx: Context, params: KeyedEnrolment) -> Plain:
    """Add an agent with its id and key under the master's rules; its row of the registry."""
    new = New(id=params.id, name=params.name, address=params.address, key=params.key, key_hash=params.key_hash)
    added = await ctx.node.registrar.add(_validated(new))
    return Plain(data=to_builtins(added.entry))


class FirstGroups(Struct, frozen=True, kw_only=True):
    """Agents of a worker that have no group yet, and the md5 of the shared files each has, in the same order."""

    agents: Annotated[list[Annotated[int, Meta(ge=1, le=MAX_ID)]], Meta(max_length=100_000)]
    sums: Annotated[list[Annotated[str, Meta(max_length=64)]], Meta(max_length=100_000)]


@operation(
    "PUT", "/internal/agents/first-groups", params=FirstGroups, place=Place.MASTER, open_to_all=True, exempt=True,
    catalogue=INTERNAL,
)  # fmt: skip
async def assign_first_groups_of_worker(ctx: Context, params: FirstGroups) -> Plain:
    """Assign them (agent-link.md 7.6); groups joined by commas, by agent. Agents that do not exist are left out."""
    wanted = dict(zip(params.agents, params.sums, strict=False))
    guess = bool(ctx.node.options.get("remoted.guess_agent_group"))
    found = await asyncio.to_thread(assign_first_groups, ctx.node.agents, ctx.node.paths, wanted, guess=guess)
    return Plain(data={str(agent): joined for agent, joined in found.items()})
