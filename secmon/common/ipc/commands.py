"""Commands between processes of a node: frames of JSON.

Request ``{"command": "status", ...}``; answer ``{"error": 0, "data": ...}`` or ``{"error": code, "message": text}``,
with the codes of the error catalogue.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from secmon.common.errors import SecmonError
from secmon.common.ipc.client import call, call_error
from secmon.common.ipc.server import FrameServer, Limits
from secmon.common.ipc.unix_listener import share_with_group

log = logging.getLogger("secmon.sockets")

Handler = Callable[[str, Mapping[str, Any]], Awaitable[object]]
"""Gets the command and the whole request, returns ``data``. Raises SecmonError, and ValidationError (becomes 1014)."""


class CommandServer(FrameServer):
    """Answers commands at ``path`` while open."""

    def __init__(
        self,
        path: Path,
        handler: Handler,
        limits: Limits,
        *,
        share: Callable[[Path], None] = share_with_group,
    ) -> None:
        super().__init__(
            path,
            self._handle,
            limits,
            too_long=_failure(1014, f"The request is longer than {limits.request} bytes"),
            too_many=_failure(1014, "Too many connections to this socket"),
            share=share,
        )
        self._command_handler = handler

    async def _handle(self, payload: bytes) -> bytes:
        try:
            request = parse_command(payload)
            data = await self._command_handler(request["command"], request)
        except SecmonError as error:
            return _failure(error.code, error.message)
        except msgspec.ValidationError as error:
            return _failure(1014, f"The request is not valid: {error}")
        except Exception:  # a fault in one command must not end the connection; logged with its trace
            log.exception("A command failed: %s", payload[:200].decode("utf-8", "backslashreplace"))
            return _failure(1000, "Unexpected internal error; see the log")
        return msgspec.json.encode({"error": 0, "data": data})


def parse_command(payload: bytes) -> dict[str, Any]:
    """The request in ``payload``. Raises SecmonError 1014 for what is none."""
    with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        request = msgspec.json.decode(payload)
        if isinstance(request, dict) and isinstance(request.get("command"), str):
            return request
    raise SecmonError(1014, 'send a JSON object such as {"command": "status"}')


async def command(
    path: Path, name: str, *, seconds: float = 5.0, absent: int = 1121, refused: int = 1013, **arguments: Any
) -> Any:
    """Send the command ``name`` to the socket ``path``; returns ``data``. ``seconds`` bounds everything.

    Raises code ``absent`` when the socket does not exist, ``refused`` when it refuses, 1014 when the answer does not
    come in time or is not understood, and the code that the answer has.
    """
    try:
        answer = await call(path, msgspec.json.encode({"command": name, **arguments}), seconds=seconds)
        reply = msgspec.json.decode(answer)
        code = int(reply["error"])
    except OSError as error:
        raise call_error(error, path, absent=absent, refused=refused) from error
    except (ValueError, KeyError, TypeError) as error:  # msgspec.DecodeError is a ValueError
        raise SecmonError(1014, f"{path}: {error}") from error
    if code:
        raise _reported(code, str(reply.get("message", "")))
    return reply.get("data")


def _failure(code: int, message: str) -> bytes:
    return msgspec.json.encode({"error": code, "message": message})


def _reported(code: int, message: str) -> SecmonError:
    """The error that the other side raised. Its text begins with the catalogue's, which is added again here."""
    base = SecmonError(code).message
    return SecmonError(code, message.removeprefix(base).removeprefix(": ") or None)
