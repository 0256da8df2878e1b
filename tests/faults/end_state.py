"""What must be true of a cluster after the last fault, whatever happened before."""

import random
from collections.abc import Sequence
from contextlib import closing

from secmon.security.store.security_store import SecurityStore
from tests.faults.clients import Session, read
from tests.faults.history import History
from tests.faults.objects import Object
from tests.faults.revisions import meta
from tests.integration.ha_kit import HaCluster, secmon
from tests.integration.kit import RealNode
from tests.integration.nodelogs import tracebacks
from tests.waiting import wait_until

_TRIES = 5


def differences(cluster: HaCluster) -> list[str]:
    """Where nodes differ, audit logs that were altered, and what healthy logs do not hold."""
    found = []
    try:
        wait_until(lambda: len({*map(_contents, cluster.nodes)}) == 1, what="equal copies")
    except AssertionError:
        found += [f"{node.name} has other contents: {_contents(node)}" for node in cluster.nodes]
    found += [entry for node in cluster.nodes for entry in tracebacks(node)]
    try:
        secmon(cluster.wait_leader(), "audit", "verify")
    except AssertionError as error:
        found.append(f"the audit log of the master: {error}")
    return found


def _contents(node: RealNode) -> tuple[str, ...]:
    """Digests of everything that is replicated."""
    with closing(SecurityStore(node.paths.security_db, writable=False)) as security:
        users = security.digest()
    agents = meta(node.paths.agents_db, "digest")
    return users, agents, str(sorted(node.files().items()))


def read_everything(cluster: HaCluster, history: History, objects: Sequence[Object]) -> None:
    """Read each object at a node; their copies agree."""
    choice = random.Random(len(objects))
    with Session(cluster) as session:
        for thing in objects:
            nodes = [choice.choice(cluster.nodes) for _ in range(_TRIES)]
            if all(read(session, history, node, thing, final=True) for node in nodes):
                history.complain(f"{thing.key}: no node says anything about it")
