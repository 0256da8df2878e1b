"""What workers may ask the master for: with the token of a client, and for themselves."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from secmon.cluster.call import Call
from secmon.cluster.catalogue import Operation, Place
from secmon.common.errors import SecmonError
from secmon.common.identity import local_identity, node_identity
from secmon.master.callers import MEMBER_OPERATIONS, CallerVerifier
from secmon.operations.all import CATALOGUE
from secmon.operations.internal import INTERNAL
from tests.offenders import Offenders
from tests.operations.world import World, make_security_db


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    make_security_db(tmp_path / "security.db")
    made = World(tmp_path, tmp_path / "security.db")
    made.start("alpha")
    yield made
    made.close()


def forwarded(operation: Operation, token: str = "") -> Call:
    """A call as a compromised worker sends it: of the administrator, as it says."""
    return Call(operation=operation, params=None, identity=local_identity(), request_id="r1", token=token)


def test_only_what_nodes_need_is_answered_without_a_token(world: World) -> None:
    verifier = CallerVerifier(world.nodes["alpha"].node, skew_seconds=60)
    with Offenders() as offenders:
        for operation in (*CATALOGUE, *INTERNAL):
            allowed = operation.name in MEMBER_OPERATIONS or (operation.internal and operation.place is Place.MASTER)
            with offenders.row(operation.name):
                if allowed:
                    verified = verifier.verified(forwarded(operation), "w1")
                    assert verified.node == "w1"
                    assert verified.identity in (node_identity(), local_identity())
                    assert verified.identity.local is (operation.name in MEMBER_OPERATIONS)
                else:
                    with pytest.raises(SecmonError, match="4000"):
                        verifier.verified(forwarded(operation), "w1")


def test_no_client_gets_an_internal_operation(world: World) -> None:
    node = world.nodes["alpha"].node
    view = node.security.view()
    user = view.user("admin")
    assert user is not None
    token = node.tokens.issue(view, user)
    verifier = CallerVerifier(node, skew_seconds=60)
    seen = verifier.verified(forwarded(CATALOGUE["GET /cluster/nodes"], token), "w1")
    assert (seen.identity.user, seen.identity.local, seen.token) == ("admin", False, "")
    with Offenders() as offenders:
        for operation in INTERNAL:
            with offenders.row(operation.name), pytest.raises(SecmonError, match="on behalf of a client"):
                verifier.verified(forwarded(operation, token), "w1")
