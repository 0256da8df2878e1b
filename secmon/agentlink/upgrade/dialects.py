"""The two dialects in which agents take packages (agent-link.md 10.5): requests and answers as bytes."""

import base64
from abc import ABC, abstractmethod
from typing import Any

import msgspec

from secmon.agents.upgrade_targets import REPORT_SINCE
from secmon.agents.wire.version import compare

LOCK = ("com", b"lock_restart -1")
CLEAR = ("upgrade", b'{"command":"clear_upgrade_result","parameters":{}}')


class AgentRefused(Exception):
    """The agent, or the link to it, answers with an error; the text is that of the answer."""


class Dialect(ABC):
    """Requests for the component ``target``; file names have no folder."""

    target: str

    @abstractmethod
    def open(self, file: str) -> bytes: ...

    @abstractmethod
    def write(self, file: str, chunk: bytes) -> bytes: ...

    @abstractmethod
    def close(self, file: str) -> bytes: ...

    @abstractmethod
    def sha1(self, file: str) -> bytes: ...

    @abstractmethod
    def upgrade(self, file: str, installer: str) -> bytes: ...

    @abstractmethod
    def data(self, answer: bytes) -> str:
        """The data of an answer. Raises AgentRefused."""


class TextDialect(Dialect):
    """Of agents before 4.1."""

    target = "com"

    def open(self, file: str) -> bytes:
        return f"open wb {file}".encode()

    def write(self, file: str, chunk: bytes) -> bytes:
        return f"write {len(chunk)} {file} ".encode() + chunk

    def close(self, file: str) -> bytes:
        return f"close {file}".encode()

    def sha1(self, file: str) -> bytes:
        return f"sha1 {file}".encode()

    def upgrade(self, file: str, installer: str) -> bytes:
        return f"upgrade {file} {installer}".encode()

    def data(self, answer: bytes) -> str:
        return text_data(answer)


class _Answer(msgspec.Struct):
    error: int
    message: str = ""


class JsonDialect(Dialect):
    """Of agents since 4.1."""

    target = "upgrade"

    def open(self, file: str) -> bytes:
        return _request("open", mode="wb", file=file)

    def write(self, file: str, chunk: bytes) -> bytes:
        return _request("write", buffer=base64.b64encode(chunk).decode(), length=len(chunk), file=file)

    def close(self, file: str) -> bytes:
        return _request("close", file=file)

    def sha1(self, file: str) -> bytes:
        return _request("sha1", file=file)

    def upgrade(self, file: str, installer: str) -> bytes:
        return _request("upgrade", file=file, installer=installer)

    def data(self, answer: bytes) -> str:
        try:
            found = msgspec.json.decode(answer.rstrip(b"\0"), type=_Answer)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise AgentRefused(_error_text(answer)) from None
        if found.error:
            raise AgentRefused(found.message or f"error {found.error}")
        return found.message


def dialect_of(version: str | None) -> Dialect:
    """The dialect of agents of ``version``, the one that they have before the upgrade."""
    return JsonDialect() if compare(version, REPORT_SINCE) >= 0 else TextDialect()


def text_data(answer: bytes) -> str:
    """The text after ``ok``. Raises AgentRefused."""
    text = answer.rstrip(b"\0").decode("utf-8", "replace")
    word, _, rest = text.partition(" ")
    if word != "ok":
        raise AgentRefused(_error_text(answer))
    return rest.strip()


def _request(command: str, **parameters: Any) -> bytes:
    return msgspec.json.encode({"command": command, "parameters": parameters})


def _error_text(answer: bytes) -> str:
    return answer[:200].decode("utf-8", "replace").removeprefix("err ").rstrip("\0") or "empty answer"
