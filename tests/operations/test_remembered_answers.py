"""Answers as text: never older than the last change, and never another caller's.

``World.same_as_text`` compares each answer with one that is neither text nor remembered.
"""

import os
import random
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import delete, update

from secmon.agents.registry.registry import assign
from secmon.agents.registry.schema import agents
from tests.agents.rows import agent, put
from tests.operations.analyst import SHOP_RULES, stocked
from tests.operations.office import Office
from tests.operations.world import World

pytestmark = pytest.mark.anyio

RULES, DECODERS, AGENTS = "GET /rules", "GET /decoders", "GET /agents"
CALLERS = {
    "admin": (),
    "shopper": (
        *(("rules:read", "rule:file:shop_rules.xml", "allow"), ("decoders:read", "decoder:file:*", "allow")),
        ("agent:read", "agent:group:web", "allow"),
    ),
    "others": (
        *(("rules:read", "rule:file:*", "allow"), ("rules:read", "rule:file:shop_rules.xml", "deny")),
        *(("agent:read", "agent:id:*", "allow"), ("agent:read", "agent:id:001", "deny")),
    ),
}


@pytest.fixture
async def office(alone: World) -> Office:
    office = stocked(alone)
    for name, statements in CALLERS.items():
        if statements:
            await office.caller(name, *statements)
    for group in ("default", "web"):
        (office.node.paths.shared / group).mkdir(exist_ok=True)
    with office.node.agents.write() as connection:
        put(connection, [agent(1, group="web"), agent(2, group="default"), agent(3)])
    return office


def _changes(office: Office, chance: random.Random) -> list[Callable[[], object]]:
    """What may change behind an answer. Each may be made again."""
    file = office.node.paths.etc / "rules/shop_rules.xml"
    config = office.node.paths.main_config
    text = config.read_text()
    excluded = text.replace("<ruleset>", "<ruleset><rule_exclude>shop_rules.xml</rule_exclude>", 1)
    assert excluded != text

    def replace() -> None:
        aside = file.with_name("aside")
        aside.write_bytes(SHOP_RULES.replace(b"A void", b"Void %d" % chance.randrange(10**6)))
        aside.rename(file)

    def edit() -> None:
        file.write_bytes(SHOP_RULES.replace(b'level="3"', b'level="%d"' % chance.randrange(10, 16)))
        os.utime(file, ns=(0, chance.randrange(10**12)))  # a clock's tick later

    def store(statement: object) -> Callable[[], None]:
        def write() -> None:
            with office.node.agents.write() as connection:
                connection.execute(statement)  # type: ignore[call-overload]

        return write

    def regroup() -> None:
        with office.node.agents.write() as connection:
            assign(connection, {2: chance.choice((("web",), ("default",), ("default", "web")))})

    return [
        replace,
        edit,
        lambda: file.unlink(missing_ok=True),
        lambda: (file.parent / "more.xml").write_bytes(SHOP_RULES.replace(b"1007", b"1008")),
        lambda: config.write_text(chance.choice((text, excluded))),
        store(update(agents).where(agents.c.id == 1).values(connection_status="active", last_keepalive=5)),
        store(update(agents).where(agents.c.id == 1).values(connection_status="disconnected")),
        store(delete(agents).where(agents.c.id == 3)),
        regroup,
    ]


@pytest.mark.parametrize("seed", range(2))
async def test_every_change_is_seen_by_the_next_request(office: Office, seed: int) -> None:
    chance = random.Random(seed)
    changes = _changes(office, chance)
    for _ in range(8):
        chance.choice(changes)()
        for user in CALLERS:
            await office.world.same_as_text(RULES, user, relative_dirname="etc/rules")
            await office.world.same_as_text(AGENTS, user, limit=2, sort="-name")
            await office.world.same_as_text(DECODERS, user, limit=2)


async def test_callers_of_other_rights_ask_in_turn(office: Office) -> None:
    async def shown(operation: str, user: str, **params: Any) -> list[object]:
        result = await office.world.text(operation, user, **params)
        assert result.text
        return [user, result.total]

    for _ in range(2):
        for user, rules, number in (("admin", 2, 4), ("shopper", 2, 1), ("others", 0, 3), ("nobody", 0, 0)):
            assert await shown(RULES, user, relative_dirname="etc/rules") == [user, rules]
            assert await shown(AGENTS, user) == [user, number]


async def test_a_changed_role_is_seen_by_the_next_request(office: Office) -> None:
    assert (await office.world.same_as_text(RULES, "shopper"))["data"]["total_affected_items"] == 2
    policy = await office.policy(["rules:read"], ["rule:file:shop_rules.xml"], "deny")
    user = office.node.security.view().user("shopper")
    assert user is not None
    [role] = user.roles
    await office.one("POST /security/roles/{role_id}/policies", role_id=str(role), policy_ids=[str(policy)])
    assert (await office.world.same_as_text(RULES, "shopper"))["data"]["total_affected_items"] == 0


async def test_time_goes_by_in_answers_about_ages(office: Office) -> None:
    now = int(office.node.clock.now().timestamp())
    with office.node.agents.write() as connection:
        connection.execute(update(agents).values(last_keepalive=now, connection_status="active"))

    async def total(**params: Any) -> int:
        return int((await office.world.same_as_text(AGENTS, **params))["data"]["total_affected_items"])

    assert (await total(older_than="1h"), await total(q="lastKeepAlive>1h")) == (0, 0)
    office.world.clock.advance(7200)
    assert (await total(older_than="1h"), await total(q="lastKeepAlive>1h")) == (3, 3)


async def test_pages_beyond_the_end_have_a_total(office: Office) -> None:
    for _ in range(2):
        body = await office.world.same_as_text(RULES, filename=["shop_rules.xml"], offset=5)
        assert (body["data"]["affected_items"], body["data"]["total_affected_items"]) == ([], 2)
