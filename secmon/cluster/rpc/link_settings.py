"""Settings of the cluster link, from the configuration, in units that the code uses."""

from dataclasses import dataclass, field, replace
from datetime import timedelta

from secmon.config.cluster import ClusterSection
from secmon.config.options import InternalOptions

RETRANSMISSION_ROUND_TRIPS = 15
"""Round trips until TCP has sent a segment again that is lost three times in a row: 2 for the probe of its tail
(RFC 8985), then 4 and 8 for retransmission time-outs that double (RFC 6298), and the way."""


@dataclass(frozen=True, kw_only=True)
class LinkSettings:
    """Settings of one node's cluster link.

    ``addresses``: of nodes that may be the master, if it is not known which one is. ``address``: of this node for the
    others; empty: the one that it connects from. ``port`` and ``enrol_port`` are the master's. ``listen_port`` is this
    node's own cluster port; 0 takes a free one.
    ``max_messages_per_second`` is what a worker may send on its Join stream: heartbeats are a few, acknowledgements as
    many as there are changes.
    The key never shows in a representation.
    """

    node_name: str
    cluster_name: str
    key: bytes = field(repr=False)
    master: str
    addresses: tuple[str, ...] = ()
    bind_addr: str = "0.0.0.0"
    address: str = ""
    port: int = 1516
    enrol_port: int = 1517
    listen_port: int = 1516
    heartbeat_seconds: float = 1.0
    heartbeat_misses: int = 3
    reconnect_min_seconds: float = 0.2
    reconnect_max_seconds: float = 10.0
    join_timeout_seconds: float = 30.0
    lease_seconds: float = 30.0
    max_clock_skew_seconds: float = 60.0
    certificate_life: timedelta = timedelta(days=90)
    forget_after: timedelta = timedelta(hours=24)
    max_messages_per_second: int = 1000

    @property
    def silence_seconds(self) -> float:
        """Silence after which the other side is considered lost, on a link without delay."""
        return self.heartbeat_seconds * self.heartbeat_misses

    def delay_seconds(self, round_trip: float) -> float:
        """How much later than usual a heartbeat may come on a link of this ``round_trip`` (seconds).

        At most half of the lease: a worker that hears nothing looks for another connection before its lease ends.
        """
        return min(RETRANSMISSION_ROUND_TRIPS * round_trip, self.lease_seconds / 2)

    def at(self, master: str, port: int) -> "LinkSettings":
        """The same with the master elsewhere."""
        return replace(self, master=master, port=port, enrol_port=self.enrol_port + port - self.port)

    @classmethod
    def of(cls, cluster: ClusterSection, options: InternalOptions) -> "LinkSettings":
        """The settings that the configuration of a node spells out."""
        listen, enrol = options.get("clusterd.peer_port"), options.get("clusterd.enrol_port")
        port = cluster.master_port or cluster.port
        return cls(
            node_name=cluster.node_name,
            cluster_name=cluster.name,
            key=cluster.key.encode(),
            master=cluster.master,
            addresses=tuple(cluster.nodes) if cluster.searches_master else (),
            bind_addr=cluster.bind_addr,
            address=cluster.store.address if cluster.store else "",
            port=port,
            enrol_port=port + 1 if enrol == -1 else enrol,
            listen_port=cluster.port if listen == -1 else listen,
            heartbeat_seconds=options.get("clusterd.heartbeat_ms") / 1000,
            heartbeat_misses=options.get("clusterd.heartbeat_misses"),
            reconnect_min_seconds=options.get("clusterd.reconnect_min_ms") / 1000,
            reconnect_max_seconds=options.get("clusterd.reconnect_max_ms") / 1000,
            lease_seconds=options.get("clusterd.security_lease"),
            max_clock_skew_seconds=options.get("clusterd.max_clock_skew"),
            certificate_life=timedelta(days=options.get("clusterd.certificate_days")),
            forget_after=timedelta(hours=options.get("clusterd.forget_after_hours")),
        )
