"""What every declaration keeps to, and the steps of docs/adding-an-operation.md."""

from pathlib import Path
from typing import Annotated, Any

import pytest
from msgspec import Meta, Struct

from secmon.cluster.catalogue import Catalogue, Place, operation
from secmon.cluster.executor import Context
from secmon.cluster.parameters import Listing, ParameterError, read_text
from secmon.common.errors import SecmonError
from secmon.common.outcome import Messages, Outcome
from secmon.common.query import Fields, Sort
from secmon.operations.all import CATALOGUE, EXECUTABLE
from secmon.operations.internal import INTERNAL
from secmon.security.rbac.authorization import Require
from tests.folders import REPOSITORY
from tests.offenders import Offenders
from tests.operations.world import World

WITHOUT_REQUIREMENTS = {
    "GET /": "any valid token",
    "POST /security/user/authenticate": "the login itself",
    "GET /security/user/authenticate": "the login itself",
    "POST /security/user/authenticate/run_as": "the login itself",
    "DELETE /security/user/authenticate": "everybody may log out",
    "GET /security/users/me": "everybody may see who they are",
    "GET /security/users/me/policies": "everybody may see what they may do",
    "GET /security/users/me/permissions": "and why",
    "GET /manager/version/check": "manager.md 2 asks for none",
    "GET /security/actions": "the catalogue of actions is no secret",
    "GET /security/resources": "the catalogue of resources is no secret",
}
"""All operations that check no permission, and why."""

ALL = list(CATALOGUE)


def test_permissions_are_required_or_waived_here() -> None:
    with Offenders() as offenders:
        for one in ALL:
            with offenders.row(one.name):
                if one.require:
                    assert one.name not in WITHOUT_REQUIREMENTS
                    assert not one.open_to_all
                else:
                    assert one.name in WITHOUT_REQUIREMENTS
                    assert one.open_to_all or one.auth == "basic"


def test_it_says_what_it_does() -> None:
    with Offenders() as offenders:
        for one in ALL:
            with offenders.row(one.name):
                assert one.summary
                assert one.summary.endswith((".", "?"))
                assert len(one.summary) <= 120


def test_items_come_with_their_texts() -> None:
    with Offenders() as offenders:
        for one in ALL:
            with offenders.row(one.name):
                assert (one.item is None) or (one.data is None)
                if one.item is not None:
                    assert one.messages.all
                    assert one.messages.none
                if one.place is Place.NODES:
                    assert one.messages.some


def test_named_nodes_come_from_a_parameter_that_is_judged() -> None:
    with Offenders() as offenders:
        for one in ALL:
            with offenders.row(one.name):
                by_name = {parameter.name: parameter for parameter in one.parameters}
                if one.place in (Place.NODE, Place.NODES):
                    judged = [require for require in one.require if require.param == one.node_param]
                    assert judged
                    if one.node_param is None:  # for all nodes that the caller may use
                        assert one.place is Place.NODES
                        judged = [require for require in judged if require.mode == "restrict"]
                    else:
                        assert by_name[one.node_param].required is (one.place is Place.NODE)
                    assert all(require.resource == "node:id" for require in judged)
                for require in one.require:
                    assert require.param is None or require.param in by_name


def test_cluster_operations_need_one() -> None:
    with Offenders() as offenders:
        for one in ALL:
            with offenders.row(one.name):
                of_a_node = one.path == "/agents/node/{node_id}/restart"
                assert one.needs_cluster is ((one.area == "cluster" and one.path != "/cluster/status") or of_a_node)


def test_collections_can_be_ordered() -> None:
    with Offenders() as offenders:
        for one in ALL:
            with offenders.row(one.name):
                if one.fields is not None:
                    names = {parameter.name for parameter in one.parameters}
                    assert {"offset", "limit", "sort", "search"} <= names
                    if one.default_sort is not None and one.fields.sortable is not None:
                        assert set(one.default_sort.fields) <= set(one.fields.sortable)


def test_paths_and_parameters_agree() -> None:
    with Offenders() as offenders:
        for one in ALL:
            with offenders.row(one.name):
                named = {parameter.name for parameter in one.parameters if parameter.location == "path"}
                assert named == set(one.template.groupindex)
                assert (one.body is None) or one.method in ("POST", "PUT")


def test_the_list_of_exceptions_is_about_this_catalogue() -> None:
    public = {name for name in WITHOUT_REQUIREMENTS if CATALOGUE.get(name) is not None}
    assert {"GET /", "POST /security/user/authenticate"} <= public


def test_a_name_is_declared_once() -> None:
    catalogue = Catalogue()
    declare_tides(catalogue)
    with pytest.raises(ValueError, match="declared twice"):
        declare_tides(catalogue)


# The steps of docs/adding-an-operation.md, followed with a toy.


class Tide(Struct):
    """High water at a port."""

    port: str
    metres: float


class TidesQuery(Listing, frozen=True, kw_only=True):
    """Which tides."""  # step 2

    above: Annotated[int, Meta(ge=0, description="Lowest height, in metres.")] = 0


def declare_tides(catalogue: Catalogue) -> None:
    @operation(
        "GET", "/tides", params=TidesQuery, place=Place.MASTER, require=(Require("manager:read"),), item=Tide,
        fields=Fields(engine="list", select=("port", "metres"), sort=("port", "metres")),
        default_sort=Sort(("port",)), messages=Messages(all="The tides were read", none="No tides"),
        catalogue=catalogue,
    )  # fmt: skip
    async def tides(ctx: Context, params: TidesQuery) -> Outcome:
        """High water at the ports."""  # steps 3 to 5
        heights = {"Dover": 6.6, "Brest": 7.2, "Bremen": 4.1, "Malta": 0.1}
        outcome = Outcome()
        for port, metres in heights.items():
            if metres < 1:
                outcome.fail(SecmonError(1006, "no tide"), port)  # step 6
            elif metres > params.above:
                outcome.items.append({"port": port, "metres": metres})
        return outcome


@pytest.fixture
def tidal(tmp_path: Path, security_db: Path) -> Any:
    catalogue = Catalogue()
    declare_tides(catalogue)
    world = World(tmp_path, security_db, catalogue=catalogue)
    world.start("alpha")
    world.start("beta")
    yield world
    world.close()


@pytest.mark.anyio
@pytest.mark.parametrize("at", ["alpha", "beta"])
async def test_the_steps_make_a_complete_operation(tidal: World, at: str) -> None:
    body = await tidal.body("GET /tides", "manager_only", at=at, above=4, sort="-metres", limit=2, select=["port"])
    assert body["data"]["affected_items"] == [{"port": "Brest"}, {"port": "Dover"}]
    assert body["data"]["total_affected_items"] == 3
    assert [(one["error"]["code"], one["id"]) for one in body["data"]["failed_items"]] == [(1006, ["Malta"])]
    assert body["error"] == 2
    assert [item["port"] for item in (await tidal.outcome("GET /tides", at=at)).items] == ["Bremen", "Brest", "Dover"]


@pytest.mark.anyio
@pytest.mark.parametrize(("user", "params", "code"), [("nobody", {}, 4000), ("admin", {"sort": "x"}, 1403)])
async def test_and_one_that_refuses(tidal: World, user: str, params: dict[str, Any], code: int) -> None:
    with pytest.raises(SecmonError) as caught:
        await tidal.run("GET /tides", user, **params)
    assert caught.value.code == code


@pytest.mark.anyio
async def test_a_peer_is_checked_like_a_client(tidal: World) -> None:
    with pytest.raises(SecmonError, match="refused by node alpha"):
        await tidal.run("GET /tides", above=-1)


def test_its_parameters_are_read_off_the_declaration() -> None:
    catalogue = Catalogue()
    declare_tides(catalogue)
    declared = catalogue.get("GET /tides")
    assert declared is not None
    assert declared.summary == "High water at the ports."
    assert read_text(declared.parameters, [("above", "3")], {}) == {"above": 3}
    with pytest.raises(ParameterError, match="minimum"):
        read_text(declared.parameters, [("above", "-3")], {})


def test_the_document_has_eight_steps_at_most() -> None:
    text = (REPOSITORY / "docs/adding-an-operation.md").read_text()
    steps = [line for line in text.splitlines() if line[:1].isdigit()]
    assert [int(line.split(".")[0]) for line in steps] == list(range(1, len(steps) + 1))
    assert len(steps) <= 8


def test_what_daemons_call_has_paths_of_its_own() -> None:
    """``Operation.internal`` keeps clients and workers from operations that check no permission."""
    assert [one.name for one in CATALOGUE if one.internal] == []
    assert [one.name for one in INTERNAL if not one.internal] == []
    assert {one.name for one in EXECUTABLE} == {one.name for one in (*CATALOGUE, *INTERNAL)}
