"""The ``agent-upgrade`` and ``task-manager`` sections of the main configuration (agent-link.md 10.1)."""

import os
from typing import Any

from msgspec import Struct

from secmon.config.main import MainConfig
from secmon.config.validation import TASK_TIMEOUT

CHUNK_SIZE = 16_384
"""Bytes: far fewer turns than with the 512 of other managers, and still few datagrams where agents use UDP."""


class UpgradeSettings(Struct, frozen=True, kw_only=True):
    """How agents are upgraded. ``repository``: address or folder; empty: the node's own folder of packages."""

    enabled: bool = True
    repository: str = ""
    chunk_size: int = CHUNK_SIZE
    max_threads: int = 8

    @property
    def at_once(self) -> int:
        """Upgrades at the same time."""
        return self.max_threads or os.cpu_count() or 1

    def active_configuration(self) -> dict[str, Any]:
        """As the active configuration shows it (manager.md 7.4)."""
        shown: dict[str, Any] = {
            "enabled": "yes" if self.enabled else "no",
            "max_threads": self.max_threads,
            "chunk_size": self.chunk_size,
        }
        return shown | ({"wpk_repository": self.repository} if self.repository else {})


class TaskSettings(Struct, frozen=True, kw_only=True):
    """How long tasks may run, and are kept; seconds."""

    task_timeout: int = TASK_TIMEOUT
    cleanup_time: int = 7 * 86_400


def read_upgrades(config: MainConfig) -> UpgradeSettings:
    """The section's values; what is not set, or not valid, has its default."""
    base = UpgradeSettings()
    chunk = config.integer("agent-upgrade", "chunk_size", default=base.chunk_size)
    return UpgradeSettings(
        enabled=config.flag("agent-upgrade", "enabled", default=base.enabled),
        repository=config.text("agent-upgrade", "wpk_repository"),
        chunk_size=chunk if 64 <= chunk <= 32_768 else base.chunk_size,
        max_threads=min(256, config.integer("agent-upgrade", "max_threads", default=base.max_threads)),
    )


def read_tasks(config: MainConfig) -> TaskSettings:
    """The section's values; what is not set, or not valid, has its default."""
    base = TaskSettings()
    timeout = config.seconds("task-manager", "task_timeout", default=base.task_timeout) or base.task_timeout
    cleanup = config.seconds("task-manager", "cleanup_time", default=base.cleanup_time)
    return TaskSettings(task_timeout=timeout, cleanup_time=max(timeout, cleanup))
