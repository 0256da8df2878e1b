"""Every change through an operation is in the audit log, with its author."""

import json
from typing import Any

import pytest

from secmon.security.audit_check import check_end, verify
from tests.operations.office import PASSWORD, Office, texts
from tests.operations.world import World

pytestmark = pytest.mark.anyio


@pytest.fixture
def office(alone: World) -> Office:
    return Office(alone)


def changes(office: Office) -> list[dict[str, Any]]:
    lines = office.node.paths.audit_log.read_text().splitlines()
    return [line for line in map(json.loads, lines) if line["kind"] == "change"]


async def test_a_sequence_of_typical_requests(office: Office) -> None:
    role = await office.role("night", await office.policy([], []))
    user = await office.user("carol", role)
    await office.rule("given", role)
    await office.ask("PUT /security/config", body={"auth_token_exp_timeout": 60})
    await office.ask("DELETE /security/config")
    await office.ask("PUT /security/user/revoke")
    await office.ask("DELETE /security/user/authenticate", "carol")
    await office.one("DELETE /security/users", user_ids=texts([user]))
    found = changes(office)
    assert [line["by"]["operation"] for line in found] == [
        "POST /security/policies",
        "POST /security/roles",
        "POST /security/roles/{role_id}/policies",
        "POST /security/users",
        "POST /security/users/{user_id}/roles",
        "POST /security/rules",
        "POST /security/roles/{role_id}/rules",
        "PUT /security/config",
        "DELETE /security/config",
        "PUT /security/user/revoke",
        "DELETE /security/user/authenticate",
        "DELETE /security/users",
    ]
    assert [line["by"]["user"] for line in found] == ["admin"] * 10 + ["carol", "admin"]
    assert {"table": "users", "key": [user], "deleted": True} in found[-1]["changes"]
    text = office.node.paths.audit_log.read_text()
    assert not any(secret in text for secret in (PASSWORD, "argon2", "PRIVATE KEY"))
    report = verify(office.node.paths.audit_log)
    check_end(report, office.node.security.store_id(), office.node.security.revision())
    assert report.problem is None


async def test_refused_or_empty_changes_write_no_line(office: Office) -> None:
    await office.role("night")
    await office.refused("POST /security/roles", "nobody", body={"name": "day"})
    await office.failed("POST /security/roles", body={"name": "night"})
    await office.failed("DELETE /security/roles", role_ids=["1"])
    await office.refused("DELETE /security/users/{user_id}/roles", user_id="999", role_ids=["all"])
    assert len(changes(office)) == 1


async def test_without_the_audit_log_nothing_changes(office: Office) -> None:
    office.node.paths.audit_log.mkdir(parents=True)
    before = office.node.security.revision()
    error = await office.refused("POST /security/roles", body={"name": "night"})
    assert (error.code, error.kind.status) == (1005, 500)
    assert office.node.security.revision() == before
