"""Views: always current, shared where nothing changed, cheap while nothing changes."""

import subprocess
import sys
import threading

from sqlalchemy import event

from secmon.security.revocation import revoke_role, revoke_user
from secmon.security.store.security_store import SecurityStore
from tests.folders import REPOSITORY
from tests.manual_clock import ManualClock
from tests.security.store.conftest import OpenStore
from tests.security.store.rows import link_policy, link_role, put_policy, put_role, put_user

WRITER = """
import sys
from pathlib import Path
from secmon.security.store.security_store import SecurityStore
from tests.security.store.rows import put_role
store = SecurityStore(Path(sys.argv[1]))
with store.write() as tx:
    put_role(tx, 100, sys.argv[2])
store.close()
"""


def test_commits_of_other_processes_are_visible(open_store: OpenStore) -> None:
    store = open_store()
    for name in ("first", "second"):
        assert name not in {role.name for role in store.view().roles.values()}
        subprocess.run([sys.executable, "-c", WRITER, str(store.path), name], check=True, cwd=REPOSITORY)
        assert store.view().roles[100].name == name
    assert store.view().revision == store.revision() == 2


def test_no_statement_while_nothing_changes(open_store: OpenStore) -> None:
    store = open_store()
    with store.write() as tx:
        put_user(tx, 100)
    store.view().user("user100")
    store.revision()
    statements: list[str] = []
    event.listen(store._engine, "before_cursor_execute", lambda *args: statements.append(args[2]))
    assert store.view().user("user100") is not None
    assert (store.revision(), store.digest()) == (1, store.digest())
    digest_statements = len(statements)
    assert store.view() is store.view()
    assert store.digest()
    assert len(statements) == digest_statements


def test_users_read_with_roles_in_position_order(open_store: OpenStore) -> None:
    store = open_store()
    with store.write() as tx:
        put_user(tx, 100, "mira", allow_run_as=True)
        for role, position in ((100, 2), (101, 0), (102, 1)):
            put_role(tx, role)
            link_role(tx, 100, role, position)
    user = store.view().user("mira")
    assert user is not None
    assert (user.id, user.allow_run_as, user.roles, user.revoked) == (100, True, (101, 102, 100), 0)
    assert store.view().user("MIRA") is None


def test_changes_of_single_users_keep_the_shared_part(open_store: OpenStore) -> None:
    store = open_store()
    with store.write() as tx:
        put_role(tx, 100)
    before = store.view()
    with store.write() as tx:
        put_user(tx, 100)
        link_role(tx, 100, 100)
        revoke_user(tx, 100, ManualClock())
    after = store.view()
    assert (before.revision, after.revision) == (1, 2)
    assert after.roles is before.roles
    user = after.user("user100")
    assert user is not None
    assert user.revoked == 2
    with store.write() as tx:
        revoke_role(tx, 100, ManualClock())
    assert (store.view().revoked_role(100), store.view().revoked_role(101)) == (3, 0)


def test_permissions_follow_policies(open_store: OpenStore) -> None:
    store = open_store()
    with store.write() as tx:
        put_role(tx, 100)
        put_policy(tx, 100, "agent:id:001")
        put_policy(tx, 101, "agent:id:001", "deny")
        link_policy(tx, 100, 100, position=1)
        link_policy(tx, 100, 101, position=0)
    view = store.view()
    assert view.permissions((100,)) is view.permissions((100,))
    assert view.permissions((100, 999)).actions["agent:read"] == {"agent:id:001": "allow"}
    with store.write() as tx:
        link_policy(tx, 100, 101, position=2)
    assert store.view().permissions((100,)).actions["agent:read"] == {"agent:id:001": "deny"}
    assert view.permissions((100,)).actions["agent:read"] == {"agent:id:001": "allow"}


def test_readers_never_see_an_older_revision(open_store: OpenStore) -> None:
    """Threads read while one writes: after a write returned, no view is older than it."""
    store = open_store()
    written, failures, done = [0], list[str](), threading.Event()

    def read() -> None:
        while not done.is_set():
            least = written[0]
            view = store.view()
            if view.revision < least or (least and view.roles[100].name != str(view.revision)):
                failures.append(f"{view.revision} after {least}")

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for number in range(1, 41):
        with store.write() as tx:
            put_role(tx, 100, str(number))
        written[0] = number
    done.set()
    for reader in readers:
        reader.join()
    assert not failures


def test_two_stores_of_one_file(open_store: OpenStore) -> None:
    one, two = open_store(), open_store()
    with one.write() as tx:
        put_user(tx, 100)
    with two.write() as tx:
        put_user(tx, 101)
    assert one.view().user("user101") is not None
    assert one.digest() == two.digest()
    assert isinstance(two, SecurityStore)
