"""Which tokens die of what (rbac.md 13.3 with its corrections)."""

from typing import Any

import pytest

from tests.operations.office import PASSWORD, Office
from tests.operations.world import World

pytestmark = pytest.mark.anyio

HASH = "0" * 32

POLICY = {"actions": ["x:y"], "resources": [], "effect": "deny"}


class Tokens:
    """Tokens of several kinds, all issued now, by name."""

    def __init__(self, office: Office, night: int) -> None:
        self.office = office
        self.issued = {
            "carol": office.token("carol"),
            "dave": office.token("dave"),
            "admin": office.token("admin"),
            "erin": office.token("erin"),
            "erin as night": office.token("erin", (night,), context=HASH),
            "erin as nobody": office.token("erin", (), context=HASH),
        }

    def dead(self) -> set[str]:
        return {name for name, token in self.issued.items() if not self.office.lives(token)}


RUN_AS = {"erin as night", "erin as nobody"}
NIGHT = {"carol", "erin as night"}
EVERYONE = {"carol", "dave", "admin", "erin", *RUN_AS}

U, R, P, S = ("/security/users", "/security/roles", "/security/policies", "/security/rules")

# Operation, caller, parameters ({carol} and so on are ids), which tokens end.
MATRIX: list[tuple[str, str, dict[str, Any], set[str]]] = [
    (f"PUT {U}/{{user_id}}", "admin", {"user_id": "{carol}", "body": {"password": PASSWORD}}, {"carol"}),
    (f"PUT {U}/{{user_id}}", "admin", {"user_id": "{dave}", "body": {"password": PASSWORD}}, {"dave"}),
    (f"PUT {U}/{{user_id}}", "admin", {"user_id": "999", "body": {"password": PASSWORD}}, set()),
    (f"PUT {U}/{{user_id}}/run_as", "admin", {"user_id": "{dave}"}, {"dave"}),
    (f"PUT {U}/{{user_id}}/run_as", "admin", {"user_id": "{erin}", "allow_run_as": True}, {"erin", *RUN_AS}),
    (f"DELETE {U}", "admin", {"user_ids": ["{carol}", "1"]}, {"carol"}),
    (f"POST {U}/{{user_id}}/roles", "admin", {"user_id": "{dave}", "role_ids": ["{day}", "999"]}, {"dave"}),
    (f"POST {U}/{{user_id}}/roles", "admin", {"user_id": "{dave}", "role_ids": ["999"]}, set()),
    (f"POST {U}/{{user_id}}/roles", "admin", {"user_id": "{carol}", "role_ids": ["{night}"]}, set()),
    (f"DELETE {U}/{{user_id}}/roles", "admin", {"user_id": "{carol}", "role_ids": ["all"]}, {"carol"}),
    (f"DELETE {U}/{{user_id}}/roles", "admin", {"user_id": "{dave}", "role_ids": ["all"]}, set()),
    ("DELETE /security/user/authenticate", "carol", {}, {"carol"}),
    ("DELETE /security/user/authenticate", "dave", {}, {"dave"}),
    ("DELETE /security/user/authenticate", "erin", {}, {"erin", *RUN_AS}),
    (f"PUT {R}/{{role_id}}", "admin", {"role_id": "{night}", "body": {"name": "other"}}, NIGHT),
    (f"PUT {R}/{{role_id}}", "admin", {"role_id": "{night}", "body": {"name": "day"}}, set()),
    (f"DELETE {R}", "admin", {"role_ids": ["{night}"]}, NIGHT),
    (f"POST {R}/{{role_id}}/policies", "admin", {"role_id": "{night}", "policy_ids": ["{free}"]}, NIGHT),
    (f"POST {R}/{{role_id}}/policies", "admin", {"role_id": "{night}", "policy_ids": ["{held}"]}, set()),
    (f"DELETE {R}/{{role_id}}/policies", "admin", {"role_id": "{night}", "policy_ids": ["all"]}, NIGHT),
    (f"DELETE {R}/{{role_id}}/policies", "admin", {"role_id": "{night}", "policy_ids": ["{free}"]}, set()),
    (f"PUT {P}/{{policy_id}}", "admin", {"policy_id": "{held}", "body": {"name": "other"}}, NIGHT),
    (f"PUT {P}/{{policy_id}}", "admin", {"policy_id": "{free}", "body": {"policy": POLICY}}, set()),
    (f"DELETE {P}", "admin", {"policy_ids": ["{held}", "{free}"]}, NIGHT),
    (f"DELETE {P}", "admin", {"policy_ids": ["{free}"]}, set()),
    (f"PUT {S}/{{rule_id}}", "admin", {"rule_id": "{given}", "body": {"name": "other"}}, NIGHT | RUN_AS),
    (f"PUT {S}/{{rule_id}}", "admin", {"rule_id": "{idle}", "body": {"rule": {"NOT": {}}}}, RUN_AS),
    (f"PUT {S}/{{rule_id}}", "admin", {"rule_id": "999", "body": {"rule": {}}}, set()),
    (f"DELETE {S}", "admin", {"rule_ids": ["{given}"]}, NIGHT | RUN_AS),
    (f"DELETE {S}", "admin", {"rule_ids": ["1", "999"]}, set()),
    (f"POST {R}/{{role_id}}/rules", "admin", {"role_id": "{night}", "rule_ids": ["{idle}"]}, RUN_AS),
    (f"POST {R}/{{role_id}}/rules", "admin", {"role_id": "{night}", "rule_ids": ["{given}"]}, set()),
    (f"DELETE {R}/{{role_id}}/rules", "admin", {"role_id": "{night}", "rule_ids": ["{given}"]}, RUN_AS),
    ("PUT /security/user/revoke", "admin", {}, EVERYONE),
    ("PUT /security/config", "admin", {"body": {"rbac_mode": "white"}}, EVERYONE),
    ("DELETE /security/config", "admin", {}, EVERYONE),
    (f"POST {U}", "admin", {"body": {"username": "frank", "password": PASSWORD}}, set()),
    (f"POST {R}", "admin", {"body": {"name": "new"}}, set()),
    (f"POST {P}", "admin", {"body": {"name": "new", "policy": POLICY}}, set()),
    (f"POST {S}", "admin", {"body": {"name": "new", "rule": {}}}, set()),
    *((f"GET {path}", "admin", {}, set()) for path in (U, R, P, S, f"{U}/me", "/security/config")),
]


async def prepare(office: Office) -> dict[str, int]:
    """carol has night (policy held, rule given); dave nothing; erin may log in with contexts."""
    held, free = await office.policy([], []), await office.policy([], [])
    night, day = await office.role("night", held), await office.role("day")
    erin = await office.user("erin")
    await office.one("PUT /security/users/{user_id}/run_as", user_id=str(erin), allow_run_as=True)
    return {
        "held": held,
        "free": free,
        "night": night,
        "day": day,
        "given": await office.rule("given", night),
        "idle": await office.rule("idle"),
        "carol": await office.user("carol", night),
        "dave": await office.user("dave"),
        "erin": erin,
    }


def filled(value: Any, ids: dict[str, int]) -> Any:
    if isinstance(value, str):
        return value.format(**ids)
    if isinstance(value, list):
        return [filled(one, ids) for one in value]
    return value


@pytest.mark.parametrize(("name", "caller", "params", "dead"), MATRIX)
async def test_matrix(alone: World, name: str, caller: str, params: dict[str, Any], dead: set[str]) -> None:
    office = Office(alone)
    ids = await prepare(office)
    tokens = Tokens(office, ids["night"])
    assert tokens.dead() == set()
    await office.ask(name, caller, **{key: filled(value, ids) for key, value in params.items()})
    assert tokens.dead() == dead
    # The same second, the same names: a token issued after the answer is valid.
    for user in ("carol", "dave", "erin", "admin"):
        if office.node.security.view().user(user) is not None:
            assert office.lives(office.token(user))


async def test_revoking_everything_brings_a_new_key_and_drops_the_rest(alone: World) -> None:
    office = Office(alone)
    await prepare(office)
    before = set(office.node.security.view().keys)
    await office.ask("PUT /security/user/revoke")
    view = office.node.security.view()
    assert len(view.keys) == 1
    assert not before & set(view.keys)
    assert view.revoked_run_as == 0
    assert view.revoked_all == view.revision


async def test_an_answer_waits_for_the_other_nodes_and_names_those_that_lag(cluster: World) -> None:
    office = Office(cluster)
    master = cluster.nodes["alpha"]
    master.acknowledged.unconfirmed = ["beta"]
    body = await office.ask("POST /security/roles", at="alpha", body={"name": "night"})
    assert body["error"] == 0
    assert body["message"].endswith("Not yet confirmed by: beta")
    assert master.acknowledged.revisions == [master.node.security.revision()]
    body = await office.ask("DELETE /security/user/authenticate")
    assert body["message"].endswith("Not yet confirmed by: beta")


async def test_what_changes_nothing_waits_for_no_node(cluster: World) -> None:
    office = Office(cluster)
    await office.ask("DELETE /security/roles", role_ids=["1"])
    assert cluster.nodes["alpha"].acknowledged.revisions == []


async def test_a_worker_forwards_changes_and_answers_on_the_own_account(cluster: World) -> None:
    office = Office(cluster)
    body = await office.ask("POST /security/roles", at="beta", body={"name": "night"})
    assert body["error"] == 0
    assert "night" in {role.name for role in cluster.nodes["alpha"].node.security.view().roles.values()}
    cluster.membership.connected.clear()  # the master is away
    assert (await office.one("GET /security/users/me", at="beta"))["username"] == "admin"
    assert "rbac_mode" in (await office.ask("GET /security/users/me/policies", at="beta"))["data"]
    assert (await office.ask("GET /security/actions", at="beta"))["error"] == 0
    assert (await office.ask("GET /security/resources", at="beta"))["error"] == 0
    assert (await office.refused("GET /security/users", at="beta")).code == 3023
