"""What this process takes of the host's memory, processor and file descriptors."""

import resource
from collections.abc import Mapping

import psutil


def process_figures() -> Mapping[str, float]:
    """By name; times in seconds, ``started`` since 1970. Takes longer the more descriptors are open."""
    process = psutil.Process()
    with process.oneshot():
        cpu = process.cpu_times()
        return {
            "open_fds": process.num_fds(),
            "max_fds": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
            "resident_bytes": process.memory_info().rss,
            "threads": process.num_threads(),
            "cpu_seconds": cpu.user + cpu.system,
            "started": process.create_time(),
        }
