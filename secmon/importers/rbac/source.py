"""Reads the access-control database of a public 4.x manager: a SQLite file that may hold anything (rbac.md 1, 17)."""

import re
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from secmon.common.errors import SecmonError
from secmon.common.json_limits import MAX_DEPTH, json_problem
from secmon.common.sqlite.foreign import ForeignError, Row, open_foreign, read_table
from secmon.importers.report import Kind, ReportLine, printable
from secmon.security.rbac.model import PolicyBody

KNOWN_VERSIONS = (0, 1)
"""``PRAGMA user_version`` of 4.x: 0 in its first releases, 1 later."""

MAX_BODY = 1 << 18
"""Characters of a policy or rule."""

MAX_ID = 2**31 - 1

_NAME = re.compile(r"[A-Za-z0-9_\-.%]{1,64}")
_HASH = re.compile(r"[\x21-\x7e]{1,512}")
_PBKDF2 = re.compile(r"pbkdf2:sha256:(?P<rounds>[1-9][0-9]{0,7})\$[A-Za-z0-9]+\$[0-9a-f]{64}")
_MAX_ROUNDS = 10_000_000
"""About ten seconds of a login; 4.x uses 260000."""

# What each table is called: in the files, and as the reference calls it.
_TABLES: Mapping[str, tuple[str, ...]] = {
    "users": ("users", "user"),
    "roles": ("roles", "role"),
    "policies": ("policies", "policy"),
    "rules": ("rules", "rule"),
    "user_roles": ("user_roles", "user_role"),
    "role_policies": ("roles_policies", "role_policies", "role_policy"),
    "role_rules": ("roles_rules", "role_rules", "role_rule"),
}


class Entity(msgspec.Struct, frozen=True):
    """A user, role, policy or rule. ``created_at``: seconds since the epoch, 0 when unknown.

    ``content`` is the password hash of a user, the canonical JSON text of a policy or rule, empty for a role.
    """

    id: int
    name: str
    created_at: int
    content: str = ""
    allow_run_as: bool = False


class Link(msgspec.Struct, frozen=True):
    """``owner`` holds ``member`` at ``level``: a user its roles, a role its policies and rules."""

    owner: int
    member: int
    level: int = 0


class Source(msgspec.Struct, frozen=True):
    """Everything usable in the file, in ascending order; ``faults`` lists the rest."""

    users: tuple[Entity, ...]
    roles: tuple[Entity, ...]
    policies: tuple[Entity, ...]
    rules: tuple[Entity, ...]
    user_roles: tuple[Link, ...]
    role_policies: tuple[Link, ...]
    role_rules: tuple[Link, ...]
    faults: tuple[ReportLine, ...] = ()


T = TypeVar("T")


def read_source(path: Path) -> Source:
    """Read the file at one moment, without writing to it.

    Raises 2012 for a damaged database, or one of an unknown version. Unusable rows are listed in ``faults``.
    """
    try:
        tables = _read_tables(path)
    except ForeignError as error:
        raise _refusal(path, f"no access-control database of a 4.x manager: {error}") from None
    except (sqlite3.Error, OSError, OverflowError, UnicodeError) as error:  # any text may be damaged
        raise _refusal(path, printable(str(error))) from error
    faults: list[ReportLine] = []

    def usable(name: str, kind: Kind, read: Callable[[Row], T]) -> list[T]:
        return list(_usable(tables[name], kind, read, faults))

    return Source(
        users=_ascending(usable("users", "user", _user)),
        roles=_ascending(usable("roles", "role", lambda row: _entity(row, "name"))),
        policies=_ascending(usable("policies", "policy", _policy)),
        rules=_ascending(usable("rules", "rule", _rule)),
        user_roles=_in_order(usable("user_roles", "user-role", lambda row: _link(row, "user_id", "role_id"))),
        role_policies=_in_order(usable("role_policies", "role-policy", lambda row: _link(row, "role_id", "policy_id"))),
        role_rules=_in_order(usable("role_rules", "role-rule", lambda row: _link(row, "role_id", "rule_id"))),
        faults=tuple(faults),
    )


def _refusal(path: Path, reason: str) -> SecmonError:
    return SecmonError(2012, f"{path}: {reason}")


def _read_tables(path: Path) -> dict[str, list[Row]]:
    with open_foreign(path) as connection:
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version not in KNOWN_VERSIONS:
            raise _refusal(path, f"version {version}; known are {' and '.join(map(str, KNOWN_VERSIONS))}")
        verdict = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if verdict != "ok":
            raise _refusal(path, f"damaged: {printable(verdict)}")
        return {name: read_table(connection, names) for name, names in _TABLES.items()}


class _Unusable(ValueError):
    """Why a row cannot be imported."""


def _usable(rows: Iterable[Row], kind: Kind, read: Callable[[Row], T], faults: list[ReportLine]) -> Iterable[T]:
    for row in rows:
        try:
            yield read(row)
        except _Unusable as error:
            number = row.get("id")
            name = printable(row.get("username", row.get("name", "")))
            faults.append(ReportLine("refused", kind, name, str(error), id=number if type(number) is int else None))


def _user(row: Row) -> Entity:
    user = _entity(row, "username")
    password, flag = row.get("password"), row.get("allow_run_as")
    # Argon2 hashes set the memory and time of their check. 4.x writes none: such a hash is an attack.
    if not isinstance(password, str) or not _HASH.fullmatch(password) or password.startswith("$argon2"):
        raise _Unusable("the password hash is none that 4.x writes")
    parts = _PBKDF2.fullmatch(password)
    if parts is not None and int(parts["rounds"]) > _MAX_ROUNDS:
        raise _Unusable(f"the password hash asks for more than {_MAX_ROUNDS} rounds")
    if flag not in (None, 0, 1):
        raise _Unusable("allow_run_as is no boolean")
    return msgspec.structs.replace(user, content=password, allow_run_as=bool(flag))


def readable_hash(text: str) -> bool:
    """Whether a password can match: it is a hash as 4.x writes them (rbac.md 15)."""
    return _PBKDF2.fullmatch(text) is not None


def _policy(row: Row) -> Entity:
    body = _json(row.get("policy"), PolicyBody)
    return msgspec.structs.replace(_entity(row, "name"), content=msgspec.json.encode(body).decode())


def _rule(row: Row) -> Entity:
    body = _json(row.get("rule"), dict[str, Any])
    return msgspec.structs.replace(_entity(row, "name"), content=msgspec.json.encode(body).decode())


def _json(text: object, kind: type[T]) -> T:
    if not isinstance(text, str) or len(text) > MAX_BODY:
        raise _Unusable(f"the body is not text of at most {MAX_BODY} characters")
    try:
        fault = json_problem(msgspec.json.decode(text))
        if fault is None:
            return msgspec.json.decode(text, type=kind)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise _Unusable(f"the body is not usable: {printable(str(error))}") from error
    except RecursionError:
        fault = f"is nested deeper than {MAX_DEPTH}"
    raise _Unusable(f"the body {fault}")


def _entity(row: Row, name_column: str) -> Entity:
    name = row.get(name_column)
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise _Unusable("the name is not 1 to 64 letters, digits and _-.%")
    return Entity(_id(row, "id"), name, _seconds(row.get("created_at")))


def _link(row: Row, owner: str, member: str) -> Link:
    level = row.get("level", 0)
    return Link(_id(row, owner), _id(row, member), level if type(level) is int else MAX_ID)


def _id(row: Row, column: str) -> int:
    value = row.get(column)
    if type(value) is not int or not 0 < value <= MAX_ID:
        raise _Unusable(f"{column} is no number from 1 to {MAX_ID}")
    return value


def _seconds(value: object) -> int:
    try:
        return max(0, int(datetime.fromisoformat(str(value)).replace(tzinfo=UTC).timestamp()))
    except (ValueError, OverflowError):
        return 0


def _ascending(entities: Iterable[Entity]) -> tuple[Entity, ...]:
    return tuple(sorted(entities, key=lambda one: one.id))


def _in_order(links: Iterable[Link]) -> tuple[Link, ...]:
    """By owner, then in the order of the owner."""
    return tuple(sorted(links, key=lambda one: (one.owner, one.level, one.member)))
