"""Statistics, the table, the JSON, and clients with little overhead, for all figures."""

import asyncio
import json
import math
import os
import platform
import select
import socket
import ssl
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import uvloop

from secmon.common.clock import SystemClock

RESULTS = Path(__file__).parent / "results"
_COLUMNS = ("figure", "value", "unit", "p10..p90", "n", "floor", "ratio", "aim", "")


@dataclass(frozen=True, kw_only=True)
class Aim:
    """A bound on a figure's ratio, or on its value."""

    bound: float
    of: str = "ratio"
    least: bool = False
    """Whether more is better."""

    def text(self, unit: str) -> str:
        sign = ">=" if self.least else "<"
        return f"{sign} {self.bound:g}" + ("x" if self.of == "ratio" else f" {unit}")

    def met(self, value: float) -> bool:
        return value >= self.bound if self.least else value < self.bound


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One line of the table. ``value`` and ``floor`` are in ``unit``; their quotient is the ratio."""

    name: str
    value: float
    unit: str
    samples: int = 1
    spread: tuple[float, float] | None = None
    """10th and 90th percentile."""
    floor: float | None = None
    floor_is: str = ""
    aim: Aim | None = None

    @property
    def ratio(self) -> float | None:
        return self.value / self.floor if self.floor else None

    @property
    def met(self) -> bool | None:
        """Whether the aim is reached; None without one."""
        measured = self.ratio if self.aim and self.aim.of == "ratio" else self.value
        return None if self.aim is None or measured is None else self.aim.met(measured)

    def row(self) -> tuple[str, ...]:
        met = {True: "met", False: "MISSED", None: ""}[self.met]
        return (
            self.name,
            _short(self.value),
            self.unit,
            f"{_short(self.spread[0])}..{_short(self.spread[1])}" if self.spread else "",
            str(self.samples),
            f"{_short(self.floor)} ({self.floor_is})" if self.floor is not None else self.floor_is,
            f"{self.ratio:.2f}" if self.ratio is not None else "",
            self.aim.text(self.unit) if self.aim else "",
            met,
        )

    def document(self) -> dict[str, Any]:
        fields: dict[str, Any] = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "aim"}
        return {**fields, "ratio": self.ratio, "aim": self.aim.text(self.unit) if self.aim else None, "met": self.met}


def median_figure(name: str, samples: Sequence[float], unit: str, **options: Any) -> Figure:
    """A figure from repeated measurements: their median and spread."""
    return Figure(
        name=name,
        value=statistics.median(samples),
        unit=unit,
        samples=len(samples),
        spread=(quantile(samples, 0.1), quantile(samples, 0.9)),
        **options,
    )


def quantile(samples: Sequence[float], share: float) -> float:
    """The smallest sample that at least ``share`` of all samples do not exceed."""
    ordered = sorted(samples)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def table(figures: Sequence[Figure]) -> str:
    """Aligned columns, one figure a line."""
    rows = [_COLUMNS, *(figure.row() for figure in figures)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS))]
    right = {1, 4, 6}
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if n in right else cell.ljust(width)
            for n, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def write_results(figures: Sequence[Figure], *, quick: bool, load_before: float) -> Path:
    """One JSON file of a run, with the load of the machine before and after it, by which its figures are judged."""
    now = SystemClock().now()
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{now:%Y%m%dT%H%M%SZ}.json"
    document = {
        "time": now.isoformat(),
        "quick": quick,
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "load": [load_before, os.getloadavg()[0]],
        "figures": [figure.document() for figure in figures],
    }
    path.write_text(json.dumps(document, indent=1) + "\n")
    return path


def _short(number: float) -> str:
    """Three significant digits, or all of a large number."""
    if abs(number) >= 100:
        return f"{number:.0f}"
    return f"{number:.3g}"


# Clients


def trusting() -> ssl.SSLContext:
    """A TLS client that accepts any certificate: the nodes have self-signed ones."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def request(method: str, path: str, headers: dict[str, str], body: bytes = b"") -> bytes:
    """The bytes of an HTTP/1.1 request; a body is JSON unless ``headers`` say otherwise."""
    if body:
        headers = {"Content-Type": "application/json", **headers, "Content-Length": str(len(body))}
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode() + body


class Answer(NamedTuple):
    """Status, header block and body of a response."""

    status: int
    head: str
    body: bytes

    def header(self, name: str) -> str:
        """Value of the first header called ``name``; empty when there is none."""
        for line in self.head.split("\r\n")[1:]:
            key, _, value = line.partition(":")
            if key.lower() == name.lower():
                return value.strip()
        return ""


class Client:
    """One connection, one request at a time; blocking, so that only the server is measured."""

    def __init__(self, port: int, *, timeout: float = 60) -> None:
        self._port, self._timeout = port, timeout
        self._connect()

    def _connect(self) -> None:
        plain = socket.create_connection(("127.0.0.1", self._port), self._timeout)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = trusting().wrap_socket(plain)
        self._file = self._socket.makefile("rb")

    def renew(self) -> None:
        """Connect again if the server has closed the connection, as it does with idle ones."""
        if select.select([self._socket], [], [], 0)[0]:
            self.__exit__()
            self._connect()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._socket.close()

    def ask(self, message: bytes) -> Answer:
        """Send a request and read its response. ``ConnectionError`` when the server closed."""
        self._socket.sendall(message)
        lines = []
        while (line := self._file.readline()) not in (b"\r\n", b""):
            lines.append(line)
        if not lines:
            raise ConnectionError("closed by the server")
        head = b"".join(lines).decode("latin-1")
        answer = Answer(int(head.split(" ", 2)[1]), head, b"")
        return answer._replace(body=self._file.read(int(answer.header("content-length") or 0)))

    def timed(self, message: bytes) -> float:
        """Milliseconds until the response is read. ``RuntimeError`` for any status but 200."""
        self.renew()
        start = time.perf_counter()
        answer = self.ask(message)
        taken = (time.perf_counter() - start) * 1000
        if answer.status != 200:
            raise RuntimeError(f"{answer.head}{answer.body!r}")
        return taken


class Load(NamedTuple):
    """What a server did under load: requests a second, and milliseconds each request took."""

    rate: float
    taken: list[float]


def load(port: int, message: bytes, *, connections: int, seconds: float) -> Load:
    """Repeat the same request on ``connections`` connections, counted from when all are open."""
    return uvloop.run(_load(port, message, connections, seconds))


async def _load(port: int, message: bytes, connections: int, seconds: float) -> Load:
    context = trusting()
    streams = [await asyncio.open_connection("127.0.0.1", port, ssl=context) for _ in range(connections)]
    taken: list[float] = []
    start = asyncio.get_running_loop().time()
    await asyncio.gather(*(_client(*stream, message, start + seconds, taken) for stream in streams))
    return Load(len(taken) / (asyncio.get_running_loop().time() - start), taken)


async def _client(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, message: bytes, until: float, taken: list[float]
) -> None:
    loop = asyncio.get_running_loop()
    while loop.time() < until:
        start = time.perf_counter()  # the loop's own clock does not advance within a turn
        writer.write(message)
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(head.decode("latin-1"))
        await reader.readexactly(int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]))
        taken.append((time.perf_counter() - start) * 1000)
    writer.close()
