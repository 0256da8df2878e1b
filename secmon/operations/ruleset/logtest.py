"""``/logtest``: what decoders and rules make of a log line (analysis-api.md 6). Sessions live on the master."""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from secmon.cluster.catalogue import Place, operation
from secmon.cluster.executor import Context
from secmon.cluster.parameters import Alphanumeric, Common
from secmon.common.errors import SecmonError
from secmon.common.outcome import Plain
from secmon.security.rbac.authorization import Require

TEST = Require("logtest:run")


class LogLine(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A line, where it comes from, and the session to use; without one a session begins."""

    event: str
    log_format: Annotated[str, Meta(min_length=1)]
    location: str
    token: str | None = None


class RunLogtest(Common, frozen=True, kw_only=True):
    """Body of ``PUT /logtest``."""

    body: LogLine


class CloseSession(Common, frozen=True, kw_only=True):
    """Parameters of ``DELETE /logtest/sessions/{token}``."""

    token: Alphanumeric


class LogtestResult(Struct, omit_defaults=True):
    """The result for the line; ``codemsg`` is 0, 1 with warnings, -1 with errors."""

    codemsg: int
    messages: list[str] | None = None
    token: str | None = None
    output: dict[str, Any] | None = None
    alert: bool | None = None
    rules_debug: list[str] | None = None


class ClosedSession(Struct):
    """Whether the session has ended."""

    messages: list[str]
    codemsg: int


@operation("PUT", "/logtest", params=RunLogtest, place=Place.MASTER, require=(TEST,), data=LogtestResult)
async def run_logtest(ctx: Context, params: RunLogtest) -> Plain:
    """Analyse a log line without any consequence."""
    return Plain(data=await _ask(ctx, "log_processing", msgspec.to_builtins(params.body)))


@operation(
    "DELETE", "/logtest/sessions/{token}", params=CloseSession, place=Place.MASTER, require=(TEST,), data=ClosedSession
)
async def close_session(ctx: Context, params: CloseSession) -> Plain:
    """End a session."""
    return Plain(data=await _ask(ctx, "remove_session", {"token": params.token}))


async def _ask(ctx: Context, command: str, parameters: Mapping[str, Any]) -> Any:
    """Raises 7000 with the error of the engine; 1013, 1014 when it does not answer."""
    analysis = ctx.node.services.analysis
    try:
        if analysis is None:
            raise SecmonError(1121)
        answer = await analysis.logtest(command, parameters)
    except SecmonError as error:
        if error.code != 1121:
            raise
        raise SecmonError(1013, error.extra or "secmon-analysisd") from None
    if answer.get("error"):
        raise SecmonError(7000, str(answer.get("message", "")))
    return answer.get("data")
