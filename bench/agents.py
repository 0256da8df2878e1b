"""Agents for benchmarks: fleets in a separate process, controlled by lines of JSON."""

import asyncio
import json
import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil
import uvloop

from secmon.simulator import Fleet, Options, Server, Timing

_FILES = 200_000


class Agents:
    """A fleet in another process. Use it as a context manager; one fleet at a time."""

    def __init__(self, servers: Sequence[Server], keys: Path) -> None:
        """``keys`` is the folder that keeps the agents' keys from one fleet to the next."""
        self._keys = keys
        self._given = [(server.host, server.port, server.enrolment_port) for server in servers]
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> "Agents":
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.agents"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._running.communicate()  # it ends with its input

    def start(self, agents: int, **options: Any) -> None:
        """Start a fleet; ``options`` are those of the fleet, ``timing`` as a mapping."""
        self._ask(do="start", servers=self._given, keys=str(self._keys), agents=agents, options=options)

    def wait(self, counter: str, least: int, *, seconds: float = 600) -> float:
        """Wait until the counter has at least this value; the seconds it took. RuntimeError on a time-out."""
        return float(self._ask(do="wait", counter=counter, least=least, seconds=seconds))

    def wait_for_sum(self, merged_sum: str, least: int, *, seconds: float = 600) -> float:
        """Wait until this number of connected agents reports the group file with this sum."""
        return float(self._ask(do="wait_for_sum", sum=merged_sum, least=least, seconds=seconds))

    def counters(self) -> dict[str, int]:
        found: dict[str, int] = self._ask(do="counters")
        return found

    def set_rate(self, events_per_second: float) -> None:
        """Let each agent send this number of events."""
        self._ask(do="rate", rate=events_per_second)

    def stop(self) -> None:
        """End the fleet; its keys are kept."""
        self._ask(do="stop")

    def cpu(self) -> float:
        """Seconds of processor time of the process so far."""
        return float(sum(psutil.Process(self._running.pid).cpu_times()[:2]))

    @property
    def _running(self) -> "subprocess.Popen[str]":
        if self._process is None:
            raise RuntimeError("the agents' process has not been started")
        return self._process

    def _ask(self, **order: Any) -> Any:
        write, read = self._running.stdin, self._running.stdout
        assert write is not None
        assert read is not None
        write.write(json.dumps(order) + "\n")
        write.flush()
        line = read.readline()
        if not line:
            raise RuntimeError("the agents' process has ended")
        answer = json.loads(line)
        if "error" in answer:
            raise RuntimeError(f"agents: {answer['error']}")
        return answer["value"]


class _Child:
    """Executes the commands in the other process."""

    def __init__(self) -> None:
        self._fleet: Fleet | None = None

    async def carry_out(self, order: dict[str, Any]) -> Any:
        loop = asyncio.get_running_loop()
        began = loop.time()
        if order["do"] == "start":
            timing = Timing(**order["options"].pop("timing", {}))
            options = Options(timing=timing, **{name: _frozen(value) for name, value in order["options"].items()})
            servers = [Server(*one) for one in order["servers"]]
            self._fleet = Fleet(servers, order["agents"], options=options, keys=Path(order["keys"]))
            await self._fleet.start()
            return None
        fleet = self._fleet
        assert fleet is not None
        least, seconds = order.get("least", 0), order.get("seconds", 0.0)
        match order["do"]:
            case "wait":
                await fleet.until(lambda counters: getattr(counters, order["counter"]) >= least, seconds=seconds)
                return loop.time() - began
            case "wait_for_sum":
                await fleet.until(lambda _: fleet.sums[order["sum"]] >= least, seconds=seconds)
                return loop.time() - began
            case "counters":
                return fleet.counters.as_dict()
            case "rate":
                return fleet.set_rate(order["rate"])
        await fleet.stop(send_shutdown=False)
        return None


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


async def _serve() -> None:
    loop, child = asyncio.get_running_loop(), _Child()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        try:
            answer = {"value": await child.carry_out(json.loads(line))}
        except (TimeoutError, OSError, ValueError) as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(_FILES, hard), hard))
    uvloop.run(_serve())
