# mypy: ignore-errors
"""Stores and messages of a master, by the code of the last release of generation 2 (see ``tests.compat.record``)."""

import importlib
import json
import pkgutil
import sqlite3
import sys
from pathlib import Path

import msgspec
from secmon.common.calls import Call
from secmon.security.admin import initialise
from sqlalchemy import update

import secmon.operations
from secmon.agents import replica, tasks
from secmon.agents.registry import registry
from secmon.agents.registry.schema import agents
from secmon.agents.registry.store import AgentStore
from secmon.agents.state_reports import State, Touch, waiting
from secmon.cluster.catalogue import CATALOGUE
from secmon.cluster.rpc import version, wire
from secmon.cluster.rpc.gen import secmon_pb2 as pb
from secmon.common.errors import SecmonError
from secmon.common.identity import Identity
from secmon.common.outcome import ItemFailure, Outcome, Plain
from secmon.security.store import schema
from secmon.security.store.security_store import SecurityStore
from tests.manual_clock import ManualClock

folder = Path(sys.argv[1])
clock = ManualClock()
encode = msgspec.msgpack.encode

security = SecurityStore(folder / "security.db")
initialise(security, admin_password="Quarry-7!lamp", dashboard_password="Quarry-7!lamp", clock=clock)
messages = {"snapshot": encode(security.snapshot())}
user = {"id": 100, "username": "mira", "password": "none", "allow_run_as": False, "created_at": 5}
with security.write() as tx:
    tx.put(schema.users, user)
    tx.put(schema.user_roles, {"user_id": 100, "role_id": 1, "position": 0})
with security.write() as tx:
    tx.put(schema.revocations, {"scope": "user", "subject": "100", "revision": 3, "expires": 9})
    tx.delete(schema.user_roles, 100, 1)
changes = encode(security.changes_since(1))
push = pb.SecurityPush(epoch=security.store_id(), base=1, revision=3, digest=security.digest(), changes=changes)
messages["push"] = pb.MasterMessage(security=push).SerializeToString()

store = AgentStore(folder / "agents.db", clock=clock)
with store.write() as connection:
    for number, name in enumerate(("web", "db", "old"), 1):
        registry.add(connection, registry.New(name=name, key=str(number) * 64, address="any"), now=1)
    registry.assign(connection, {2: ["default", "linux"]})
    messages["registry"] = encode(replica.rows_since(connection, None))
    registry.remove(connection, [3])
    messages["registry_changes"] = encode(replica.rows_since(connection, 4))
    connected = {"connection_status": "active", "last_keepalive": 100, "os_name": "Ubuntu", "version": "Wazuh v4.8.2"}
    connection.execute(update(agents).where(agents.c.id == 1).values(changed=1, node_name="w1", **connected))
    report = [one.state for one in waiting(connection)]
    registry_digest = replica.position(connection).digest
assert all(isinstance(state, State) for state in report)
full, touched = encode(report), encode([Touch(1, 101)])
messages["agent_report"] = pb.AgentReport(full=full, touched=touched).SerializeToString()

task_store = tasks.TaskStore(folder / "tasks.db")
with task_store.write() as connection:
    tasks.create(connection, [(1, "w1"), (2, "m")], "upgrade", tasks.Work(version="v4.8.2"), now=10)
    tasks.take(connection, "w1", 1, now=11)

hello = pb.NodeHello(node_name="w1", cluster_name="test", version="4.8.2", installation_id="0" * 32, peer_port=1)
hello.protocol, hello.min_protocol, hello.clock = version.PROTOCOL, version.MIN_PROTOCOL, 5.0
messages["hello"] = pb.WorkerMessage(hello=hello).SerializeToString()
position = pb.Position(epoch=security.store_id(), revision=3, digest=security.digest())
worker_beat = pb.WorkerBeat(clock=5.0, sequence=7, security=position, files=position, active_agents=2, round_trip=0.25)
messages["worker_heartbeat"] = pb.WorkerMessage(beat=worker_beat).SerializeToString()
master_beat = pb.MasterBeat(clock=5.0, sequence=7, security=position, files=position)
messages["master_heartbeat"] = pb.MasterMessage(beat=master_beat).SerializeToString()
identity = Identity(user="mira", user_id=100, roles=(1,), run_as=False, mode="white", revision=3, issuer="w1")
call = Call(operation="GET /agents", params={"limit": 2}, identity=identity, request_id="r1", client="::1", token="t")
messages["call"] = wire.pack_call(call, part=True).SerializeToString()
outcome = Outcome(items=[{"id": "001"}], total=1, failures=[ItemFailure(code=1701, ids=("005",))], extra={"a": 1})
for name, result in (("outcome", outcome), ("plain", Plain(data={"x": 1}, message="done"))):
    [chunk] = wire.pack_result(result)
    messages[name] = chunk.SerializeToString()
failure = wire.pack_failure(SecmonError(1701, "which", ids=("005",), nodes={"w1": "late"}))
messages["failure"] = failure.SerializeToString()

for module in pkgutil.walk_packages(secmon.operations.__path__, "secmon.operations."):
    importlib.import_module(module.name)
operations = {one.name: [field.encode_name for field in msgspec.structs.fields(one.params)] for one in CATALOGUE}
(folder / "operations.json").write_text(
    "".join(f"{json.dumps({name: operations[name]})}\n" for name in sorted(operations))
)

facts = {
    "store_id": security.store_id(),
    "revision": security.revision(),
    "digest": security.digest(),
    "registry_digest": registry_digest,
    "messages": {name: data.hex() for name, data in messages.items()},
}
(folder / "facts.json").write_text(json.dumps(facts, indent=1) + "\n")
for opened, path in ((security, security.path), (store, store.path), (task_store, task_store.path)):
    opened.close()
    with sqlite3.connect(path) as raw:
        raw.execute("PRAGMA journal_mode = DELETE")
        raw.execute("VACUUM")
    raw.close()
