"""Ports of the node, names of other hosts, and whether these can be reached."""

import errno
import socket
from collections.abc import Iterator, Mapping, Sequence

import psutil
from sqlalchemy import text

from secmon.cluster.record.engine import RecordAddress, record_at
from secmon.cluster.record.setup import check_tables
from secmon.common.clock import Clock
from secmon.common.errors import SecmonError
from secmon.common.privileges import as_root
from secmon.config.cluster import ClusterSection
from secmon.config.port_check import Port
from secmon.doctor.finding import Finding, ok, problem, warning
from secmon.operations.nodes.clocks import NodeClock

_SECONDS = 3.0
_MAX_DIFFERENCE = 2.0
"""Seconds between two clocks."""


def check_ports(ports: Sequence[Port], *, running: bool) -> Iterator[Finding]:
    """Whether a node that runs listens on its ports, and one that does not could."""
    for port in ports:
        if port.number:
            yield _listening(port) if running else _free(port)


def _listening(port: Port) -> Finding:
    host = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(port.host, port.host)
    failure = unreachable(host, port.number)
    if failure is None:
        return ok("ports", f"{port.number} answers ({port.option})")
    remedy = "see secmon status, and the log of the daemon in logs"
    return problem("ports", f"nothing answers on port {port.number} of {host} ({port.option}): {failure}", remedy)


def _free(port: Port) -> Finding:
    family = socket.AF_INET6 if ":" in port.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind((port.host, port.number))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                text_ = f"{_holder(port.number)} uses port {port.number}"
            else:
                text_ = f"port {port.number} of {port.host} cannot be used: {error.strerror}"
            return problem("ports", text_, f"end it, or change {port.option} in {port.file}")
        except (TypeError, ValueError):  # no name that could be looked up
            return problem("ports", f"{port.host!r} is no address", f"change {port.option} in {port.file}")
    return ok("ports", f"{port.number} is free ({port.option})")


def _holder(number: int) -> str:
    try:
        with as_root():  # processes of other users
            for each in psutil.net_connections("tcp"):
                if each.laddr and each.laddr.port == number and each.status == psutil.CONN_LISTEN and each.pid:
                    return f"process {each.pid} ({psutil.Process(each.pid).name()})"
    except psutil.Error:
        pass  # other users' processes are not shown
    return "another process"


def unreachable(host: str, port: int) -> str | None:
    """Why no connection can be made; None when one was."""
    try:
        with socket.create_connection((host, port), timeout=_SECONDS):
            return None
    except OSError as error:
        return error.strerror or str(error)
    except (TypeError, ValueError):  # no name that could be looked up
        return f"{host!r} is no address"


def check_master(cluster: ClusterSection, master_port: int) -> Iterator[Finding]:
    """Whether a worker reaches its master: name, cluster port, and the port of enrolment after it."""
    if cluster.disabled or not cluster.is_worker:
        return
    for host in cluster.nodes:
        try:
            socket.getaddrinfo(host, None)
        except OSError as error:
            remedy = "correct the name under <nodes> in etc/ossec.conf, or the resolver of this host (/etc/resolv.conf)"
            yield problem("names", f"{host} cannot be resolved: {error.strerror or error}", remedy)
            continue
        yield ok("names", f"{host} can be resolved")
        for port in (master_port, master_port + 1):
            if failure := unreachable(host, port):
                remedy = "start the master, and let its firewall pass this port"
                yield problem("nodes", f"port {port} of the master {host} cannot be reached: {failure}", remedy)
            else:
                yield ok("nodes", f"port {port} of the master {host} answers")


def check_answers(errors: Mapping[str, str]) -> Iterator[Finding]:
    """``errors``: why nodes do not answer the master, although they may be connected to it."""
    for node, error in sorted(errors.items()):
        remedy = f"let the firewall of {node} pass the master to its cluster port, and see secmon status there"
        yield problem("nodes", f"{node} does not answer the master: {error}", remedy)


def check_clocks(clocks: Sequence[NodeClock]) -> Iterator[Finding]:
    """Whether the nodes that answer have the time of the master."""
    late = [each for each in clocks if abs(each.ahead) - each.uncertain > _MAX_DIFFERENCE]
    for each in late:
        side = "ahead of" if each.ahead > 0 else "behind"
        shown = f"that of {each.node} is {abs(each.ahead):.1f} s {side} the master's"
        yield warning("clock", shown, f"run a time service on {each.node} and on the master")
    if clocks and not late:
        apart = max(abs(each.ahead) + each.uncertain for each in clocks)
        yield ok("clock", f"those of {len(clocks)} nodes differ by {apart:.1f} s at most from the master's")


def check_record(address: RecordAddress, clock: Clock) -> Iterator[Finding]:
    """Whether the store of record can be used, and its clock is ours."""
    try:
        with record_at(address) as engine, engine.connect() as record:
            check_tables(record)
            began = clock.now().timestamp()
            theirs = float(record.execute(text("SELECT extract(epoch FROM clock_timestamp())")).scalar_one())
            ours = (began + clock.now().timestamp()) / 2
    except SecmonError as error:
        yield problem("store of record", error.message, error.remediation or "see docs/high-availability.md")
        return
    yield ok("store of record", f"{address.shown} can be used")
    difference = abs(theirs - ours)
    if difference > _MAX_DIFFERENCE:
        shown = f"it differs by {difference:.0f} s from that of the database"
        yield warning("clock", shown, "run a time service on both")
