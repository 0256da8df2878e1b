"""An immutable view of the security state at one revision, as requests read it.

:class:`SharedState` is held whole in memory and reused while only single users change; users, of whom there may be very
many, are read by name when needed.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping

import msgspec
from sqlalchemy import Connection, Engine, and_, cast, select
from sqlalchemy.types import Text

from secmon.common.sqlite.engine import read_transaction
from secmon.security.rbac.evaluate import PermissionMap, flatten
from secmon.security.rbac.model import Policy, PolicyBody, Role, Rule, Settings, User
from secmon.security.signing_keys import SigningKey
from secmon.security.store import schema
from secmon.security.store.position import Position, read_position

MAX_CACHED_USERS = 10_000
MAX_CACHED_PERMISSIONS = 1_000


class SharedState:
    """Settings, roles, policies, rules, signing keys and the revocations that are not about one user."""

    def __init__(self, connection: Connection, position: Position) -> None:
        self.stamp = (position.store_id, position.generation, position.shared_revision)
        self.settings = load_settings(connection)
        self.policies = _policies(connection)
        self.rules = _rules(connection)
        self.roles = _roles(connection)
        self.keys = _keys(connection)
        self.revoked_all, self.revoked_run_as, self.revoked_roles = _revocations(connection)
        self.permissions: dict[tuple[int, ...], PermissionMap] = {}


def load_shared_state(connection: Connection, known: SharedState | None) -> SharedState:
    """The shared state at this transaction; ``known`` itself when it is current."""
    position = read_position(connection)
    stamp = (position.store_id, position.generation, position.shared_revision)
    return known if known is not None and known.stamp == stamp else SharedState(connection, position)


class SecurityView:
    """The security state at ``revision``. Safe to use from several threads.

    ``authoritative`` is True on the master: nothing newer can exist. Users are loaded on demand and may be newer than
    ``revision`` when a change is committed meanwhile, never older.
    """

    def __init__(self, engine: Engine, position: Position, shared: SharedState, *, authoritative: bool) -> None:
        self.store_id = position.store_id
        self.revision = position.revision
        self.authoritative = authoritative
        self._engine = engine
        self._shared = shared
        self._users: dict[str, User] = {}

    @property
    def settings(self) -> Settings:
        return self._shared.settings

    @property
    def roles(self) -> Mapping[int, Role]:
        """By id, ascending."""
        return self._shared.roles

    @property
    def policies(self) -> Mapping[int, Policy]:
        """By id, ascending."""
        return self._shared.policies

    @property
    def rules(self) -> Mapping[int, Rule]:
        """By id, ascending."""
        return self._shared.rules

    @property
    def keys(self) -> Mapping[str, SigningKey]:
        """Every key that may have signed a live token, by kid."""
        return self._shared.keys

    @property
    def signing_key(self) -> SigningKey | None:
        """The key that this node signs with; None until it has one that every node knows."""
        own = [key for key in self.keys.values() if key.private_pem is not None and key.retired_at is None]
        return own[-1] if own else None

    @property
    def revoked_all(self) -> int:
        """All tokens issued before this revision are revoked; 0 for none."""
        return self._shared.revoked_all

    @property
    def revoked_run_as(self) -> int:
        """The same for tokens of run_as logins."""
        return self._shared.revoked_run_as

    def revoked_role(self, role: int) -> int:
        """The same for tokens that carry ``role``."""
        return self._shared.revoked_roles.get(role, 0)

    def user(self, name: str) -> User | None:
        """The user called exactly ``name``; one query the first time."""
        user = self._users.get(name)
        if user is None:
            with read_transaction(self._engine) as connection:
                user = _user(connection, name)
            # Only users that exist are remembered: names come from clients.
            if user is not None and len(self._users) < MAX_CACHED_USERS:
                self._users[name] = user
        return user

    def role_policies(self, roles: tuple[int, ...]) -> Iterator[Policy]:
        """Policies of ``roles`` in effective order; roles that no longer exist are passed over."""
        for role in roles:
            found = self.roles.get(role)
            yield from (self.policies[policy] for policy in (found.policies if found else ()))

    def permissions(self, roles: tuple[int, ...]) -> PermissionMap:
        """The flattened permissions of these roles, in order."""
        known = self._shared.permissions
        found = known.get(roles)
        if found is None:
            found = flatten(self.role_policies(roles))
            if len(known) < MAX_CACHED_PERMISSIONS:
                known[roles] = found
        return found


def load_settings(connection: Connection) -> Settings:
    """The stored security configuration; defaults for what is missing."""
    rows = connection.execute(select(schema.settings.c.name, schema.settings.c.value))
    return msgspec.convert({name: msgspec.json.decode(value) for name, value in rows}, Settings)


def _policies(connection: Connection) -> dict[int, Policy]:
    policies = {}
    for row in connection.execute(select(schema.policies).order_by(schema.policies.c.id)):
        body = msgspec.json.decode(row.policy, type=PolicyBody)
        policies[row.id] = Policy(row.id, row.name, body.actions, body.resources, body.effect)
    return policies


def _rules(connection: Connection) -> dict[int, Rule]:
    found = connection.execute(select(schema.rules).order_by(schema.rules.c.id))
    return {row.id: Rule(row.id, row.name, msgspec.json.decode(row.rule, type=dict)) for row in found}


def _roles(connection: Connection) -> dict[int, Role]:
    policy_links, rule_links = schema.role_policies, schema.role_rules
    policies: defaultdict[int, list[int]] = defaultdict(list)
    ordered = policy_links.c.role_id, policy_links.c.position, policy_links.c.policy_id
    for row in connection.execute(select(policy_links).order_by(*ordered)):
        policies[row.role_id].append(row.policy_id)
    rules: defaultdict[int, list[int]] = defaultdict(list)
    for row in connection.execute(select(rule_links).order_by(rule_links.c.role_id, rule_links.c.rule_id)):
        rules[row.role_id].append(row.rule_id)
    found = connection.execute(select(schema.roles).order_by(schema.roles.c.id))
    return {row.id: Role(row.id, row.name, tuple(policies[row.id]), tuple(rules[row.id])) for row in found}


def _keys(connection: Connection) -> dict[str, SigningKey]:
    keys, own = schema.signing_keys, schema.private_keys
    found = connection.execute(
        select(keys, own.c.pem.label("private_pem"))
        .select_from(keys.outerjoin(own, own.c.kid == keys.c.kid))
        .order_by(keys.c.created)
    )
    return {row.kid: SigningKey(**row._mapping) for row in found}


def _revocations(connection: Connection) -> tuple[int, int, dict[int, int]]:
    table = schema.revocations
    everyone = run_as = 0
    roles: dict[int, int] = {}
    for row in connection.execute(select(table).where(table.c.scope != "user")):
        if row.scope == "all":
            everyone = row.revision
        elif row.scope == "run_as":
            run_as = row.revision
        else:
            roles[int(row.subject)] = row.revision
    return everyone, run_as, roles


def _user(connection: Connection, name: str) -> User | None:
    users, links, revocations = schema.users, schema.user_roles, schema.revocations
    own = and_(revocations.c.scope == "user", revocations.c.subject == cast(users.c.id, Text))
    found = connection.execute(
        select(users, revocations.c.revision.label("revoked"))
        .select_from(users.outerjoin(revocations, own))
        .where(users.c.username == name)
    ).one_or_none()
    if found is None:
        return None
    roles = connection.execute(
        select(links.c.role_id).where(links.c.user_id == found.id).order_by(links.c.position, links.c.role_id)
    ).scalars()
    return User(found.id, found.username, found.password, found.allow_run_as, tuple(roles), found.revoked or 0)
