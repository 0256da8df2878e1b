"""Every operation of the catalogue, asked with what its description allows and with what it forbids."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from secmon.cluster.catalogue import Operation
from tests.fuzz.cases import ONE_ANSWER, Sent, prepared, strategies
from tests.fuzz.effort import effort
from tests.fuzz.oracle import check
from tests.fuzz.target import ADMIN, LINE_BYTES, NOBODY, NODES, Target

RESTARTS = {"PUT /manager/restart", "PUT /cluster/restart"}
"""Asked by a user without permissions: the cluster has to stay up for the others."""

STRATEGIES = strategies()


@pytest.fixture(autouse=True)
def _as_before(target: Target) -> Iterator[None]:
    yield
    target.restore()


@pytest.mark.parametrize("operation", ONE_ANSWER, ids=lambda one: one.name)
def test_answers_are_as_declared(target: Target, operation: Operation) -> None:
    drawn = st.tuples(STRATEGIES[operation.name], st.sampled_from(NODES))

    @effort(6)
    @given(drawn)
    def ask(example: tuple[Any, str]) -> None:
        case, node = example
        sent = prepared(case)
        assume(len(sent.target) < LINE_BYTES and not _locks_out(operation, case))
        reply = _ask(target, operation, sent, node)
        check(reply, operation, selected=b"select=" in sent.target)

    ask()


def _locks_out(operation: Operation, case: Any) -> bool:
    """The administrator's password is the one thing that nothing brings back."""
    number = str((case.path_parameters or {}).get("user_id", ""))
    return operation.name == "PUT /security/users/{user_id}" and number.lstrip("0") == "1"


def _ask(target: Target, operation: Operation, sent: Sent, node: str) -> Any:
    if operation.auth == "basic":
        return target.wires[node].send(sent.method, sent.target, [*sent.headers, target.basic()], sent.body)
    user = NOBODY if operation.name in RESTARTS else ADMIN
    return target.ask(*sent, user=user, node=node)
