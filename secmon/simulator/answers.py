"""Answers of an agent to requests of the server (agent-link.md 8.3, manager.md 7.4)."""

from collections.abc import Callable
from datetime import datetime
from typing import Any, Protocol

import msgspec

from secmon.simulator.activity import Activity
from secmon.simulator.dialect import Dialect
from secmon.simulator.fleet_state import FleetState
from secmon.simulator.packages import Packages
from secmon.simulator.profiles import Profile
from secmon.simulator.server_choice import ServerChoice

_NO_SECTION = b"err Could not get requested section"
_UNKNOWN = b"err Unrecognized command"
_ABSENT = b"err No such file or directory"
_COMPONENTS = ("agent", "logcollector", "syscheck", "wmodules", "com", "upgrade")


class RequestedAgent(Protocol):
    """The agent that the requests are for."""

    fleet: FleetState
    profile: Profile
    dialect: Dialect
    packages: Packages
    activity: Activity
    server_choice: ServerChoice

    @property
    def connected(self) -> bool: ...
    def now(self) -> datetime: ...
    def restart(self) -> None: ...
    def lock(self, seconds: float) -> None:
        """Postpone automatic restarts; -1: for the longest time."""


class RequestHandler:
    """Answers one agent's requests."""

    def __init__(self, agent: RequestedAgent) -> None:
        self._agent = agent

    def answer(self, target: str, payload: bytes) -> bytes:
        """The answer to one request; every request has one."""
        if target not in _COMPONENTS or (target == "upgrade" and not self._agent.dialect.upgrade_module):
            return _NO_SECTION if self._agent.profile.family == "windows" else _ABSENT
        if target == "upgrade":
            return self._agent.packages.json_request(payload)
        if target == "com":
            # Packages first: their content is not text.
            taken = None if self._agent.dialect.upgrade_module else self._agent.packages.text_request(payload)
            if taken is not None:
                return taken
        command, _, argument = payload.decode("utf-8", "replace").partition(" ")
        if command == "getconfig" and self._agent.dialect.getconfig:
            return self._getconfig(target, argument)
        if command == "getstate" and self._agent.dialect.getstate:
            return self._getstate(target)
        if target == "com":
            return self._com(command, argument)
        if target == "syscheck" and command == "restart":
            return b"ok "
        return _UNKNOWN

    def _getconfig(self, target: str, name: str) -> bytes:
        if not name:
            return f"err {target.upper()} getconfig needs arguments".encode()
        found = self._configuration(target).get(name)
        if found is None:
            return _NO_SECTION
        # The execution daemon writes two spaces.
        return (b"ok  " if target == "com" else b"ok ") + msgspec.json.encode(found)

    def _getstate(self, target: str) -> bytes:
        if target not in ("agent", "logcollector"):
            return _UNKNOWN
        activity = self._agent.activity
        if target == "agent":
            data = activity.agent(connected=self._agent.connected)
        else:
            data = activity.logcollector(self._agent.now())
        return msgspec.json.encode({"error": 0, "data": data})

    def _com(self, command: str, argument: str) -> bytes:
        if command == "lock_restart":
            try:
                seconds = int(argument)
            except ValueError:
                return b"err Invalid timeout"
            if seconds < -1:
                return b"err Invalid timeout"
            self._agent.lock(seconds)
            return b"ok "
        if command in ("restart", "restart-wazuh"):
            self._agent.fleet.loop.call_soon(self._agent.restart)  # the answer goes first
            return b"ok "
        return _UNKNOWN

    def _configuration(self, target: str) -> dict[str, Any]:
        tables: dict[str, Callable[[], dict[str, Any]]] = {
            "agent": self._connection,
            "logcollector": self._logcollector,
            "syscheck": self._syscheck,
            "wmodules": self._modules,
            "com": self._execution,
        }
        return tables[target]()

    def _connection(self) -> dict[str, Any]:
        server = {
            "address": self._agent.server_choice.server.host,
            "port": self._agent.server_choice.server.port,
            "max_retries": 5,
            "retry_interval": 10,
            "protocol": self._agent.server_choice.server.transport,
        }
        client = {
            "config-profile": f"{self._agent.profile.family}, simulated",
            "notify_time": 10,
            "time-reconnect": 60,
            "force_reconnect_interval": 0,
            "ip_update_interval": 0,
            "auto_restart": "yes",
            "remote_conf": "yes",
            "crypto_method": "aes" if self._agent.dialect.aes else "blowfish",
            "server": [server],
        }
        labels = [
            {"value": value, "key": key.removeprefix("!"), "hidden": "yes" if key.startswith("!") else "no"}
            for key, value in self._agent.fleet.options.labels.items()
        ]
        internal = {"debug": 0, "warn_level": 90, "normal_level": 70, "tolerance": 15, "recv_timeout": 60}
        return {
            "client": {"client": client},
            "buffer": {"buffer": {"disabled": "no", "queue_size": 5000, "events_per_second": 500}},
            "labels": {"labels": labels},
            "internal": {"internal": {"agent": internal}},
        }

    def _logcollector(self) -> dict[str, Any]:
        if self._agent.profile.family == "windows":
            files = [{"file": "Security", "logformat": "eventchannel", "target": ["agent"]}]
        else:
            files = [
                {"file": name, "logformat": "syslog", "target": ["agent"]}
                for name in ("/var/log/auth.log", "/var/log/syslog")
            ]
        return {
            "localfile": {"localfile": files},
            "socket": {"target": [{"name": "agent", "location": "agent", "mode": "udp"}]},
            "internal": {"internal": {"logcollector": {"remote_commands": 0, "loop_timeout": 2, "max_files": 1000}}},
        }

    def _syscheck(self) -> dict[str, Any]:
        options = ["check_md5sum", "check_sha1sum", "check_perm", "check_size", "check_owner", "check_mtime"]
        top = "c:\\programdata" if self._agent.profile.family == "windows" else "/etc"
        directories = [{"opts": options, "dir": top, "recursion_level": 256, "diff_size_limit": 51200}]
        return {
            "syscheck": {
                "syscheck": {"disabled": "no", "frequency": 43200, "scan_on_start": "yes", "directories": directories}
            },
            "rootcheck": {"rootcheck": {"disabled": "no", "scanall": "no", "frequency": 43200, "check_files": "yes"}},
            "internal": {"internal": {"syscheck": {"rt_delay": 5, "debug": 0}, "rootcheck": {"sleep": 50}}},
        }

    def _modules(self) -> dict[str, Any]:
        inventory = {"disabled": "no", "scan-on-start": "yes", "interval": 3600, "os": "yes", "packages": "yes"}
        return {
            "wmodules": {"wmodules": [{"syscollector": inventory}, {"agent-upgrade": {"enabled": "yes"}}]},
            "internal_options": {"internal": {"wazuh_modules": {"task_nice": 10, "max_eps": 100, "debug": 0}}},
        }

    def _execution(self) -> dict[str, Any]:
        return {
            "active-response": {"active-response": {"disabled": "no", "repeated_offenders": []}},
            "logging": {"logging": {"plain": "yes", "json": "no"}},
            "internal": {"internal": {"execd": {"request_timeout": 60, "max_restart_lock": 600}}},
            "cluster": {"cluster": {}},
        }
