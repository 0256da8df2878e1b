"""The agent's handling of upgrade packages, in both dialects (agent-link.md 10.5)."""

import base64
import binascii
import re
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha1
from typing import Any

import msgspec

_NAME = re.compile(r"[A-Za-z0-9._-]{1,200}")
_TEXTS = {
    1: "Upgrade module is disabled or not ready yet",
    2: "Command not found",
    3: "Required parameters were not found",
    4: "Unsupported file mode",
    5: "Invalid file name",
    8: "No file opened",
    9: "The target file doesn't match the opened file",
    10: "Cannot write file",
    12: "Cannot generate SHA1",
    18: "Error executing command",
}
_OF_TEXT_DIALECT = ("open", "write", "close", "sha1", "upgrade", "upgrade_result")


class Refused(Exception):
    """An error of the table in agent-link.md 10.5."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(_TEXTS[number])


@dataclass
class Package:
    """A received file: its name, length and digest, without its bytes."""

    name: str
    length: int
    sha1: str


class _Request(msgspec.Struct):
    command: str
    parameters: dict[str, Any] = {}


class Packages:
    """The upgrade module of one agent.

    ``install`` is called with a package and its installer, ``cleared`` when the server clears a result.
    """

    def __init__(self, install: Callable[[Package, str], None], cleared: Callable[[], None]) -> None:
        self._install, self._cleared = install, cleared
        self._open: str | None = None
        self._digest = sha1(usedforsecurity=False)
        self._length = 0
        self.arrived: dict[str, Package] = {}
        self.result: int | None = None
        """0 or 2 after an upgrade, until the server has cleared it."""

    def restart(self) -> None:
        """The process has ended: open files are lost, the result is kept."""
        self._open = None

    def report(self) -> bytes:
        """The event with the result (agent-link.md 10.6)."""
        good = self.result == 0
        parameters = {
            "error": self.result,
            "message": "Upgrade was successful" if good else "Upgrade failed",
            "status": "Done" if good else "Failed",
        }
        body = {"command": "upgrade_update_status", "parameters": parameters}
        return b"u:upgrade_module:" + msgspec.json.encode(body)

    def json_request(self, payload: bytes) -> bytes:
        """Answer the target ``upgrade``."""
        try:
            request = msgspec.json.decode(payload, type=_Request)
        except msgspec.DecodeError:
            return _json_answer(3, _TEXTS[3])
        try:
            if request.command == "clear_upgrade_result":
                if self.result is not None:
                    self._cleared()
                self.result = None
                return _json_answer(0, "")
            if self.result is not None:
                raise Refused(1)
            return _json_answer(0, self._run(request.command, _Parameters(request.parameters)))
        except Refused as error:
            return _json_answer(error.number, str(error))

    def text_request(self, payload: bytes) -> bytes | None:
        """Answer the target ``com``; None for a command that is none of upgrades."""
        command, _, rest = payload.partition(b" ")
        name = command.decode("latin-1")
        if name not in _OF_TEXT_DIALECT:
            return None
        try:
            if name == "upgrade_result":
                return b"err Cannot read upgrade_result file." if self.result is None else b"ok %d" % self.result
            return b"ok " + self._run(name, _text_parameters(name, rest)).encode()
        except Refused as error:
            return f"err {error}".encode()

    def _run(self, command: str, parameters: "_Parameters") -> str:
        if command not in ("open", "write", "close", "sha1", "upgrade"):
            raise Refused(2)
        name = parameters.text("file")
        if not _NAME.fullmatch(name) or name.startswith("."):
            raise Refused(5)
        step: Callable[[str, _Parameters], str] = getattr(self, f"_{command}_file")
        return step(name, parameters)

    def _open_file(self, name: str, parameters: "_Parameters") -> str:
        if parameters.text("mode") not in ("w", "wb"):
            raise Refused(4)
        self._open, self._digest, self._length = name, sha1(usedforsecurity=False), 0
        self.arrived.pop(name, None)
        return ""

    def _write_file(self, name: str, parameters: "_Parameters") -> str:
        self._must_be_open(name)
        data = parameters.data()
        if len(data) != parameters.length():
            raise Refused(10)
        self._digest.update(data)
        self._length += len(data)
        return ""

    def _close_file(self, name: str, _: "_Parameters") -> str:
        self._must_be_open(name)
        self._open = None
        self.arrived[name] = Package(name, self._length, self._digest.hexdigest())
        return ""

    def _sha1_file(self, name: str, _: "_Parameters") -> str:
        if name not in self.arrived:
            raise Refused(12)
        return self.arrived[name].sha1

    def _upgrade_file(self, name: str, parameters: "_Parameters") -> str:
        if name not in self.arrived:
            raise Refused(18)
        self._install(self.arrived.pop(name), parameters.text("installer"))
        return "0"

    def _must_be_open(self, name: str) -> None:
        if self._open is None:
            raise Refused(8)
        if self._open != name:
            raise Refused(9)


class _Parameters:
    """Parameters of a command, from either dialect."""

    def __init__(self, values: dict[str, Any]) -> None:
        self._values = values

    def text(self, name: str) -> str:
        value = self._values.get(name)
        if not isinstance(value, str):
            raise Refused(3)
        return value

    def length(self) -> int:
        value = self._values.get("length")
        if not isinstance(value, int):
            raise Refused(3)
        return value

    def data(self) -> bytes:
        value = self._values.get("buffer")
        if isinstance(value, bytes):
            return value
        try:
            return base64.b64decode(self.text("buffer"), validate=True)
        except binascii.Error:
            raise Refused(10) from None


def _text_parameters(command: str, rest: bytes) -> _Parameters:
    """``open wb <name>``, ``write <n> <name> <bytes>``, ``upgrade <name> <installer>``, the others ``<name>``."""
    parts = rest.split(b" ", 2 if command == "write" else 1)
    words = [part.decode("latin-1") for part in parts[:2]]
    match command, parts:
        case "open", [_, _]:
            return _Parameters({"mode": words[0], "file": words[1]})
        case "write", [size, _, data] if size.isdigit():
            return _Parameters({"length": int(size), "file": words[1], "buffer": data})
        case "upgrade", [_, _]:
            return _Parameters({"file": words[0], "installer": words[1]})
        case (("close" | "sha1"), [_]):
            return _Parameters({"file": words[0]})
    raise Refused(3)


def _json_answer(number: int, text: str) -> bytes:
    return msgspec.json.encode({"error": number, "message": text, "data": []})
