# mypy: ignore-errors
"""A master's store and a replica's, by the code of the last release of generation 1 (see ``tests.compat.record``)."""

import json
import sqlite3
import sys
from pathlib import Path

from secmon.common.rpc import version
from secmon.common.rpc.gen import secmon_pb2 as pb
from secmon.common.security.admin import initialise
from secmon.common.store import schema
from secmon.common.store.security import SecurityStore

from tests.manual_clock import ManualClock

folder = Path(sys.argv[1])
master, replica = SecurityStore(folder / "security.db"), SecurityStore(folder / "replica.db", writable=False)
initialise(master, admin_password="Quarry-7!lamp", dashboard_password="Quarry-7!lamp", clock=ManualClock())
user = {"id": 100, "username": "mira", "password": "none", "allow_run_as": False, "created_at": 5}
with master.write() as tx:
    tx.put(schema.users, user)
    tx.put(schema.user_roles, {"user_id": 100, "role_id": 1, "position": 0})
replica.apply_snapshot(master.snapshot())
hello = pb.NodeHello(node_name="w1", cluster_name="test", version="4.8.2", installation_id="0" * 32, peer_port=1)
hello.protocol, hello.min_protocol = version.PROTOCOL, version.MIN_PROTOCOL
facts = {
    "store_id": master.store_id(),
    "revision": master.revision(),
    "users": [user["username"] for user in ({"username": "admin"}, {"username": "dashboard"}, user)],
    "kid": next(iter(master.view().keys)),
    "hello": hello.SerializeToString().hex(),
}
(folder / "facts.json").write_text(json.dumps(facts, indent=1) + "\n")
for store in (master, replica):
    store.close()
    with sqlite3.connect(store.path) as raw:
        raw.execute("PRAGMA journal_mode = DELETE")
        raw.execute("VACUUM")
    raw.close()
