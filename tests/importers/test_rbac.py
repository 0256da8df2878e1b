"""Taking over the access-control database of a 4.x manager (rbac.md 17)."""

import contextlib
import json
import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from secmon.common.errors import SecmonError
from secmon.common.sqlite import foreign
from secmon.importers.rbac import Report, import_rbac, read_source
from secmon.security.authentication_error import AuthenticationError
from secmon.security.credentials import authenticate
from secmon.security.rbac.context_rules import roles_for
from secmon.security.store import schema
from secmon.security.store.security_store import SecurityStore
from secmon.security.tokens import Tokens
from tests.importers.old_store import CREATED_SECONDS, HASH, OldStore, policy_body, rule_body
from tests.manual_clock import ManualClock
from tests.security.conftest import PASSWORD, find
from tests.security.store.rows import link_policy, put_policy, put_role, put_user

OTHER = HASH.replace("c891", "0000")


@pytest.fixture
def old(tmp_path: Path) -> OldStore:
    return OldStore(tmp_path / "rbac.db")


@pytest.fixture
def store(plain: SecurityStore) -> SecurityStore:
    """Nothing but defaults."""
    return plain


@pytest.fixture
def plain(filled: Path, tmp_path: Path) -> Any:
    """The defaults alone: what the shared fixture adds is taken away, and no id of it counts as given."""
    path = tmp_path / "plain.db"
    path.write_bytes(filled.read_bytes())
    opened = SecurityStore(path)
    with opened.write() as tx:
        tx.delete(schema.users, 100)
        for number in (100, 101):
            tx.delete(schema.roles, number)
        for table in ("users", "roles"):
            tx.put(schema.sequences, {"name": table, "next_id": 100})
    yield opened
    opened.close()


def take_over(store: SecurityStore, old: OldStore, **options: Any) -> Report:
    return import_rbac(store, read_source(old.path), ManualClock(), **options)


def lines(report: Report, *results: str) -> list[str]:
    """Lines of these results; blanks between words are single."""
    return [" ".join(str(line).split()) for line in report.lines if line.result in results]


def content(store: SecurityStore) -> tuple[int, Any]:
    return store.revision(), store.snapshot().tables


def test_a_manager_in_use(store: SecurityStore, old: OldStore) -> None:
    old.user(100, "mira", flag=True)
    old.user(101, "leo", OTHER)
    old.role(100, "ops")
    old.role(105, "audit")
    for number in (100, 101, 102):
        old.policy(number, f"own{number}", policy_body(number))
    old.rule(100, "team", rule_body(1))
    old.link("user_roles", 100, 105, 7)
    old.link("user_roles", 100, 100, 3)
    old.link("user_roles", 100, 4, 5)  # a default role
    old.link("user_roles", 101, 105)
    for level, number in ((9, 102), (2, 100), (4, 101)):
        old.link("roles_policies", 100, number, level)
    old.link("roles_policies", 105, 4)  # a default policy
    old.link("roles_rules", 105, 100)
    old.link("roles_rules", 2, 100)  # a custom rule on a default role

    report = take_over(store, old)

    assert report.written
    assert not report.refused
    assert report.counts() == {"imported": 18, "password": 2}
    view = store.view()
    mira, leo = find(view, "mira"), find(view, "leo")
    assert (mira.id, mira.password, mira.allow_run_as, mira.roles) == (100, HASH, True, (100, 4, 105))
    assert (leo.id, leo.password, leo.allow_run_as, leo.roles) == (101, OTHER, False, (105,))
    assert view.roles[100].policies == (100, 101, 102)
    assert (view.roles[105].policies, view.roles[105].rules, view.roles[2].rules) == ((4,), (100,), (100,))
    assert view.policies[100].resources == ("agent:id:100",)
    assert roles_for(view.rules, view.roles, {"team": ["team1"]}, mira).roles == (2, 105)
    assert authenticate(view, "mira", "Quarry-7!lamp").id == 100


def test_ids_are_never_reused_by_the_store(store: SecurityStore, old: OldStore) -> None:
    old.user(250, "mira")
    old.policy(300, "own", policy_body(1))
    take_over(store, old)
    with store.write() as tx:
        assert [tx.next_id(table) for table in (schema.users, schema.policies, schema.roles)] == [251, 301, 100]
        assert tx.get(schema.users, 250) == {
            "id": 250, "username": "mira", "password": HASH, "allow_run_as": False, "created_at": CREATED_SECONDS,
        }  # fmt: skip


def test_default_users_give_their_passwords_only(store: SecurityStore, old: OldStore) -> None:
    old.run("UPDATE users SET password = ?, allow_run_as = 0 WHERE id = 2", (OTHER,))
    old.role(100, "ops")
    old.link("user_roles", 1, 100)
    tokens = Tokens(ManualClock())
    token = tokens.issue(store.view(), find(store.view(), "admin"))
    report = take_over(store, old)
    admin, dashboard = find(store.view(), "admin"), find(store.view(), "dashboard")
    assert (admin.password, admin.allow_run_as, admin.roles) == (HASH, True, (1,))
    assert (dashboard.password, dashboard.allow_run_as, dashboard.roles) == (OTHER, True, (1,))
    assert lines(report, "password")[0] == "password user 1 superuser: is the password of admin now"
    assert lines(report, "dropped") == [
        "dropped user-role 1 1 - 100: the roles of default users come from the defaults"
    ]
    with pytest.raises(AuthenticationError):
        tokens.verify(store.view(), token)


def test_a_default_user_is_not_locked_out(store: SecurityStore, old: OldStore) -> None:
    old.run("UPDATE users SET password = 'scrypt:32768:8:1$x$y' WHERE id = 1")
    old.user(100, "mira", "scrypt:32768:8:1$x$y")
    report = take_over(store, old)
    assert authenticate(store.view(), "admin", PASSWORD)
    assert lines(report, "warning") == [
        "warning user 1 superuser: unknown hash, admin keeps its password",
        "warning user 100 mira: unknown hash: give the user a new password",
    ]


def test_ids_of_operators_are_kept_and_those_of_defaults_are_not(store: SecurityStore, old: OldStore) -> None:
    for number in (3, 88, 89, 99):
        old.user(number, f"user{number}")
        old.role(number + 900 if number == 3 else number, f"role{number}")
        old.rule(number, f"rule{number}", rule_body(number))
    old.link("user_roles", 89, 88)
    old.link("user_roles", 99, 99)
    old.link("user_roles", 88, 89)
    report = take_over(store, old)
    view = store.view()
    assert sorted(view.roles) == [1, 2, 3, 4, 5, 6, 7, 89, 99, 903]
    assert sorted(view.rules) == [1, 2, 89, 99]
    assert find(view, "user99").roles == (99,)
    assert view.user("user88") is None
    assert lines(report, "dropped")[:2] == [
        "dropped user 3 user3: no default has this name",
        "dropped user 88 user88: no default has this name",
    ]
    assert "dropped user-role 89 89 - 88: an end does not exist, or was not imported" in lines(report, "dropped")


def test_links_find_defaults_by_name(store: SecurityStore, old: OldStore) -> None:
    """Whatever ids an older version gave them."""
    old.run("UPDATE roles SET id = 50 WHERE name = 'readonly'")
    old.run("UPDATE policies SET id = 60 WHERE name = 'sca_read_sca'")
    old.user(100, "mira")
    old.role(100, "ops")
    old.link("user_roles", 100, 50)
    old.link("roles_policies", 100, 60)
    old.link("roles_policies", 50, 100)
    old.policy(100, "own", policy_body(1))
    take_over(store, old)
    view = store.view()
    assert find(view, "mira").roles == (2,)
    assert view.roles[100].policies == (25,)
    assert view.roles[2].policies[-1] == 100


def test_taken_names_and_equal_bodies(store: SecurityStore, old: OldStore) -> None:
    old.user(100, "dashboard")
    old.user(101, "dashboard_user")
    old.role(100, "ops")
    old.run("UPDATE roles SET name = 'former' WHERE name = 'cluster_admin'")
    old.role(101, "cluster_admin")
    old.run("DELETE FROM policies WHERE id = 4")
    body = {"effect": "allow", "resources": ["agent:id:*", "agent:group:*"], "actions": ["agent:read"]}
    old.policy(100, "read", body)  # the default's, members in another order
    old.link("roles_policies", 100, 100)
    report = take_over(store, old)
    view = store.view()
    assert lines(report, "renamed") == [
        "renamed user 100 dashboard: name dashboard_user, the other is taken",
        "renamed user 101 dashboard_user: name dashboard_user_user, the other is taken",
        "renamed role 101 cluster_admin: name cluster_admin_user, the other is taken",
    ]
    assert lines(report, "merged") == ["merged policy 100 read: with 4 agents_read_agents: same body"]
    assert view.roles[100].policies == (4,)
    assert 100 not in view.policies


def test_a_store_in_use_is_merged(store: SecurityStore, old: OldStore) -> None:
    with store.write() as tx:
        for table in (schema.users, schema.roles, schema.policies):
            assert [tx.next_id(table) for _ in range(3)] == [100, 101, 102]
        put_user(tx, 101, "mira")  # 100 was given and deleted
        put_role(tx, 101, "ops")
        put_policy(tx, 102)
        link_policy(tx, 101, 102)
    old.user(100, "zoe")
    old.user(101, "mira")
    old.user(110, "leo")
    old.role(101, "ops")
    old.link("user_roles", 101, 101)
    report = take_over(store, old)
    view = store.view()
    assert {name: find(view, name).id for name in ("mira", "zoe", "mira_user", "leo")} == {
        "mira": 101, "zoe": 111, "mira_user": 112, "leo": 110,
    }  # fmt: skip
    assert find(view, "mira").roles == ()
    assert find(view, "mira_user").roles == (103,)
    assert view.roles[101].policies == (102,)
    assert view.roles[103].name == "ops_user"
    assert lines(report, "renumbered", "renamed")[0] == "renumbered user 100 zoe: id 111"


def test_a_repeated_import_changes_nothing(store: SecurityStore, old: OldStore) -> None:
    old.user(100, "mira")
    old.user(101, "dashboard")
    old.role(100, "ops")
    old.policy(100, "own", policy_body(1))
    old.rule(100, "team", rule_body(1))
    old.link("user_roles", 100, 100)
    old.link("roles_policies", 100, 100)
    old.link("roles_rules", 1, 100)
    take_over(store, old)
    with store.write() as tx:  # what is decided since stays decided
        tx.delete(schema.user_roles, 100, 100)
        row = tx.get(schema.users, 100)
        assert row is not None
        tx.put(schema.users, row | {"password": OTHER})
    before = content(store)
    report = take_over(store, old)
    assert not report.written
    assert content(store) == before
    assert report.counts() == {"present": 7}


def test_a_dry_run_writes_nothing_and_reports_the_same(store: SecurityStore, old: OldStore) -> None:
    old.user(100, "mira")
    before = content(store)
    reported = take_over(store, old, dry_run=True)
    assert content(store) == before
    assert not reported.written
    assert take_over(store, old).lines == reported.lines


def test_progress_is_reported_for_each_row(store: SecurityStore, old: OldStore) -> None:
    for number in range(100, 120):
        old.user(number, f"user{number}")
    seen: list[tuple[int, int]] = []
    take_over(store, old, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(n, 23) for n in range(1, 24)]  # 20 users, 2 passwords, the next id


def test_a_fault_in_the_middle_leaves_no_change(store: SecurityStore, old: OldStore) -> None:
    old.user(100, "mira")
    before = content(store)

    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        take_over(store, old, progress=stop)
    assert content(store) == before


def test_tokens_of_changed_roles_and_rules_end(store: SecurityStore, old: OldStore) -> None:
    old.policy(100, "own", policy_body(1))
    old.rule(100, "team", rule_body(1))
    old.link("roles_policies", 2, 100)
    old.link("roles_rules", 2, 100)
    take_over(store, old)
    view = store.view()
    assert view.revoked_role(2) == view.revoked_run_as == view.revision
    assert view.revoked_role(1) == view.revoked_all == 0


def test_replicas_follow(store: SecurityStore, old: OldStore, tmp_path: Path) -> None:
    replica = SecurityStore(tmp_path / "replica.db", writable=False)
    try:
        replica.apply_snapshot(store.snapshot())
        base = store.revision()
        old.user(100, "mira")
        old.role(100, "ops")
        old.link("user_roles", 100, 100)
        take_over(store, old)
        changes = store.changes_since(base)
        assert changes is not None
        replica.apply_changes(store.store_id(), base, changes, store.revision())
        assert replica.digest() == store.digest()
    finally:
        replica.close()


def test_a_store_without_defaults_is_refused(old: OldStore, tmp_path: Path) -> None:
    empty = SecurityStore(tmp_path / "empty.db")
    try:
        with pytest.raises(SecmonError, match="no default contents"):
            take_over(empty, old)
        assert empty.revision() == 0
    finally:
        empty.close()


# Hostile and damaged files


@pytest.mark.parametrize(
    ("table", "values", "reason"),
    [
        ("user", (-1, "mira"), "id is no number from 1 to 2147483647"),
        ("user", (2**40, "mira"), "id is no number from 1 to 2147483647"),
        ("user", (100, None), "the name is not 1 to 64 letters, digits and _-.%"),
        ("user", (100, "a\x1b[2J"), "the name is not 1 to 64 letters, digits and _-.%"),
        ("user", (100, "a" * 65), "the name is not 1 to 64 letters, digits and _-.%"),
        ("user", (100, b"mira"), "the name is not 1 to 64 letters, digits and _-.%"),
        ("user", (100, "mira", None), "the password hash is none that 4.x writes"),
        ("user", (100, "mira", b"x"), "the password hash is none that 4.x writes"),
        ("user", (100, "mira", "$argon2id$v=19$m=4194304,t=9999,p=1$AAAA$AAAA"), "the password hash is none that 4.x"),
        ("user", (100, "mira", HASH.replace("260000", "99999999")), "asks for more than 10000000 rounds"),
        ("role", (100, ""), "the name is not 1 to 64 letters, digits and _-.%"),
        ("policy", (100, "own", None), "the body is not text"),
        ("policy", (100, "own", "{"), "the body is not usable"),
        ("policy", (100, "own", []), "the body is not usable"),
        ("policy", (100, "own", {"actions": "x", "resources": [], "effect": "allow"}), "the body is not usable"),
        ("policy", (100, "own", {"actions": [], "resources": []}), "the body is not usable"),
        ("rule", (100, "own", "[]"), "the body is not usable"),
        ("rule", (100, "own", '{"MATCH": {"a": 18446744073709551616}}'), "an integer of more than 64 bits"),
        ("rule", (100, "own", '{"a":' * 300 + "1" + "}" * 300), "the body is nested deeper than 200"),
        ("rule", (100, "own", '{"a":' * 9999 + "1" + "}" * 9999), "the body is nested deeper than 200"),
        ("rule", (100, "own", '{"a": "' + "x" * 300_000 + '"}'), "the body is not text of at most 262144 characters"),
    ],
)
def test_an_unusable_row_stops_everything(
    store: SecurityStore, old: OldStore, table: str, values: tuple[Any, ...], reason: str
) -> None:
    old.role(200, "good")
    getattr(old, table)(*values)
    before = content(store)
    report = take_over(store, old)
    assert report.refused
    assert not report.written
    assert content(store) == before
    (line,) = (line for line in report.lines if line.result == "refused")
    assert line.kind == table
    assert reason in line.text
    assert str(line).isprintable()


def test_a_user_flag_of_the_wrong_type(store: SecurityStore, old: OldStore) -> None:
    old.user(100, "mira", flag="yes")
    old.user(101, "leo", flag=None)
    assert lines(take_over(store, old), "refused") == ["refused user 100 mira: allow_run_as is no boolean"]


def test_tables_without_constraints(store: SecurityStore, old: OldStore) -> None:
    old.run("DROP TABLE roles")
    old.run("CREATE TABLE roles (id, name, created_at)")
    for name in ("one", "two"):
        old.role(100, name)
    assert lines(take_over(store, old), "refused") == ["refused role 100 two: the id occurs twice in the source"]


def test_links_to_nothing_and_twice(store: SecurityStore, old: OldStore) -> None:
    old.user(100, "mira")
    old.role(100, "ops")
    old.link("user_roles", 100, 555)
    old.link("user_roles", 555, 100)
    old.link("user_roles", 100, 100, level=None)
    old.link("user_roles", 100, 100, level="last")
    report = take_over(store, old)
    assert find(store.view(), "mira").roles == (100,)
    assert lines(report, "dropped") == [
        "dropped user-role 100 100 - 555: an end does not exist, or was not imported",
        "dropped user-role 555 555 - 100: an end does not exist, or was not imported",
    ]


def test_a_link_with_a_wrong_end_is_refused(store: SecurityStore, old: OldStore) -> None:
    old.link("user_roles", "mira", 100)
    assert [line.kind for line in take_over(store, old).lines if line.result == "refused"] == ["user-role"]


def test_older_tables_lack_columns(store: SecurityStore, old: OldStore) -> None:
    old.run("ALTER TABLE users DROP COLUMN allow_run_as")
    old.run("ALTER TABLE users DROP COLUMN created_at")
    old.run("INSERT INTO users VALUES (100, 'mira', ?)", (HASH,))
    old.run("PRAGMA user_version = 0")
    take_over(store, old)
    assert find(store.view(), "mira").allow_run_as is False


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("DROP TABLE roles_rules", "no access-control database of a 4.x manager: table roles_rules is missing"),
        ("PRAGMA user_version = 2", "version 2; known are 0 and 1"),
        ("PRAGMA user_version = -1", "version -1"),
        ("UPDATE users SET username = CAST(x'ff' AS TEXT) WHERE id = 1", "Could not decode to UTF-8"),
        ("INSERT INTO rules VALUES (100, 'big', CAST(zeroblob(2000000) AS TEXT), '')", "string or blob too big"),
    ],
)
def test_files_that_are_refused(old: OldStore, statement: str, reason: str) -> None:
    old.run(statement)
    with pytest.raises(SecmonError) as error:
        read_source(old.path)
    assert error.value.code == 2012
    assert reason in error.value.message


def test_views_are_no_tables(old: OldStore) -> None:
    """A view could compute without end."""
    old.run("ALTER TABLE users RENAME TO real_users")
    old.run(
        "CREATE VIEW users AS WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n) "
        "SELECT id, id AS username, '' AS password FROM n"
    )
    with pytest.raises(SecmonError, match="table users is missing"):
        read_source(old.path)


def test_computed_columns_are_refused(old: OldStore) -> None:
    """A row of some bytes could have a megabyte."""
    old.run("ALTER TABLE users ADD COLUMN big TEXT AS (printf('%.*c', 900000, 'x')) VIRTUAL")
    with pytest.raises(SecmonError, match="table users has computed columns"):
        read_source(old.path)


def test_rows_are_bounded(old: OldStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreign, "MAX_ROWS", 34)
    with pytest.raises(SecmonError, match="table policies has more than 34 rows"):
        read_source(old.path)


@pytest.mark.parametrize("raw", [b"", b"x", b"SQLite format 3\0", b"SQLite format 3\0" + b"\xff" * 4080, bytes(8192)])
def test_files_that_are_no_database(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "rbac.db"
    path.write_bytes(raw)
    with pytest.raises(SecmonError) as error:
        read_source(path)
    assert error.value.code == 2012
    assert path.read_bytes() == raw


def test_entries_that_are_not_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", tmp_path / "absent?mode=rwc"):
        with pytest.raises(SecmonError) as error:
            read_source(path)
        assert error.value.code == 2012


def test_a_damaged_name_of_a_table(old: OldStore) -> None:
    """SQLite's own check names it, in text that does not decode."""
    raw = old.path.read_bytes()
    assert b"tablerunas" in raw
    old.path.write_bytes(raw.replace(b"tablerunas", b"tablerun\x80s"))
    with pytest.raises(SecmonError) as error:
        read_source(old.path)
    assert error.value.code == 2012


@given(data=st.data())
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_a_damaged_file_is_read_or_refused(old: OldStore, tmp_path: Path, data: st.DataObject) -> None:
    """Flipped bytes and cut ends never raise anything but a clear refusal."""
    raw = bytearray(old.path.read_bytes())
    for _ in range(data.draw(st.integers(1, 8))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path / "damaged.db"
    path.write_bytes(raw[: data.draw(st.integers(1, len(raw)))] if data.draw(st.booleans()) else raw)
    with contextlib.suppress(SecmonError):
        read_source(path)


def test_the_source_is_only_read(store: SecurityStore, old: OldStore, tmp_path: Path) -> None:
    before = old.path.read_bytes()
    with contextlib.closing(sqlite3.connect(old.path)) as other:  # a running manager that writes at this moment
        other.execute("BEGIN IMMEDIATE")
        other.execute("INSERT INTO roles VALUES (100, 'later', NULL)")
        take_over(store, old)
    assert old.path.read_bytes() == before
    assert 100 not in store.view().roles
    assert {file.name for file in tmp_path.iterdir() if file.name.startswith("rbac.db")} == {"rbac.db"}


_names = st.sampled_from(["admin", "ops", "ops_user", "readonly", "mira", "mira_user", "a" * 64])
_ids = st.integers(80, 110)


@given(
    users=st.dictionaries(_ids, _names, max_size=5),
    roles=st.dictionaries(_ids, _names, max_size=5),
    policies=st.dictionaries(_ids, st.integers(0, 3), max_size=5),
    links=st.lists(st.tuples(_ids | st.just(2), _ids | st.just(2), st.integers(0, 5)), max_size=12),
)
# A default user found by its name gets no roles of the source.
@example(users={84: "admin"}, roles={91: "ops"}, policies={}, links=[(84, 91, 0)])
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_any_source_leaves_a_consistent_store(
    filled: Path,
    tmp_path_factory: pytest.TempPathFactory,
    users: dict[int, str],
    roles: dict[int, str],
    policies: dict[int, int],
    links: list[tuple[int, int, int]],
) -> None:
    """No contents break the store; positions are dense; a second import finds all of it present."""
    folder = tmp_path_factory.mktemp("any")
    old = OldStore(folder / "rbac.db")
    for statement in ("DELETE FROM users WHERE id > 2", "DELETE FROM roles", "DELETE FROM policies"):
        old.run(statement)
    for table, column, rows in (("users", "username", users), ("roles", "name", roles)):
        old.run(f"DROP TABLE {table}")
        old.run(f"CREATE TABLE {table} (id, {column}, password, allow_run_as, created_at)")
        for number, name in rows.items():
            values = (number, name, HASH, 1, f"2023-01-01 00:00:{number % 60:02}")
            old.run(f"INSERT INTO {table} VALUES (?, ?, ?, ?, ?)", values)  # noqa: S608 - constants
    for number, body in policies.items():
        old.policy(number, f"own{number}", json.dumps(policy_body(body)) + " " * number)
    for owner, member, level in links:
        old.link("user_roles", owner, member, level)
        old.link("roles_policies", owner, member, level)
    path = folder / "security.db"
    path.write_bytes(filled.read_bytes())
    store = SecurityStore(path)
    try:
        assert not take_over(store, old).refused
        tables = store.snapshot().tables
        for name in ("user_roles", "role_policies"):
            for holder in {row[0] for row in tables[name]}:
                positions = sorted(int(str(row[2])) for row in tables[name] if row[0] == holder)
                assert positions == list(range(len(positions)))
        assert find(store.view(), "admin").roles == (1,)
        before = content(store)
        assert not take_over(store, old).written
        assert content(store) == before
    finally:
        store.close()
