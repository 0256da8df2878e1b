"""The cluster section of the main configuration (cluster.md 2.1, 2.2), typed."""

import re
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import msgspec

from secmon.common.errors import UNKNOWN
from secmon.config.as_json import MASK
from secmon.config.problems import Report
from secmon.config.values import BOOLEAN, HOST, Check, integer
from secmon.config.xml import Element

NodeType = Literal["master", "worker"]

NO_NODE = "NODE_IP"  # placeholder in the file of a new installation
_PREFERENCE = 50


class StoreOfRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The PostgreSQL database that holds what the master owns, and says which node is master.

    ``url`` is libpq's, without a password. ``address`` is that of this node, for the others. Of the nodes that can take
    over, the one with the highest ``preference`` goes first.
    """

    url: str
    password_file: str = ""
    candidate: bool = True
    preference: int = _PREFERENCE
    address: str = ""


class ClusterSection(msgspec.Struct, frozen=True, kw_only=True):
    """Defaults are those of a key that is absent from a section that exists."""

    disabled: bool = False
    name: str = "secmon"
    node_name: str = "node01"
    node_type: NodeType = "master"
    key: str = ""
    port: int = 1516
    bind_addr: str = "0.0.0.0"
    nodes: list[str] = msgspec.field(default_factory=lambda: [NO_NODE])
    hidden: bool = False
    store: StoreOfRecord | None = None
    """With it ``node_type`` and ``nodes`` are those of the moment: the store of record decides."""
    master_port: int | None = None
    """Cluster port of a master that the store of record has named; None: ``port``, which all nodes have in common."""

    @property
    def is_worker(self) -> bool:
        """Whether the node follows a master; a disabled cluster makes it its own."""
        return not self.disabled and self.node_type == "worker"

    @property
    def searches_master(self) -> bool:
        """Whether the node asks the others who is master: it knows several addresses, and no store of record."""
        return self.is_worker and self.store is None and len(self.nodes) > 1

    @property
    def master(self) -> str:
        """Address of the master, or of the first node that may be it. Empty while the store of record names none."""
        return self.nodes[0] if self.nodes else ""

    def as_dict(self, *, reveal_key: bool = False) -> dict[str, Any]:
        """Shape of GET /cluster/local/config (cluster.md 6.1); the key is masked unless ``reveal_key``."""
        shown: dict[str, Any] = msgspec.to_builtins(self)
        del shown["store"], shown["master_port"]  # clients of the public API do not know them
        return shown | {"hidden": "yes" if self.hidden else "no", "key": self.key if reveal_key else MASK}


NAME = Check(
    lambda text: re.fullmatch(r"[!-'\-.0-9:<=>?A-Z\[\\\]^_`a-z{|}~]{1,256}", text) is not None,
    "1 to 256 letters, digits and ! \" # $ % & ' - . : < = > ? [ \\ ] ^ _ ` { | } ~, no spaces",
)
NODE_NAME = Check(
    # It is the common name in the node's certificate, of which X.509 allows 64 characters.
    lambda text: re.fullmatch(r"[A-Za-z0-9_-]{1,64}", text) is not None,
    "1 to 64 letters, digits, '_' and '-'",
)
_KEY = Check(
    lambda text: re.fullmatch(r"[A-Za-z0-9_]{32}", text) is not None, "exactly 32 letters, digits and underscores"
)
_NODE_TYPE = Check(lambda text: text in ("master", "worker", "client"), "master, worker")
_MASTER_ADDRESS = Check(
    lambda text: text.lower() not in ("localhost", "node_ip", "0.0.0.0", "127.0.1.1") and HOST.test(text),
    "the master's IP address or host name without port, and not localhost, NODE_IP, 0.0.0.0 or 127.0.1.1",
)
_CHECKS = {
    "disabled": BOOLEAN,
    "name": NAME,
    "node_name": NODE_NAME,
    "node_type": _NODE_TYPE,
    "port": integer(1025, 65534),
    "bind_addr": HOST,
    "hidden": BOOLEAN,
    "store": Check(lambda text: _store_url(text), "postgresql://USER@HOST[,HOST]/DATABASE, without a password"),
    "store_password_file": Check(lambda text: bool(text) and "\0" not in text, "a path, below the folder of the node"),
    "candidate": BOOLEAN,
    "preference": integer(0, 100),
    "address": HOST,
}
_ACCEPTED = {"key", "nodes", "socket_timeout", "connection_timeout"}


def _store_url(text: str) -> bool:
    if not text.startswith(("postgresql://", "postgres://")):
        return False
    from psycopg import ProgrammingError, conninfo  # not before: most nodes have no such store

    try:
        return "password" not in conninfo.conninfo_to_dict(text)
    except ProgrammingError:
        return False


def read_cluster(sections: list[Element], report: Report) -> ClusterSection:
    """The last of the sections, typed; none means a disabled cluster.

    Errors go to ``report``; the section returned then has defaults in their place and must not be used.
    Key and nodes are checked for an enabled cluster only, as a new installation has none yet.
    """
    if not sections:
        return ClusterSection(disabled=True)
    section = sections[-1]
    if len(sections) > 1:
        report.warn("cluster", f"{len(sections)} sections; only the last one counts", section)
    found: dict[str, str] = {}
    for option in section.children:
        name, value = option.name, (option.text or "").strip()
        check = _CHECKS.get(name)
        if check and not check.test(value):
            # A URL may hold a password, and messages reach the log.
            report.error("cluster", name, "this URL" if name == "store" else value, check.allowed, option)
        elif check or name == "key":
            found[name] = value
        elif name == "interval":
            report.warn("cluster", "interval is deprecated and ignored", option)
        elif name not in _ACCEPTED:
            report.error(
                "cluster", name, UNKNOWN, f"the options {', '.join(sorted(_CHECKS.keys() | _ACCEPTED))}", option
            )
    result = _typed(found, section)
    if not result.disabled:
        _check_enabled(result, section, report)
    return result


def _typed(found: dict[str, str], section: Element) -> ClusterSection:
    defaults = ClusterSection()
    lists = [option for option in section.children if option.name == "nodes"]
    nodes = [(node.text or "").strip() for nodes in lists for node in nodes.children if node.name == "node"]
    return ClusterSection(
        disabled=found.get("disabled") == "yes",
        name=found.get("name", defaults.name),
        node_name=found.get("node_name", defaults.node_name),
        node_type="worker" if found.get("node_type") in ("worker", "client") else "master",
        key=found.get("key", ""),
        port=int(found.get("port", defaults.port)),
        bind_addr=found.get("bind_addr", defaults.bind_addr),
        nodes=nodes or defaults.nodes,
        hidden=found.get("hidden") == "yes",
        store=_store(found),
    )


def _store(found: dict[str, str]) -> StoreOfRecord | None:
    if "store" not in found:
        return None
    return StoreOfRecord(
        url=found["store"],
        password_file=found.get("store_password_file", ""),
        candidate=found.get("candidate") != "no",
        preference=int(found.get("preference", _PREFERENCE)),
        address=found.get("address", ""),
    )


_OF_STORE = ("store_password_file", "candidate", "preference", "address")


def _check_enabled(cluster: ClusterSection, section: Element, report: Report) -> None:
    for option in section.children:
        if option.name in _OF_STORE and cluster.store is None:
            report.warn("cluster", f"{option.name} has no effect without store", option)
    for wrong in _wrong_link(cluster):
        report.error("cluster", wrong.key, wrong.value, wrong.allowed, section)
    if len(cluster.nodes) > 1 and cluster.store is None and not cluster.is_worker:
        report.warn("cluster", f"several nodes; {cluster.master} is taken as the master", section)


class WrongValue(NamedTuple):
    """An option with a value that is not allowed."""

    key: str
    value: str
    allowed: str


def wrong_values(cluster: ClusterSection) -> Iterator[WrongValue]:
    """What no file may hold, for sections that were not read from one."""
    for key in ("name", "node_name", "port", "bind_addr"):
        value = str(getattr(cluster, key))
        if not _CHECKS[key].test(value):
            yield WrongValue(key, value, _CHECKS[key].allowed)
    if not cluster.disabled:
        yield from _wrong_link(cluster)


def _wrong_link(cluster: ClusterSection) -> Iterator[WrongValue]:
    if not _KEY.test(cluster.key):
        # Messages never contain the key.
        yield WrongValue("key", f"a key of {len(cluster.key)} characters", _KEY.allowed)
    for node in cluster.nodes if cluster.store is None else ():
        if not _MASTER_ADDRESS.test(node):
            yield WrongValue("nodes.node", node, _MASTER_ADDRESS.allowed)
