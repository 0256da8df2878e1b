"""Messages of the synchronization: every component, and silence on what is malformed."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from secmon.inventory.components import COMPONENTS
from secmon.inventory.message import MalformedMessage
from secmon.inventory.schema import fim_entries, hotfixes, packages, processes, synchronizations
from secmon.inventory.synchronization.messages import synchronize
from secmon.inventory.values import MAX_INTEGER
from tests.inventory.handled_messages import HandledMessages, message_of
from tests.inventory.synchronization.model_agent import ModelAgent, sha1


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[HandledMessages]:
    made = HandledMessages(tmp_path, synchronize)
    yield made
    made.store.close()


def send(manager: HandledMessages, body: str | dict[str, Any]) -> list[str]:
    return [text for _, text in manager.handle(message_of("syscollector", body)).answers]


def converge(manager: HandledMessages, agent: ModelAgent, round_: int) -> None:
    waiting = agent.begin(round_)
    while waiting:
        waiting += [message for text in send(manager, waiting.pop(0)) for message in agent.answered(text)]


def state(component: str, key: str, **attributes: Any) -> dict[str, Any]:
    """A state with the members that rows of the component need."""
    if component.startswith(("fim", "sys")) and "collector" not in component:
        kind = {
            "fim_registry_key": "registry_key",
            "fim_registry_value": "registry_value",
            "fim_registry": "registry_key",
        }
        entry = {"path": f"path of {key}", "version": 3} if component.startswith("fim_reg") else {}
        own = {"type": kind.get(component, "file"), "checksum": sha1(key)}
        return {"index": key, "timestamp": 5, "attributes": own | attributes, **entry}
    table = COMPONENTS[component].table
    name = next(column.name for column in table.primary_key if column.name != "agent_id")
    identity = (
        "name",
        "version",
        "architecture",
        "protocol",
        "local_ip",
        "iface",
        "address",
        "service_id",
        "file_path",
    )
    extension = ("browser_name", "user_id", "browser_profile_path", "package_name", "package_version")
    texts = {member: "x" for member in (*identity, *extension) if member in table.c}
    return {"index": key, "timestamp": "", "attributes": {**texts, name: key, "checksum": sha1(key), **attributes}}


@pytest.mark.parametrize("component", COMPONENTS)
def test_every_component_converges(manager: HandledMessages, component: str) -> None:
    keys = ["10", "2", "a", "b", "é", "\U0001f600", "ﬀ"]
    if component == "syscollector_osinfo":  # an agent has one system
        keys = ["b"]
    agent = ModelAgent(component, {key: state(component, key) for key in keys})
    converge(manager, agent, 1)
    converge(manager, agent, 2)
    (record,) = manager.rows(synchronizations)
    assert (record["component"], record["last_completion"], record["n_completions"]) == (component, 2, 1)
    assert len(manager.rows(COMPONENTS[component].table)) == len(keys)
    del agent.rows["b"]
    agent.rows["c"] = state(component, "c")
    converge(manager, agent, 3)
    converge(manager, agent, 4)
    assert manager.rows(synchronizations)[0]["last_completion"] == 4
    converge(manager, ModelAgent(component), 5)
    assert manager.rows(COMPONENTS[component].table) == []


def test_keys_are_ordered_by_their_bytes(manager: HandledMessages) -> None:
    for pid in ("2", "10"):
        send(
            manager,
            {"component": "syscollector_processes", "type": "state", "data": state("syscollector_processes", pid)},
        )
    body = {"begin": "10", "end": "2", "checksum": sha1(sha1("10"), sha1("2")), "id": 1}
    assert send(manager, {"component": "syscollector_processes", "type": "integrity_check_global", "data": body}) == []
    assert len(manager.rows(processes)) == 2


def test_rows_of_old_agents_are_in_no_range(manager: HandledMessages) -> None:
    rows = [state("syscollector_hotfixes", "KB1", checksum="legacy"), state("syscollector_hotfixes", "KB2")]
    for row in rows:
        send(manager, {"component": "syscollector_hotfixes", "type": "state", "data": row})
    check = {"begin": "KB1", "end": "KB2", "checksum": sha1(sha1("KB2")), "id": 1}
    message = {"component": "syscollector_hotfixes", "type": "integrity_check_right", "data": check}
    assert send(manager, message) == []
    assert len(manager.rows(hotfixes)) == 2
    assert send(manager, message | {"type": "integrity_check_global"}) == []
    assert [row["hotfix"] for row in manager.rows(hotfixes)] == ["KB2"]


def test_entries_of_one_name_are_asked_for_again(manager: HandledMessages) -> None:
    for kind in ("file", "registry"):
        row = state("syscheck", "same", type=kind, checksum=kind)
        send(manager, {"component": "syscheck", "type": "state", "data": row})
    check = {"begin": "same", "end": "same", "checksum": sha1("file", "registry"), "id": 1}
    (answer,) = send(manager, {"component": "syscheck", "type": "integrity_check_right", "data": check})
    assert answer == 'syscheck dbsync checksum_fail {"begin":"same","end":"same","id":1}'
    assert manager.rows(fim_entries) == []


def test_old_agents_leave_out_the_tail(manager: HandledMessages) -> None:
    for name in ("a", "b", "c", "d"):
        send(manager, {"component": "fim_file", "type": "state", "data": state("fim_file", name)})
    check = {"begin": "b", "end": "c", "checksum": sha1(sha1("b"), sha1("c")), "id": 1}
    assert send(manager, {"component": "fim_file", "type": "integrity_check_left", "data": check}) == []
    assert [row["file"] for row in manager.rows(fim_entries)] == ["b", "c"]


def test_a_state_without_its_identity_removes_the_row(manager: HandledMessages) -> None:
    message = {"component": "syscollector_packages", "type": "state"}
    send(manager, message | {"data": state("syscollector_packages", "id-1")})
    assert len(manager.rows(packages)) == 1
    send(manager, message | {"data": state("syscollector_packages", "id-1", version="")})
    assert manager.rows(packages) == []


GOOD: dict[str, Any] = {
    "component": "fim_file",
    "type": "integrity_check_global",
    "data": {"begin": "a", "end": "b", "checksum": "c", "id": 1},
}


def without(member: str, **values: Any) -> dict[str, Any]:
    return GOOD | {"data": {name: value for name, value in GOOD["data"].items() if name != member} | values}


@pytest.mark.parametrize(
    "body",
    [
        "", "{", "[]", "5", '{"component":"fim_file"}', "[" * 30_000,
        GOOD | {"component": "fim_files"}, GOOD | {"component": ["fim_file"]}, GOOD | {"component": None},
        GOOD | {"type": "integrity"}, GOOD | {"type": 5}, GOOD | {"data": []}, GOOD | {"data": None},
        without("id"), without("begin"), without("end"), without("checksum"),
        without("id", id="1"), without("id", id=True), without("id", id=1.5), without("id", id=None),
        without("id", id=MAX_INTEGER + 1), without("begin", begin=5), without("x", tail=5),
        without("begin", begin="b" * 65_000),
        GOOD | {"type": "integrity_clear", "data": {}},
        GOOD | {"type": "state", "data": {"attributes": {"type": "file"}}},
        '{"component":"fim_file","type":"integrity_check_global","data":{"begin":"\\ud800","end":"b","id":1}}',
    ],
)  # fmt: skip
def test_malformed_messages_are_never_answered(manager: HandledMessages, body: str | dict[str, Any]) -> None:
    with pytest.raises(MalformedMessage):
        send(manager, body)


def test_an_answer_repeats_what_was_asked(manager: HandledMessages) -> None:
    data = {"begin": 'a"\n\0é', "end": "�\U0001f600", "checksum": "", "id": -(1 << 63) + 1, "tail": "x", "newer": 1}
    (answer,) = send(manager, GOOD | {"data": data, "type": "integrity_check_left"})
    component, protocol, verdict, body = answer.split(" ", 3)
    assert (component, protocol, verdict) == ("fim_file", "dbsync", "no_data")
    assert json.loads(body) == {name: data[name] for name in ("begin", "end", "id")}


def test_checks_of_too_many_rows_are_not_answered(manager: HandledMessages, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("secmon.inventory.row_limits.MAX_COMPARED", 4)
    for name in ("a", "b", "c"):
        send(manager, {"component": "fim_file", "type": "state", "data": state("fim_file", name)})
    check = {"begin": "a", "end": "c", "checksum": "differs", "id": 1}
    body = {"component": "fim_file", "type": "integrity_check_right", "data": check}
    changes = manager.handle(
        *(message_of("fim_file", body, received=time) for time in (60.0, 70.0, 80.0, 119.0, 120.0))
    )
    assert (len(changes.answers), changes.refused_checks) == (3, 2)
