"""``/security``: login and configuration."""

from typing import Any

import pytest

from secmon.common.errors import SecmonError
from secmon.security.authentication_error import AuthenticationError
from secmon.security.store import schema
from tests.operations.world import World

pytestmark = pytest.mark.anyio

LOGIN = "POST /security/user/authenticate"
CONFIG = "/security/config"
DEFAULTS = {"auth_token_exp_timeout": 900, "rbac_mode": "white"}


@pytest.mark.parametrize("at", ["alpha", "beta"])
@pytest.mark.parametrize("name", [LOGIN, LOGIN.replace("POST", "GET")])
async def test_a_token_of_any_node_is_valid_on_all(cluster: World, name: str, at: str) -> None:
    token = (await cluster.plain(name, at=at)).data["token"]
    for running in cluster.nodes.values():
        identity = running.node.tokens.verify(running.node.security.view(), token)
        assert (identity.user, identity.roles) == ("admin", (1,))


async def test_a_bare_token(alone: World) -> None:
    answer = await alone.raw(LOGIN, raw=True)
    assert answer.content_type.startswith("text/plain")
    node = alone.nodes["manager"].node
    assert node.tokens.verify(node.security.view(), answer.body.decode()).user == "admin"


async def test_a_user_deleted_meanwhile_gets_no_token(alone: World) -> None:
    running = alone.nodes["manager"]
    call = alone.call(LOGIN, "reader", {}, on=running)
    view = running.node.security.view()
    user = view.user("reader")
    assert user is not None
    with running.node.security.write() as tx:
        tx.delete(schema.user_roles, user.id, user.roles[0])
        tx.delete(schema.users, user.id)
    with pytest.raises(AuthenticationError):
        await running.executor.run(call)


@pytest.mark.parametrize("at", ["alpha", "beta"])
async def test_the_configuration_is_the_masters(cluster: World, at: str) -> None:
    assert (await cluster.plain(f"GET {CONFIG}", at=at)).data == DEFAULTS
    changed = await cluster.plain(f"PUT {CONFIG}", at=at, body={"auth_token_exp_timeout": 60})
    assert changed.message is not None
    assert (await cluster.plain(f"GET {CONFIG}", at="alpha")).data == DEFAULTS | {"auth_token_exp_timeout": 60}
    alpha = cluster.nodes["alpha"]
    assert alpha.acknowledged.revisions == [alpha.node.security.revision()]
    assert (await cluster.plain(f"DELETE {CONFIG}", at="alpha")).message is not None
    assert (await cluster.plain(f"GET {CONFIG}", at="alpha")).data == DEFAULTS


async def test_a_change_revokes_every_token(alone: World) -> None:
    node = alone.nodes["manager"].node
    token = (await alone.plain(LOGIN)).data["token"]
    await alone.plain(f"PUT {CONFIG}", body={"rbac_mode": "white"})
    with pytest.raises(AuthenticationError):
        node.tokens.verify(node.security.view(), token)


async def test_nodes_that_lag_are_named(cluster: World) -> None:
    cluster.nodes["alpha"].acknowledged.unconfirmed.append("gamma")
    body = await cluster.body(f"PUT {CONFIG}", body={"rbac_mode": "black"})
    assert body["message"].endswith("Not yet confirmed by: gamma")
    assert body["error"] == 0


async def test_an_empty_change_is_refused(alone: World) -> None:
    revision = alone.nodes["manager"].node.security.revision()
    with pytest.raises(SecmonError) as caught:
        await alone.run(f"PUT {CONFIG}", body={})
    assert caught.value.code == 4021
    assert alone.nodes["manager"].node.security.revision() == revision


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
@pytest.mark.parametrize("user", ["nobody", "manager_only", "cluster_only"])
async def test_other_users_are_not_permitted(alone: World, method: str, user: str) -> None:
    params: dict[str, Any] = {"body": {"rbac_mode": "black"}} if method == "PUT" else {}
    with pytest.raises(SecmonError) as caught:
        await alone.run(f"{method} {CONFIG}", user, **params)
    assert caught.value.code == 4000
