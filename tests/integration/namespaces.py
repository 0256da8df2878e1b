"""Several hosts on one machine: network namespaces on two bridges, one for the cluster, one for its clients."""

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_SPACE = re.compile(r"sm(\d+)-\d+")
_BRIDGE = re.compile(r"sm[kc](\d+)")


def usable() -> bool:
    """Whether this process may make network namespaces."""
    if os.geteuid() != 0:
        return False
    probe = f"sm-probe-{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", probe], capture_output=True, check=False)
    if made.returncode == 0:
        subprocess.run(["ip", "netns", "del", probe], capture_output=True, check=False)
    return made.returncode == 0


def _ip(*arguments: str) -> str:
    return subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True).stdout


def _remove_abandoned() -> None:
    """Hosts and networks of test runs that were killed: their addresses would shadow ours."""

    def abandoned(listing: str, name: re.Pattern[str]) -> list[str]:
        found = {match[0]: match[1] for match in name.finditer(listing)}
        return [one for one, pid in found.items() if not Path(f"/proc/{pid}").exists()]

    for space in abandoned(_ip("netns", "list"), _SPACE):
        for pid in _ip("netns", "pids", space).split():
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        _ip("netns", "del", space)
    for bridge in abandoned(_ip("-brief", "link", "show", "type", "bridge"), _BRIDGE):
        _ip("link", "del", bridge)


class Hosts:
    """``count`` hosts; host ``n`` (from 1) is ``.n`` in both networks, this process is ``.254`` in the clients'."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._tag = f"{os.getpid()}"
        self.cluster_net, self.client_net = (f"10.{net}.{os.getpid() % 250}" for net in (87, 88))
        self.bridges = {self.cluster_net: f"smk{self._tag}", self.client_net: f"smc{self._tag}"}

    def namespace(self, number: int) -> str:
        return f"sm{self._tag}-{number}"

    def cluster_address(self, number: int) -> str:
        return f"{self.cluster_net}.{number}"

    def client_address(self, number: int) -> str:
        return f"{self.client_net}.{number}"

    def prefix(self, number: int) -> list[str]:
        """What runs a command on host ``number``."""
        return ["ip", "netns", "exec", self.namespace(number)]

    def cut(self, number: int, *, cut: bool = True) -> None:
        """Drop every packet between host ``number`` and the cluster, silently; clients still reach it."""
        _ip("link", "set", self._port(self.cluster_net, number), "down" if cut else "up")

    def separate(self, *numbers: int, cut: bool = True) -> None:
        """Drop every packet between these hosts in the cluster, silently; all others still reach them. One pair."""
        for number in numbers:
            state = "on" if cut else "off"
            _ip("link", "set", self._port(self.cluster_net, number), "type", "bridge_slave", "isolated", state)

    def make(self) -> None:
        for net, bridge in self.bridges.items():
            _ip("link", "add", bridge, "type", "bridge")
            _ip("link", "set", bridge, "up")
            if net == self.client_net:
                _ip("addr", "add", f"{net}.254/24", "dev", bridge)
        for number in range(1, self.count + 1):
            _ip("netns", "add", self.namespace(number))
            _ip("-n", self.namespace(number), "link", "set", "lo", "up")
            for index, (net, bridge) in enumerate(self.bridges.items()):
                self._connect(net, bridge, number, f"eth{index}")

    def _connect(self, net: str, bridge: str, number: int, inside: str) -> None:
        port, space = self._port(net, number), self.namespace(number)
        _ip("link", "add", port, "type", "veth", "peer", "name", inside, "netns", space)
        _ip("link", "set", port, "master", bridge, "up")
        _ip("-n", space, "addr", "add", f"{net}.{number}/24", "dev", inside)
        _ip("-n", space, "link", "set", inside, "up")

    def _port(self, net: str, number: int) -> str:
        return f"{self.bridges[net]}p{number}"

    def remove(self) -> None:
        for number in range(1, self.count + 1):
            subprocess.run(["ip", "netns", "del", self.namespace(number)], capture_output=True, check=False)
        for bridge in self.bridges.values():
            subprocess.run(["ip", "link", "del", bridge], capture_output=True, check=False)


@contextmanager
def hosts(count: int) -> Iterator[Hosts]:
    """Hosts that vanish at the end."""
    _remove_abandoned()
    made = Hosts(count)
    try:
        made.make()
        yield made
    finally:
        made.remove()
