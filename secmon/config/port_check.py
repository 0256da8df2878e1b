"""The ports that a node listens on, by the options that set them; no two may be the same."""

import ipaddress
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

from secmon.common.errors import ConfigError
from secmon.common.paths import Paths
from secmon.config.api import ApiConfig
from secmon.config.auth import AuthSettings
from secmon.config.cluster import ClusterSection
from secmon.config.options import InternalOptions
from secmon.config.remote import RemoteBlock
from secmon.config.settings import STARTUP_ERROR


class Port(NamedTuple):
    """A port, and the option in the file that sets it."""

    host: str
    number: int
    option: str
    file: Path

    def meets(self, other: "Port") -> bool:
        """Whether both cannot be listened on at once. Names of hosts are not looked up."""
        if self.number != other.number or not self.number:  # 0: any free one
            return False
        one, two = _address(self.host), _address(other.host)
        return one == two or _is_any(one) or _is_any(two)


def own_ports(paths: Paths, api: ApiConfig, cluster: ClusterSection, options: InternalOptions) -> Iterator[Port]:
    """The ports of the node for clients and for its peers; the master listens for the enrolment of nodes too."""
    yield Port(api.host, api.port, "port", paths.api_config)
    if cluster.disabled:
        return
    listen, enrol = options.get("clusterd.peer_port"), options.get("clusterd.enrol_port")
    if listen == -1:
        yield Port(cluster.bind_addr, cluster.port, "cluster.port", paths.main_config)
    else:
        yield Port(cluster.bind_addr, listen, "clusterd.peer_port", paths.local_internal_options)
    if cluster.node_type == "master" and enrol == -1:
        option = "cluster.port + 1, which is for enrolment,"
        yield Port(cluster.bind_addr, cluster.port + 1, option, paths.main_config)
    elif cluster.node_type == "master":
        yield Port(cluster.bind_addr, enrol, "clusterd.enrol_port", paths.local_internal_options)


def agents_ports(paths: Paths, auth: AuthSettings, remote: Sequence[RemoteBlock]) -> Iterator[Port]:
    """The TCP ports of the node for agents."""
    if not auth.disabled and auth.remote_enrollment:
        yield Port("::" if auth.ipv6 else "0.0.0.0", auth.port, "auth.port", paths.main_config)
    for block in remote:
        if "tcp" in block.protocols:
            yield Port(block.host, block.port, "remote.port", paths.main_config)


def check_ports(
    paths: Paths,
    api: ApiConfig,
    cluster: ClusterSection,
    options: InternalOptions,
    *,
    auth: AuthSettings | None = None,
    remote: Sequence[RemoteBlock] = (),
) -> Iterator[ConfigError]:
    """An error for each two ports of the node that are the same; it names both options."""
    own = [*own_ports(paths, api, cluster, options), *agents_ports(paths, auth or AuthSettings(), remote)]
    for one, two in combinations(own, 2):
        if one.meets(two):
            allowed = f"a port other than {two.option} of {two.file}: this node listens on both"
            yield ConfigError(str(one.file), one.option, one.number, allowed, code=STARTUP_ERROR)


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | str:
    try:
        return ipaddress.ip_address("127.0.0.1" if host == "localhost" else host)
    except ValueError:
        return host.lower()


def _is_any(address: ipaddress.IPv4Address | ipaddress.IPv6Address | str) -> bool:
    return not isinstance(address, str) and address.is_unspecified
