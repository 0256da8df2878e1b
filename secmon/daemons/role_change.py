"""Which daemons a change of the node's role concerns."""

from collections.abc import Set

from secmon.cluster.leadership.role_file import CurrentRole

LINK = "secmon-clusterd"
DEPENDENT: Set[str] = {LINK, "secmon-modulesd"}
"""Daemons that work otherwise on a master than on a worker. Those with ports for clients and agents do not: they hand
changes to the link, so their connections outlive a change of role."""
NEEDED: Set[str] = DEPENDENT | {"secmon-apid", "secmon-authd", "secmon-remoted"}
"""Without which a node cannot be the master."""
ROLE_STOP_SECONDS = 3.0
"""For them to stop: the cluster waits for its master."""


def concerned(before: CurrentRole, now: CurrentRole) -> Set[str]:
    """The daemons to restart: of a worker with another master the link alone."""
    if (before.role, before.term) == (now.role, now.term):
        return set()
    return {LINK} if before.role == now.role == "worker" else DEPENDENT
