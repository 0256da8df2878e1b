"""Decides what an import writes: a pure function of the source and of the store's contents (rbac.md 17).

- Users 1 and 2 give their password hash and nothing else; ids 3 to 88 are regenerated from the defaults.
- Everything else keeps id, name, content and date. An id that the store holds or has ever given is replaced by a new
  one, a name that is taken gets ``_user`` appended, and a policy or rule whose body the store has is merged with it.
- Rows of an earlier import (same name and date) and their links are not changed.
- An end of a link up to 88 means the default of that name.
"""

from collections.abc import Mapping, Sequence

import msgspec
from sqlalchemy import Table

from secmon.importers.rbac.source import Entity, Link, Source, readable_hash
from secmon.importers.report import Kind, ReportLine, Result
from secmon.security.store import schema
from secmon.security.store.replication import Row

DEFAULT_USERS = (1, 2)
LAST_DEFAULT = 88
"""Ids up to this one come from the defaults; 89 to 99 belong to operators and are copied (rbac.md 2)."""

_MAX_NAME = 64
_SUFFIX = "_user"

_CONTENT = {"users": "password", "policies": "policy", "rules": "rule"}
_NAME = {"users": "username"}


class Target(msgspec.Struct, frozen=True):
    """What the store holds: rows by table name, and the next id of each table of entities."""

    rows: Mapping[str, Sequence[Row]]
    next_ids: Mapping[str, int]


class Plan(msgspec.Struct, frozen=True):
    """Rows to put, in an order that keeps links whole, and whose tokens end by it."""

    rows: tuple[tuple[Table, Row], ...]
    lines: tuple[ReportLine, ...]
    users: tuple[int, ...] = ()
    roles: tuple[int, ...] = ()
    run_as: bool = False


def decide(source: Source, target: Target) -> Plan:
    """What to write. Nothing at all when the source has unusable rows."""
    planner = _Planner(target, list(source.faults))
    ids = {
        "users": planner.entities(schema.users, "user", source.users),
        "roles": planner.entities(schema.roles, "role", source.roles),
        "policies": planner.entities(schema.policies, "policy", source.policies),
        "rules": planner.entities(schema.rules, "rule", source.rules),
    }
    planner.links(schema.user_roles, "user-role", source.user_roles, (ids["users"], ids["roles"]))
    planner.links(schema.role_policies, "role-policy", source.role_policies, (ids["roles"], ids["policies"]))
    planner.links(schema.role_rules, "role-rule", source.role_rules, (ids["roles"], ids["rules"]))
    return planner.plan()


class _Destination(msgspec.Struct, frozen=True):
    """Where an entity of the source is in the store. ``settled``: from an earlier import; its links are kept."""

    id: int
    name: str
    settled: bool = False


class _Planner:
    def __init__(self, target: Target, lines: list[ReportLine]) -> None:
        self._target = target
        self._lines = lines
        self._rows: list[tuple[Table, Row]] = []
        self._users: list[int] = []
        self._roles: set[int] = set()
        self._run_as = False

    def plan(self) -> Plan:
        if any(line.result == "refused" for line in self._lines):
            return Plan((), tuple(self._lines))
        roles = tuple(sorted(self._roles))
        return Plan(tuple(self._rows), tuple(self._lines), tuple(self._users), roles, self._run_as)

    # Entities

    def entities(self, table: Table, kind: Kind, source: Sequence[Entity]) -> dict[int, _Destination]:
        """Plan the rows of one table; where each entity ends up, by its id in the source."""
        table_plan = _TablePlan(table, self._target, source)
        for one in source:
            if one.id in table_plan.places:
                self._report("refused", kind, one, "the id occurs twice in the source")
            elif one.id <= LAST_DEFAULT:
                self._default(table_plan, kind, one)
            else:
                self._custom(table_plan, kind, one)
        self._rows.extend(table_plan.new_rows())
        return table_plan.places

    def _default(self, table_plan: "_TablePlan", kind: Kind, one: Entity) -> None:
        """Ids 1 to 88: found again by name, users 1 and 2 by their ids."""
        if kind == "user" and one.id in DEFAULT_USERS:
            self._default_user(table_plan, one)
            return
        place = table_plan.default_named(one.name)
        if place is None:
            self._report("dropped", kind, one, "no default has this name")
        else:
            table_plan.places[one.id] = place

    def _default_user(self, table_plan: "_TablePlan", one: Entity) -> None:
        row = table_plan.by_id[one.id]
        name = str(row["username"])
        table_plan.places[one.id] = _Destination(one.id, name)
        if row["password"] == one.content:
            self._report("present", "user", one, f"{name} has this password")
        elif not readable_hash(one.content):
            self._report("warning", "user", one, f"unknown hash, {name} keeps its password")
        else:
            self._rows.append((schema.users, {**row, "password": one.content}))
            self._users.append(one.id)
            self._report("password", "user", one, f"is the password of {name} now")

    def _custom(self, table_plan: "_TablePlan", kind: Kind, one: Entity) -> None:
        known = table_plan.known(one)
        if known is not None:
            table_plan.places[one.id] = _Destination(known, one.name, settled=True)
            self._report("present", kind, one, f"as {known}; it and its links stay")
            return
        equal = table_plan.equal_body(one)
        if equal is not None:
            table_plan.places[one.id] = equal
            self._report("merged", kind, one, f"with {equal.id} {equal.name}: same body")
            return
        place = table_plan.add(one)
        changes = [f"id {place.id}"] if place.id != one.id else []
        changes += [f"name {place.name}, the other is taken"] if place.name != one.name else []
        result: Result = "renamed" if place.name != one.name else "renumbered" if changes else "imported"
        self._report(result, kind, one, ", ".join(changes))
        if kind == "user" and not readable_hash(one.content):
            self._report("warning", kind, one, "unknown hash: give the user a new password")

    def _report(self, result: Result, kind: Kind, one: Entity, text: str) -> None:
        self._lines.append(ReportLine(result, kind, one.name, text, id=one.id))

    # Links

    def links(
        self,
        table: Table,
        kind: Kind,
        source: Sequence[Link],
        places: tuple[dict[int, _Destination], dict[int, _Destination]],
    ) -> None:
        """Plan the links of one table: behind what the owner has, in the order of the source."""
        owner_column, member_column = (str(column.name) for column in table.primary_key.columns)
        present: dict[int, list[int]] = {}
        for row in sorted(self._target.rows[str(table.name)], key=lambda row: int(row.get("position", 0))):
            present.setdefault(row[owner_column], []).append(row[member_column])
        for link in source:
            if link.owner <= LAST_DEFAULT and link.member <= LAST_DEFAULT:
                continue  # the defaults have their own
            owner, member = places[0].get(link.owner), places[1].get(link.member)
            if not self._wanted(kind, link, owner, member):
                continue
            assert owner is not None
            assert member is not None
            members = present.setdefault(owner.id, [])
            if member.id in members:
                continue
            row = {owner_column: owner.id, member_column: member.id}
            self._rows.append((table, row | {"position": len(members)} if "position" in table.c else row))
            members.append(member.id)
            self._lines.append(ReportLine("imported", kind, f"{owner.name} - {member.name}", id=owner.id))
            self._note(kind, owner.id)

    def _wanted(self, kind: Kind, link: Link, owner: _Destination | None, member: _Destination | None) -> bool:
        reason = None
        if owner is None or member is None:
            reason = "an end does not exist, or was not imported"
        elif kind == "user-role" and owner.id in DEFAULT_USERS:
            reason = "the roles of default users come from the defaults"
        elif owner.settled:
            return False
        if reason:
            self._lines.append(ReportLine("dropped", kind, f"{link.owner} - {link.member}", reason, id=link.owner))
        return reason is None

    def _note(self, kind: Kind, owner: int) -> None:
        """Tokens that a new link ends: issued before it, they must not get its permissions."""
        if kind == "role-policy" and owner <= LAST_DEFAULT:
            self._roles.add(owner)
        elif kind == "role-rule":
            self._run_as = True


class _TablePlan:
    """One table of entities while it is filled: which ids, names and bodies are in use."""

    def __init__(self, table: Table, target: Target, source: Sequence[Entity]) -> None:
        self.table = table
        self.by_id: dict[int, Row] = {int(row["id"]): row for row in target.rows[str(table.name)]}
        self.places: dict[int, _Destination] = {}
        self._name = _NAME.get(str(table.name), "name")
        self._content = _CONTENT.get(str(table.name))
        self._before = {str(row[self._name]): row for row in self.by_id.values()}
        self._taken = set(self._before)
        self._ids = set(self.by_id)
        self._bodies: dict[str, _Destination] = {}
        if self._content in ("policy", "rule"):
            self._bodies = {str(row[self._content]): self._place(row) for row in self.by_id.values()}
        self._next = target.next_ids[str(table.name)]
        # New ids are above all ids of the source.
        self._fresh = max([self._next, *(one.id + 1 for one in source)])
        self._new: list[Row] = []

    def _place(self, row: Row) -> _Destination:
        return _Destination(int(row["id"]), str(row[self._name]))

    def default_named(self, name: str) -> _Destination | None:
        """The default object called ``name``."""
        row = self._before.get(name)
        return self._place(row) if row is not None and row["id"] <= LAST_DEFAULT else None

    def known(self, one: Entity) -> int | None:
        """Id of the row that an earlier import made of ``one``; dates distinguish it from another of the name."""
        name, attempt = one.name, 1
        while one.created_at and (row := self._before.get(name)) is not None:
            if row["created_at"] == one.created_at and row["id"] > LAST_DEFAULT:
                return int(row["id"])
            name, attempt = _renamed(one.name, attempt), attempt + 1
        return None

    def equal_body(self, one: Entity) -> _Destination | None:
        """The policy or rule with the same body."""
        return self._bodies.get(one.content)

    def add(self, one: Entity) -> _Destination:
        """Add ``one`` under a free id and a free name."""
        number = one.id
        if number in self._ids or schema.FIRST_CUSTOM_ID <= number < self._next:
            number, self._fresh = self._fresh, self._fresh + 1
        name, attempt = one.name, 1
        while name in self._taken:
            name, attempt = _renamed(one.name, attempt), attempt + 1
        row: Row = {"id": number, self._name: name, "created_at": one.created_at}
        if self._content is not None:
            row[self._content] = one.content
        if "allow_run_as" in self.table.c:
            row["allow_run_as"] = one.allow_run_as
        self._new.append(row)
        self._ids.add(number)
        self._taken.add(name)
        place = self.places[one.id] = self._place(row)
        if self._content in ("policy", "rule"):
            self._bodies[one.content] = place
        return place

    def new_rows(self) -> list[tuple[Table, Row]]:
        """The added rows; later ids start above theirs."""
        if not self._new:
            return []
        after = max(self._next, max(int(row["id"]) for row in self._new) + 1, schema.FIRST_CUSTOM_ID)
        sequence: Row = {"name": str(self.table.name), "next_id": after}
        return [*((self.table, row) for row in self._new), (schema.sequences, sequence)]


def _renamed(name: str, attempt: int = 1) -> str:
    suffix = _SUFFIX if attempt == 1 else f"{_SUFFIX}{attempt}"
    return name[: _MAX_NAME - len(suffix)] + suffix
