"""Answers of agents' components to requests (agent-link.md 8.2 to 8.4, manager.md 7.3)."""

from typing import Any

import msgspec

from secmon.common.errors import SecmonError

GETCONFIG_SINCE = "v3.7.0"
GETSTATE_SINCE = "v4.2.0"

_UNREACHABLE = (
    *("No such file or directory", "Connection refused", "Cannot send request", "Response timeout"),
    *("Maximum attempts exceeded", "Internal error", "Too many requests", "Send data", "Receive data"),
    *("Empty response", "Maximum buffer length reached", "Disconnected"),
)
"""Texts of the link and of agents for a component that was not reached or did not answer."""


class _State(msgspec.Struct):
    error: int
    data: dict[str, Any] = {}
    message: str = ""


def configuration(answer: bytes) -> Any:
    """The object after ``ok``. Raises 1116 (no such configuration), 1117 (no answer of the component), 1118."""
    text = answer.decode("utf-8", "replace").rstrip("\0")
    if not text.startswith("ok"):
        raise SecmonError(_code(text), text.removeprefix("err ") or None)
    word, blank, rest = text.partition(" ")
    if not blank:
        raise SecmonError(1118, word)
    try:
        return msgspec.json.decode(rest.strip())
    except msgspec.DecodeError as error:
        raise SecmonError(1118, str(error)) from None


def state(answer: bytes) -> dict[str, Any]:
    """The data of a component's statistics. Raises 1117 for an error of the component, 1118."""
    text = answer.rstrip(b"\0")
    try:
        found = msgspec.json.decode(text, type=_State)
    except (msgspec.DecodeError, UnicodeDecodeError):
        if text.startswith(b"err"):
            raise SecmonError(1117, text.decode("utf-8", "replace").removeprefix("err ")) from None
        raise SecmonError(1118, text[:100].decode("utf-8", "replace")) from None
    if found.error:
        raise SecmonError(1117, found.message or None)
    return found.data


def _code(text: str) -> int:
    return 1117 if any(known in text for known in _UNREACHABLE) else 1116
