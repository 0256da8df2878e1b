"""Commands for agents: active responses and restarts, in the dialect of each version (agent-link.md 9)."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from secmon.agents.groups.folders import AR_CONF
from secmon.agents.wire.crypto import MAX_TEXT as MAX_MESSAGE
from secmon.agents.wire.version import compare

JSON_SINCE = "v4.2.0"
_CAREFUL_SINCE = "v4.2.5"
"""Since this version, agents do not pass arguments of a response to their shell."""

MAX_TEXT = 1023
"""Characters of a response for agents before :data:`JSON_SINCE`."""

_TAIL = " - null (from_the_server) (no_rule_id)"
_RESTART = (
    '{"version": 1, "origin": {"module": "API"}, "command": "restart-wazuh0",'
    f' "parameters": {{"extra_args": [], "alert": {{}}}}}}{_TAIL}'
)
_OLD_RESTART = f"restart-ossec0{_TAIL}"

_SHELL = str.maketrans({sign: f"\\{sign}" for sign in "\\\"'\t;`><|#*[]{}&$!:()"})
_HEXADECIMAL = str.maketrans({sign: f"\\x{ord(sign):02x}" for sign in "!$'`"})


class Response(Struct, frozen=True, kw_only=True):
    """A command with the input of its program. ``node`` and ``module`` name the sender."""

    command: str
    arguments: Sequence[str] = ()
    alert: Mapping[str, Any] = {}
    node: str = ""
    module: str = "API"


def takes_json(version: str) -> bool:
    """Whether agents of this version take responses as JSON."""
    return compare(version, JSON_SINCE) >= 0


def response_message(response: Response, version: str) -> str:
    """The message for an agent of this version (9.2; 9.3 in the form for alerts where it has one).

    Raises ValueError where it is longer than agents of this version take, or than any message.
    """
    if takes_json(version):
        return _fitting(_message(_json(response, quoted=compare(version, _CAREFUL_SINCE) < 0)))
    text = _text_of_alert(response) if "rule" in response.alert else _text_of_user(response)
    if len(text) > MAX_TEXT:
        raise ValueError(f"the response is too large: agents before {JSON_SINCE} take {MAX_TEXT} characters")
    return _message(text)


def _text_of_user(response: Response) -> str:
    words = [shell_escaped(one) for one in response.arguments] or ["-", "-"]
    return " ".join([response.command, *words])


def _text_of_alert(response: Response) -> str:
    """User, address, time and id, rule, location, file, arguments: a hyphen for what the alert has not (9.3)."""
    alert = response.alert

    def value(*path: str) -> str:
        found: Any = alert
        for name in path:
            found = found.get(name) if isinstance(found, Mapping) else None
        words = str(found).split() if isinstance(found, str | int) else []
        return shell_escaped("".join(words)) or "-"

    return " ".join(
        [
            response.command,
            value("data", "dstuser"),
            value("data", "srcip"),
            value("id"),
            value("rule", "id"),
            value("location"),
            value("syscheck", "path"),
            *(map(shell_escaped, response.arguments) if response.arguments else ("-",)),
        ]
    )


def restart_message(version: str | None) -> str:
    """The message that restarts an agent of this version (9.5); an unknown version counts as an old one."""
    return _message(_RESTART if takes_json(version or "") else _OLD_RESTART)


def shell_escaped(text: str) -> str:
    """``text`` escaped for agents that pass it to a shell (9.3)."""
    return text.translate(_SHELL)


def read_commands(shared: Path) -> Collection[str]:
    """Names of the commands in the table of the folder ``shared`` (7.7); none without one. Raises OSError."""
    try:
        lines = (shared / AR_CONF).read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return ()
    return {line.split(" - ", 1)[0].strip() for line in lines if line.strip()}


def _message(payload: str) -> str:
    return f"#!-execd {payload}"


def _fitting(message: str) -> str:
    size = len(message.encode())
    if size > MAX_MESSAGE:
        raise ValueError(
            f"the response is too large: its message would have {size} bytes, at most {MAX_MESSAGE} can be"
        )
    return message


def _json(response: Response, *, quoted: bool) -> str:
    parameters = {"extra_args": list(response.arguments), "alert": response.alert}
    body = {
        "version": 1,
        "origin": {"name": response.node or None, "module": response.module},
        "command": response.command,
        "parameters": _quoted(parameters) if quoted else parameters,
    }
    return msgspec.json.encode(body).decode()


def _quoted(value: Any) -> Any:
    """``value`` without characters that shells interpret within quotes, for agents before ``_CAREFUL_SINCE`` (9.2)."""
    if isinstance(value, str):
        return value.translate(_HEXADECIMAL)
    if isinstance(value, Mapping):
        return {name: _quoted(one) for name, one in value.items()}
    return [_quoted(one) for one in value] if isinstance(value, Sequence) else value
