"""The examination of a node, in the order in which causes should be removed."""

from collections.abc import Callable, Iterator
from functools import partial

from sqlalchemy import func, select

from secmon.agents.registry.schema import agents as agents_table
from secmon.agents.registry.store import AgentStore
from secmon.cluster.leadership.current_cluster import current_cluster
from secmon.cluster.record.masters_record import record_address
from secmon.common.clock import Clock
from secmon.common.errors import ConfigError, SecmonError, os_text
from secmon.common.paths import Paths
from secmon.common.sqlite.faults import StoreFault
from secmon.config.api import load_api_config
from secmon.config.auth import read_auth
from secmon.config.checks import installation_warnings
from secmon.config.cluster import ClusterSection
from secmon.config.main import load_main_config
from secmon.config.options import load_internal_options
from secmon.config.port_check import agents_ports, own_ports
from secmon.config.remote import load_remote
from secmon.daemons.supervisor_lock import SupervisorLock
from secmon.daemons.supervisor_settings import inspect_installation
from secmon.doctor.files import check_certificates, check_secrets
from secmon.doctor.finding import Finding, ok, problem, warning
from secmon.doctor.host import check_clock, check_disk, check_limits, check_user
from secmon.doctor.network import check_master, check_ports, check_record

Check = Callable[[], Iterator[Finding]]


def examine(paths: Paths, clock: Clock, cluster: Check) -> Iterator[Finding]:
    """All findings, as they are made. Nothing is changed. Stores are read as a whole: seconds for each gigabyte.

    ``cluster``: what the cluster daemon of a node that runs says of the other nodes.
    """
    running = SupervisorLock(paths.root).held()
    host: tuple[Check, ...] = (partial(check_disk, paths), check_clock, partial(check_user, paths))
    node: list[Check] = [partial(check_installation, paths), partial(check_secrets, paths)]
    for check in (*host, *node):
        yield from _guarded(check)
    try:
        section = load_main_config(paths).cluster
        api = load_api_config(paths)
    except ConfigError:
        return  # named by check_installation
    configured: list[Check] = [
        partial(check_certificates, paths, api, clock.now()),
        partial(_limits, paths),
        partial(_ports, paths, running=running),
        partial(_master, paths, section),
    ]
    if section.store is not None and not section.disabled:
        configured.append(partial(check_record, record_address(paths, section.store), clock))
    if not running:
        start = f"secmon start --root {paths.root}"
        configured.append(lambda: iter([warning("daemons", "the node does not run", start)]))
    elif not section.disabled:
        configured.append(cluster)
    for check in configured:
        yield from _guarded(check)


def _guarded(check: Check) -> Iterator[Finding]:
    """A check that cannot be made is a problem of its own, and the others are made all the same."""
    try:
        yield from check()
    except PermissionError as error:
        yield problem("access", os_text(error), "run this as root or as the service user")
    except OSError as error:
        yield problem("access", os_text(error), "check the disk and the permissions of the file")
    except StoreFault as fault:
        yield problem("stores", fault.as_error().message, fault.as_error().remediation or "check the disk")
    except SecmonError as error:
        yield problem("node", error.message, error.remediation or "see logs/ossec.log")


def check_installation(paths: Paths) -> Iterator[Finding]:
    """Configuration and stores, as a start checks them."""
    problems, damaged = inspect_installation(paths)
    for text in problems:
        yield problem("configuration and stores", text, "correct that, and run this again")
    for text in damaged.values():
        yield warning("stores", text, "secmon restart renames it and makes it again")
    for text in installation_warnings(paths):
        yield warning("configuration", text, "remove it, or see docs/use-an-existing-configuration.md")
    if not problems:
        yield ok("configuration and stores", "they are valid and whole")


def _limits(paths: Paths) -> Iterator[Finding]:
    if not paths.agents_db.exists():
        return
    store = AgentStore(paths.agents_db)
    try:
        with store.read() as connection:
            count = int(connection.execute(select(func.count()).select_from(agents_table)).scalar_one())
    finally:
        store.close()
    yield from check_limits(paths, count)


def _ports(paths: Paths, *, running: bool) -> Iterator[Finding]:
    main = load_main_config(paths)
    cluster = current_cluster(paths, main.cluster)
    own = own_ports(paths, load_api_config(paths), cluster, load_internal_options(paths))
    yield from check_ports([*own, *agents_ports(paths, read_auth(main), load_remote(paths))], running=running)


def _master(paths: Paths, section: ClusterSection) -> Iterator[Finding]:
    current = current_cluster(paths, section)
    yield from check_master(current, current.master_port or current.port)
