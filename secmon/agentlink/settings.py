"""Settings of the link, from the configuration of the node."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from secmon.config.agent_versions import HIGHEST_AGENT, highest_agent
from secmon.config.main import MainConfig
from secmon.config.options import InternalOptions
from secmon.config.remote import QUEUE_SIZE, RemoteBlock

PREFIX = "remoted."


class LinkSettings(Struct, frozen=True, kw_only=True):
    """Times in seconds, sizes in bytes."""

    blocks: Sequence[RemoteBlock] = ()
    highest_agent: str = HIGHEST_AGENT
    """Version of agents, where the section does not allow higher ones."""
    silent_seconds: float = 600.0
    """Nothing is sent to an agent that was silent for longer."""
    verify_counters: bool = False
    counters_every: int = 128
    senders: int = 8
    read_chunk: int = 4096
    send_limit: int = 131_072
    retry_seconds: float = 1.0
    tcp_keepalive: tuple[int, int, int] = (30, 10, 3)
    files: int = 458_752
    request_pool: int = 1024
    request_turn_seconds: float = 10.0
    answer_seconds: float = 60.0
    repeat_seconds: float = 1.0
    attempts: int = 4
    counts_sweep_seconds: float = 5.0
    events_limit: int = 256 << 20
    """Bytes of the journal."""
    hold_seconds: float = 20.0
    """Longest hold of a connection that brings too many events."""
    unauthenticated_limit: int = 2048
    """Connections that have not authenticated."""
    unauthenticated_seconds: float = 60.0
    """Time in which a connection must authenticate."""

    @property
    def secure(self) -> RemoteBlock | None:
        """The section for agents; None without one."""
        return next((block for block in self.blocks if block.secure), None)

    @property
    def highest_version(self) -> str | None:
        """Of agents that may connect; None: any."""
        return None if self.secure is not None and self.secure.allow_higher_versions else self.highest_agent

    @property
    def queue_size(self) -> int:
        return self.secure.queue_size if self.secure else QUEUE_SIZE


def link_settings(blocks: Sequence[RemoteBlock], main: MainConfig, options: InternalOptions) -> LinkSettings:
    """The settings of a node."""

    def option(name: str) -> int:
        return options.get(PREFIX + name)

    return LinkSettings(
        blocks=blocks,
        highest_agent=highest_agent(main),
        silent_seconds=main.seconds("global", "agents_disconnection_time", default=600),
        verify_counters=bool(option("verify_msg_id")),
        counters_every=option("recv_counter_flush"),
        senders=option("sender_pool"),
        read_chunk=option("receive_chunk"),
        send_limit=option("send_buffer_size"),
        retry_seconds=option("send_timeout_to_retry"),
        tcp_keepalive=(option("tcp_keepidle"), option("tcp_keepintvl"), option("tcp_keepcnt")),
        files=option("rlimit_nofile"),
        request_pool=option("request_pool"),
        request_turn_seconds=option("request_timeout"),
        answer_seconds=option("response_timeout"),
        repeat_seconds=option("request_rto_sec") + option("request_rto_msec") / 1000 or 0.1,
        attempts=option("max_attempts"),
        counts_sweep_seconds=option("state_interval"),
        events_limit=option("events_mb") << 20,
        hold_seconds=option("hold_seconds"),
    )


_ACTIVE_OPTIONS = (
    *("recv_counter_flush", "comp_average_printout", "verify_msg_id", "recv_timeout", "pass_empty_keyfile"),
    *("sender_pool", "request_pool", "request_rto_sec", "request_rto_msec", "max_attempts", "request_timeout"),
    *("response_timeout", "shared_reload", "disk_storage", "rlimit_nofile", "merge_shared", "guess_agent_group"),
    *("receive_chunk", "send_chunk", "buffer_relax", "send_buffer_size", "send_timeout_to_retry"),
    *("tcp_keepidle", "tcp_keepintvl", "tcp_keepcnt"),
)


def active_config(settings: LinkSettings, main: MainConfig, options: InternalOptions) -> Mapping[str, Any]:
    """The active configuration by section (manager.md 7, component request)."""
    times = ("agents_disconnection_alert_time", 0), ("agents_disconnection_time", 600)
    return {
        "remote": [block.active_configuration() for block in settings.blocks],
        "internal": {"remoted": {name: options.get(PREFIX + name) for name in _ACTIVE_OPTIONS}},
        "global": {"remoted": {name: main.seconds("global", name, default=default) for name, default in times}},
    }
