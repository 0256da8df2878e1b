"""The cluster section as it is in force: with a store of record, the role of the moment decides who is master."""

import msgspec

from secmon.cluster.leadership.role_file import CurrentRole, read_role
from secmon.common.paths import Paths
from secmon.config.cluster import ClusterSection


def current_cluster(paths: Paths, section: ClusterSection) -> ClusterSection:
    """``section``, with the master of the moment if a store of record decides who that is."""
    return section if section.store is None else with_role(section, read_role(paths.role))


def with_role(section: ClusterSection, role: CurrentRole) -> ClusterSection:
    """``section`` for a node with ``role``. A worker that knows no master has no ``nodes``."""
    term = role.term
    if role.role == "master" and term is not None:
        return msgspec.structs.replace(section, node_type="master", nodes=[term.address], master_port=None)
    if term is None or not term.address or term.holder == section.node_name:
        return msgspec.structs.replace(section, node_type="worker", nodes=[], master_port=None)
    return msgspec.structs.replace(section, node_type="worker", nodes=[term.address], master_port=term.port)
