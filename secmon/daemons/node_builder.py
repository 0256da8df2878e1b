"""Reads an installation and opens the node that it describes."""

import logging
from contextlib import suppress
from dataclasses import dataclass

import msgspec

from secmon.agents.link.client import LinkClient
from secmon.cluster.analysis_client import EngineClient
from secmon.cluster.leadership.client import LeaderClient
from secmon.cluster.leadership.current_cluster import current_cluster, with_role
from secmon.cluster.leadership.role_file import CurrentRole
from secmon.cluster.lease import LeaseReader, UnlimitedLease
from secmon.cluster.node import Lease, Node, Services
from secmon.cluster.record.masters_record import MastersRecord, record_address
from secmon.cluster.record.recorded_stores import REGISTRY, SECURITY, TASKS
from secmon.cluster.store_checks import check_security
from secmon.common.clock import Clock, SystemClock
from secmon.common.counters import Counters
from secmon.common.paths import Paths
from secmon.config.api import ApiConfig, load_api_config
from secmon.config.main import MainConfig, load_main_config
from secmon.config.options import InternalOptions, load_internal_options
from secmon.daemons.control_sockets import SupervisorClient
from secmon.daemons.installation_files import restore_folders
from secmon.daemons.ruleset_validation import NodeRulesetValidation
from secmon.engine.catalogue import RulesetCatalogue
from secmon.security.store.security_store import SecurityStore

log = logging.getLogger("secmon.daemon")


@dataclass(frozen=True)
class Installation:
    """The configuration of a node, read and checked."""

    paths: Paths
    api: ApiConfig
    main: MainConfig
    options: InternalOptions
    record: MastersRecord | None = None
    """With a store of record."""

    @property
    def is_worker(self) -> bool:
        return self.main.cluster.is_worker


def read_installation(paths: Paths, *, hands_in: bool = False) -> Installation:
    """With the role of the moment. Raises ConfigError naming file, key and value.

    ``hands_in``: for a daemon that hands all changes to the cluster daemon. Where a store of record decides the role,
    it works as one of a worker, so that a change of the role does not concern it.
    """
    main = load_main_config(paths)
    store, cluster = main.cluster.store, current_cluster(paths, main.cluster)
    if store is not None and hands_in:
        cluster = with_role(main.cluster, CurrentRole("worker"))
    main = msgspec.structs.replace(main, cluster=cluster)
    record = None if store is None else MastersRecord(paths, record_address(paths, store))
    return Installation(paths, load_api_config(paths), main, load_internal_options(paths), record)


def open_node(installation: Installation, *, clock: Clock | None = None) -> Node:
    """A node without the services of the cluster. Its security store is writable on the master only.

    Raises 2012 for a store that does not fit the node's role. The store of a master is never created here.
    """
    paths, clock = installation.paths, clock or SystemClock()
    leased = installation.is_worker or installation.record is not None
    lease: Lease = LeaseReader(paths.lease, clock) if leased else UnlimitedLease()
    engine = EngineClient(paths.analysis_socket, paths.logtest_socket)
    node = Node(
        paths=paths,
        api_config=installation.api,
        main_config=installation.main,
        options=installation.options,
        security=_open_security(installation),
        services=Services(
            control=SupervisorClient(paths),
            lease=lease,
            agent_link=LinkClient(paths.agent_link_socket),
            ruleset=RulesetCatalogue(paths),
            validation=NodeRulesetValidation(engine, paths),
            analysis=engine,
            mastership=None if installation.record is None else LeaderClient(paths),
        ),
        record=installation.record,
        clock=clock,
        counters=Counters(),
    )
    if installation.record is not None and not installation.is_worker:
        node.security.record_with(installation.record.recorder(SECURITY))
        node.agents.record_with(installation.record.recorder(REGISTRY))
        node.tasks.record_with(installation.record.recorder(TASKS))
    return node


def _open_security(installation: Installation) -> SecurityStore:
    paths, worker = installation.paths, installation.is_worker
    check_security(paths, worker=worker)
    if worker and not paths.security_db.exists():
        log.warning("%s is missing: logins fail on this node until the master has sent its state", paths.security_db)
        with suppress(FileExistsError):  # another daemon of the node has created it meanwhile
            restore_folders(paths, ["api/configuration/security"])
    return SecurityStore(paths.security_db, writable=not worker, create=worker)
