"""The protocol of the socket of logtest (analysis-api.md 6.4)."""

import json
import logging
from collections.abc import Mapping
from typing import Any

import msgspec

from secmon.engine.logtest.logtest_sessions import BadToken, Sessions

log = logging.getLogger("secmon.analysisd")

MAX_REQUEST = 65535
"""Bytes."""
VERSION = 1
_EXCERPT = 40


class BadRequest(Exception):
    """A malformed request; ``error`` is the error number of the protocol."""

    def __init__(self, error: int, number: int, text: str) -> None:
        self.error = error
        self.message = f"({number}): {text}"
        super().__init__(self.message)


def error_answer(error: int, number: int, text: str) -> bytes:
    """The answer to a malformed request."""
    return msgspec.json.encode({"error": error, "message": f"ERROR: ({number}): {text}"})


FAILED = msgspec.json.encode(
    {"error": 0, "data": {"messages": ["ERROR: (7312): The event cannot be processed; see the log"], "codemsg": -1}}
)
TOO_LONG = error_answer(5, 7315, f"The request is longer than {MAX_REQUEST} bytes")


def answer(sessions: Sessions, request: bytes) -> bytes:
    """Answer one request. Blocks: may compile a ruleset."""
    try:
        fields = _object(request)
        parameters = _field(fields, "parameters", dict)
        match _field(fields, "command", str):
            case "log_processing":
                data = _process(sessions, parameters)
            case "remove_session":
                data = _remove(sessions, parameters)
            case command:
                raise BadRequest(3, 7306, f"Unknown command '{command}'")
    except BadRequest as error:
        return msgspec.json.encode({"error": error.error, "message": f"ERROR: {error.message}"})
    return msgspec.json.encode({"error": 0, "data": data})


def _object(request: bytes) -> Mapping[str, Any]:
    try:
        fields = msgspec.json.decode(request)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        excerpt = request[:_EXCERPT].decode("utf-8", "backslashreplace")
        raise BadRequest(1, 7307, f"The request is no JSON ({error}): '{excerpt}'") from None
    if not isinstance(fields, dict):
        raise BadRequest(2, 7308, "The request is no object")
    version = _field(fields, "version", int)
    if version != VERSION:
        raise BadRequest(2, 7313, f"Version {version} is not supported")
    origin = _field(fields, "origin", dict)
    for name in ("name", "module"):
        _field(origin, name, str)
    return fields


def _field(fields: Mapping[str, Any], name: str, kind: type) -> Any:
    value = fields.get(name)
    if value is None:
        raise BadRequest(2, 7308, f"Field '{name}' is missing")
    if not isinstance(value, kind) or isinstance(value, bool):
        raise BadRequest(2, 7317, f"Field '{name}' is not of type {kind.__name__}")
    return value


def _process(sessions: Sessions, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    location = _field(parameters, "location", str)
    _field(parameters, "log_format", str)
    event = parameters.get("event")
    if isinstance(event, dict):
        event = json.dumps(event, ensure_ascii=False, separators=(",", ":"))
    elif not isinstance(event, str):
        _field(parameters, "event", str)
    token = parameters.get("token")
    if token is not None:
        _field(parameters, "token", str)
    notes: list[str] = []
    debug = _debug(parameters, notes)
    made = sessions.process(str(event), location, token, debug=debug)
    for note in notes:
        made.messages.append(note)
        made.codemsg = made.codemsg or 1
    return made.object()


def _debug(parameters: Mapping[str, Any], notes: list[str]) -> bool:
    options = parameters.get("options")
    if options is None:
        return False
    if not isinstance(options, dict):
        notes.append("WARNING: (7005): 'options' is no object, it is ignored")
        return False
    wanted = options.get("rules_debug", False)
    if not isinstance(wanted, bool):
        notes.append("WARNING: (7006): 'rules_debug' is not true or false, it is ignored")
        return False
    return wanted


def _remove(sessions: Sessions, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    token = parameters.get("token")
    if not isinstance(token, str):
        raise BadRequest(4, 7316, "A token is needed, as text")
    try:
        return sessions.remove(token).object()
    except BadToken:
        raise BadRequest(4, 7309, f"'{token}' is no token") from None
