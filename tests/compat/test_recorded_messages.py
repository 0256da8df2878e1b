"""Messages as nodes of generation 2 send them: this release understands them."""

import json
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from secmon.agents.registry.store import AgentStore
from secmon.agents.replica import RegistryChanges, apply_changes, position, verify
from secmon.agents.report_checks import ReportClock
from secmon.agents.state_reports import KeepaliveReport, StateReport, store_keepalives, store_states
from secmon.cluster.call import Call
from secmon.cluster.rpc import version, wire
from secmon.cluster.rpc.gen import secmon_pb2 as pb
from secmon.common.errors import SecmonError
from secmon.common.outcome import ItemFailure, Outcome, Plain, Result
from secmon.operations.all import CATALOGUE, EXECUTABLE
from secmon.security.store.replication import Change, Snapshot
from secmon.security.store.security_store import SecurityStore
from tests.compat.test_golden_stores import HERE, facts

FACTS = facts(2)
MESSAGES = {name: bytes.fromhex(data) for name, data in FACTS["messages"].items()}


def test_the_security_state(tmp_path: Path) -> None:
    with closing(SecurityStore(tmp_path / "replica.db", writable=False)) as store:
        store.apply_snapshot(msgspec.msgpack.decode(MESSAGES["snapshot"], type=Snapshot))
        push = pb.MasterMessage.FromString(MESSAGES["push"]).security
        changes = msgspec.msgpack.decode(push.changes, type=list[Change])
        store.apply_changes(push.epoch, push.base, changes, push.revision)
        assert (store.store_id(), store.revision()) == (FACTS["store_id"], FACTS["revision"])
        assert push.digest == FACTS["digest"]


def test_the_registry_and_reports(tmp_path: Path) -> None:
    with closing(AgentStore(tmp_path / "agents.db")) as store:
        for name in ("registry", "registry_changes"):
            with store.write() as connection:
                assert apply_changes(connection, msgspec.msgpack.decode(MESSAGES[name], type=RegistryChanges))
                assert verify(connection)
        report = pb.AgentReport.FromString(MESSAGES["agent_report"])
        states = msgspec.msgpack.decode(report.full, type=list[StateReport])
        keepalives = msgspec.msgpack.decode(report.touched, type=list[KeepaliveReport])
        with store.write() as connection:
            assert position(connection).digest == FACTS["registry_digest"]
            assert store_states(connection, "w1", states, ReportClock(latest=500)) == {}
            assert store_keepalives(connection, "w1", keepalives, ReportClock(latest=500)) == ([], {})
            query = "SELECT last_keepalive, os_name, node_name FROM agents WHERE id = 1"
            assert connection.exec_driver_sql(query).one() == (101, "Ubuntu", "w1")


def test_greetings_and_heartbeats() -> None:
    hello = pb.WorkerMessage.FromString(MESSAGES["hello"]).hello
    assert (hello.node_name, hello.cluster_name, hello.version, hello.clock) == ("w1", "test", "4.8.2", 5.0)
    assert version.compatible(hello.protocol, hello.min_protocol)
    for heartbeat in (
        pb.WorkerMessage.FromString(MESSAGES["worker_heartbeat"]).heartbeat,
        pb.MasterMessage.FromString(MESSAGES["master_heartbeat"]).heartbeat,
    ):
        assert (heartbeat.clock, heartbeat.sequence) == (5.0, 7)
        assert (heartbeat.security.revision, heartbeat.files.revision) == (3, 3)
        assert heartbeat.security.schema == 0
    worker = pb.WorkerMessage.FromString(MESSAGES["worker_heartbeat"]).heartbeat
    assert (worker.active_agents, worker.round_trip) == (2, 0.25)


def test_generation_1_is_not_understood() -> None:
    hello = pb.NodeHello.FromString(bytes.fromhex(facts(1)["hello"]))
    assert not version.compatible(hello.protocol, hello.min_protocol)


def test_operations_that_generation_2_calls_are_there() -> None:
    """With the parameters that it sends; what was added since may be left out."""
    recorded: dict[str, list[str]] = {}
    for line in (HERE / "generation_2/operations.json").read_text().splitlines():
        recorded |= json.loads(line)
    for operation in CATALOGUE:
        if operation.name in recorded:
            sent = set(recorded.pop(operation.name))
            fields = msgspec.structs.fields(operation.params)
            assert sent <= {field.encode_name for field in fields}, operation.name
            assert sent >= {field.encode_name for field in fields if field.required}, operation.name
    assert recorded == {}


def answer(chunk: bytes) -> Result:
    reader = wire.ResultReader()
    reader.add(chunk)
    return reader.result()


def unpacked(data: bytes) -> Call:
    request = pb.ExecuteRequest.FromString(data)
    return wire.unpack_call(request, wire.named_operation(request, EXECUTABLE, "n1"), None, "n1")


def test_calls_and_answers() -> None:
    call = unpacked(MESSAGES["call"])
    assert (call.operation.name, call.params.limit, call.request_id, call.client) == ("GET /agents", 2, "r1", "::1")
    assert (call.token, call.identity.user, call.identity.roles, call.identity.issuer) == ("t", "mira", (1,), "w1")
    failures = [ItemFailure(code=1701, ids=("005",))]
    assert answer(MESSAGES["outcome"]) == Outcome(items=[{"id": "001"}], total=1, failures=failures, extra={"a": 1})
    assert answer(MESSAGES["plain"]) == Plain(data={"x": 1}, message="done")
    with pytest.raises(SecmonError) as caught:
        answer(MESSAGES["failure"])
    assert (caught.value.code, caught.value.ids, caught.value.nodes) == (1701, ("005",), {"w1": "late"})


def test_fields_that_later_releases_add_are_ignored() -> None:
    """Of protobuf by its own rules; of the msgpack inside by ours."""
    request = pb.ExecuteRequest.FromString(MESSAGES["call"])
    identity = msgspec.msgpack.decode(request.identity) | {"new": [1]}
    request.identity = msgspec.msgpack.encode(identity)
    request.params = msgspec.msgpack.encode(msgspec.msgpack.decode(request.params) | {"new": 1})
    later = request.SerializeToString() + bytes((0xFA, 0x3F, 1, 0x78))  # field 1023, one byte
    assert unpacked(later).identity.user == "mira"

    head = msgspec.msgpack.decode(pb.ExecuteChunk.FromString(MESSAGES["outcome"]).head) | {"new": True}
    found = answer(pb.ExecuteChunk(head=msgspec.msgpack.encode(head)).SerializeToString())
    assert isinstance(found, Outcome)
    assert found.items == [{"id": "001"}]
