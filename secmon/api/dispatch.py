"""The way of a request through the adapter. The order of its steps is in ``Dispatcher._answer`` only."""

import asyncio
import logging
import math
import traceback
from collections.abc import Mapping
from typing import Any, NamedTuple

from msgspec.structs import replace
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from secmon.api.authentication import Authenticator, bearer_token, claimed_user
from secmon.api.binding import bind
from secmon.api.cors import Cors
from secmon.api.event_stream import REPEAT_TIMEOUT, EventStreams
from secmon.api.limits import EVENT_PATHS, EVENT_REQUESTS, RequestRate
from secmon.api.openapi import describe_itself
from secmon.api.problems import RequestRefused, error_problem, flat, problem
from secmon.api.rendering import render, render_error
from secmon.api.request import BodyMemory, Request, logged_body, logged_query, read_body
from secmon.api.request_log import RequestLog
from secmon.api.responses import CLOSE, TEXT_TYPE, ApiResponse
from secmon.api.routes import RouteMatch, RouteTable
from secmon.api.shared_login_failures import SharedLoginFailures
from secmon.api.slow_requests import note_slow
from secmon.cluster.call import Call, new_request_id
from secmon.cluster.catalogue import Catalogue, Operation
from secmon.cluster.node import CallRouter, Node
from secmon.cluster.parameters import ParameterError
from secmon.common.errors import SecmonError
from secmon.common.identity import Identity
from secmon.common.outcome import Outcome, Result
from secmon.common.sqlite.faults import StoreFault, storage_error
from secmon.common.trace import begin_trace, span
from secmon.security.authentication_error import AuthenticationError
from secmon.security.login_attempts import FailedLogins

log = logging.getLogger("secmon.api")

BODY_SECONDS = 20.0
"""Time for the body of a request, or for each part of it that its rate asks for (see ``request.read_body``)."""

BODY_MEMORY_BYTES = 256 << 20
"""Memory for all bodies at once; four of the largest have room in any case."""

UNKNOWN_USER = "unknown_user"
MAX_SHOWN = 1024
"""Characters of a path in lines other than that of its request."""

CLIENT_GONE = 499
"""Status in the log of a request whose client left before its answer."""


class Dispatcher:
    """An ASGI application: the adapter between HTTP and the catalogue."""

    def __init__(
        self,
        node: Node,
        router: CallRouter,
        catalogue: Catalogue,
        request_log: RequestLog,
        *,
        body_seconds: float = BODY_SECONDS,
    ) -> None:
        config = node.api_config
        self._node = node
        self._router = router
        self._description = describe_itself(catalogue)
        self._routes = RouteTable([*catalogue, self._description])
        self._log = request_log
        self._body_seconds = body_seconds
        limit = config.access.max_request_per_minute
        self._rate = RequestRate(limit, node.clock)
        self._event_rate = RequestRate(EVENT_REQUESTS if limit else 0, node.clock, code=6005)
        self._logins = FailedLogins(config.access.max_login_attempts, config.access.block_time, node.clock)
        self._shared = SharedLoginFailures(node, router, self._logins)
        self._authenticator = Authenticator(node, self._logins, router)
        largest = config.max_upload_size
        self._bodies = BodyMemory(max(BODY_MEMORY_BYTES, 4 * largest) if largest else math.inf, self._is_known)
        self._streams = EventStreams(node.counters)
        self._cors = Cors(config.cors) if config.cors.enabled else None
        self._in_flight = 0
        self._entries: list[_LogEntry] = []
        self.stopping = False
        """Set when the grace of a stop is over: requests cancelled from then on still get an answer."""

    def close(self) -> None:
        """Let go of the threads, finish the log."""
        self._authenticator.close()
        self._shared.close()
        self._write_entries()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, and log it whatever happens."""
        clock, counters = self._node.clock, self._node.counters
        started = clock.monotonic()
        request = Request(scope)
        self._in_flight += 1
        counters.add("api.requests")
        counters.set("api.requests.in_flight", self._in_flight)
        status, made = CLIENT_GONE, None
        try:
            answer = await self._response_to(request, receive)
            made = clock.monotonic()  # a stream is sent for hours
            await answer(scope, receive, send)
            status = answer.status_code
        except (ClientDisconnect, asyncio.CancelledError):
            # The cancellation has reached whatever the request was waiting for; above this there is only the server.
            counters.add("api.requests.abandoned")
            if self.stopping:
                answer = problem(503, "Service Unavailable", "The server is stopping", headers=(CLOSE,))
                await answer(scope, receive, send)
                status = answer.status_code
        finally:
            self._in_flight -= 1
            self._bodies.release(request)
            counters.set("api.requests.in_flight", self._in_flight)
            ended = clock.monotonic()
            self._node.call_times.labels(request.operation, str(status)).observe((made or ended) - started)
            self._log_soon(_LogEntry(request, ended - started, status))
            if request.received is not None:
                self._note_slow(request, (made or ended) - request.received, status)

    async def _response_to(self, request: Request, receive: Receive) -> ApiResponse:
        """The answer, whatever becomes of the request; CORS headers on existing paths."""
        found: RouteMatch | None = None
        try:
            found = self._routes.find(request.path, request.method)
        except ValueError:
            pass  # not UTF-8: answered like an unknown path
        try:
            answer = await self._answer(request, found, receive)
        except (SecmonError, AuthenticationError, ParameterError, RequestRefused) as error:
            answer = self._refusal(request, found, error)
            if answer.status_code >= 500:
                self._log_cause(request, answer.status_code, error)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is logged and answered
            failure = self._unexpected_error(request, error)
            answer = render_error(self._node, failure, request.identity or _unknown_caller())
        if self._cors is not None and found is not None and found.methods and request.method != "OPTIONS":
            self._cors.decorate(request, answer)
        if answer.status_code >= 400:
            self._node.counters.add("api.responses.5xx" if answer.status_code >= 500 else "api.responses.4xx")
        return answer

    async def _answer(self, request: Request, found: RouteMatch | None, receive: Receive) -> ApiResponse:
        """The one order of steps (conventions.md 0); each may raise, and then the next ones do not happen."""
        operation = found.operation if found else None
        if operation is not None:
            request.operation = operation.id
        auth = operation.auth if operation is not None else "bearer"
        if auth == "bearer" or (auth == "scraper" and not self._authenticator.is_scraper(request)):
            self._rate.count()
        if operation is not None and operation.path in EVENT_PATHS:
            self._event_rate.count()
        self._logins.check(request.client)
        limit = self._node.api_config.max_upload_size
        request.body = await read_body(request, receive, self._bodies, limit=limit, seconds=self._body_seconds)
        if found is None or operation is None:
            return self._no_operation(request, found)
        request.received = self._node.clock.monotonic()
        request.trace = begin_trace() if self._node.slow_requests.threshold_seconds else None
        with span("login"):
            identity = await self._authenticator.identify(request, auth)
        request.authenticated(identity)
        params = operation.defaults
        if params is None or request.query:
            params = bind(operation, request, found.values)
        self._check_settings(operation)
        if operation.follow is not None:
            return await self._follow(operation, params, identity, request)
        result = await self._run(self._call(operation, params, identity, request))
        if isinstance(result, Outcome) and result.node_errors:
            self._log.message(
                "warning", f"{_title(request)} is answered without some nodes: {_by_node(result.node_errors)}"
            )
        with span("rendering"):
            return render(self._node, operation, result, identity, pretty=getattr(params, "pretty", False))

    async def _follow(self, operation: Operation, params: Any, identity: Identity, request: Request) -> ApiResponse:
        """A stream of events: the call repeated, each time with the caller's rights of that moment."""

        async def run(params: object) -> Result:
            caller = await self._authenticator.bearer(request)
            call = self._call(operation, params, caller, request)
            soon = self._node.clock.monotonic() + REPEAT_TIMEOUT
            return await self._run(replace(call, deadline=min(soon, call.deadline or soon)))

        return await self._streams.begin(operation, params, identity.user, run)

    def _no_operation(self, request: Request, found: RouteMatch | None) -> ApiResponse:
        """308, preflight, 404 or 405."""
        if found is None:
            raise ParameterError("The path is not UTF-8")
        if found.methods:
            if request.method == "OPTIONS" and self._cors is not None:
                return self._cors.preflight(request, found.methods)
            raise RequestRefused(405, "405: Method Not Allowed")
        if "//" in request.path:
            return _merged(request)
        raise RequestRefused(404, "404: Not Found")

    def _check_settings(self, operation: Operation) -> None:
        """Raises 1122 for experimental operations while these are off, 3013 for the cluster's without a cluster."""
        if operation.path.startswith("/experimental/") and not self._node.api_config.experimental_features:
            raise SecmonError(1122)
        if operation.needs_cluster and not self._node.clustered:
            raise SecmonError(3013)

    def _call(self, operation: Operation, params: Any, identity: Identity, request: Request) -> Call:
        node = self._node
        waits = getattr(params, "wait_for_complete", False)
        longest = node.options.get("clusterd.request_timeout_max")
        timeout = longest if waits else node.api_config.intervals.request_timeout
        request.id = new_request_id()
        return Call(
            operation=operation,
            params=params,
            identity=identity,
            request_id=request.id,
            deadline=node.clock.monotonic() + timeout,
            client=request.client,
            token=self._token(operation, request),
            text=operation.follow is None and not getattr(params, "pretty", False),
        )

    def _token(self, operation: Operation, request: Request) -> str:
        """What shows other nodes who asks. There is none of a login, and none of a scraper without one."""
        if operation.auth == "basic" or (request.identity is not None and request.identity.local):
            return ""
        return bearer_token(request.header(b"authorization"))

    async def _run(self, call: Call) -> Result:
        """The result; raises :class:`_Failed` so that errors from here on name their nodes."""
        if call.operation is self._description:  # the adapter's own; the cluster does not know it
            own: Result = await call.operation.function(None, None)
            return own
        try:
            return await self._router.route(call)
        except SecmonError as error:
            raise _Failed(error) from error

    def _refusal(self, request: Request, found: RouteMatch | None, error: Exception) -> ApiResponse:
        """The problem document for an expected error, and what it means for limits, counters and log."""
        match error:
            case _Failed():
                assert request.identity is not None
                return render_error(self._node, error.error, request.identity)
            case SecmonError():
                self._note_limit(request, error)
                return error_problem(error)
            case AuthenticationError():
                if found and found.operation and found.operation.auth == "basic":
                    self._logins.failed(request.client)
                    self._shared.report(request.client)
                    self._node.counters.add("api.logins.failed")
                return problem(error.status, error.title, error.detail)
            case RequestRefused():
                return problem(error.status, error.title, error.detail, headers=(CLOSE,) if error.close else ())
        return problem(400, error.title if isinstance(error, ParameterError) else "Bad Request", flat(str(error)))

    def _unexpected_error(self, request: Request, error: Exception) -> SecmonError:
        """The error for a fault outside of an operation, in a login for instance; the fault is logged."""
        failure = storage_error(error)
        if failure is not None:
            self._node.counters.add("api.storage_errors")
            log.error("request %s %s %s failed: %s", request.id, request.method, request.shown_path, error)
            self._log.message("error", f"{_title(request)} failed: {error}")
            return failure
        log.error("request %s %s %s failed", request.id, request.method, request.shown_path, exc_info=error)
        trace = "".join(traceback.format_exception(error))
        self._log.message("error", f"{_title(request)} failed", traceback=trace)
        return SecmonError(1000)

    def _note_limit(self, request: Request, error: SecmonError) -> None:
        if error.code == 6000:
            self._node.counters.add("api.refused.blocked_address")
            self._log.message("warning", f"Request refused: too many failed logins from {request.client}")
        elif error.code in (6001, 6005):
            self._node.counters.add("api.refused.rate")
            self._log.message("debug", f"Request of {request.client} refused: limit of requests per minute reached")

    def _log_cause(self, request: Request, status: int, error: Exception) -> None:
        """A line for the operator, beside that of the request; the id leads to the entries in the logs of all nodes."""
        cause = str(error)
        if isinstance(error, SecmonError) and error.nodes:
            known = set(error.nodes.values()) == {error.message}
            cause += f" ({', '.join(sorted(error.nodes)) if known else _by_node(error.nodes)})"
        self._log.message("error" if status == 500 else "warning", f"{_title(request)} failed: {cause}")

    def _note_slow(self, request: Request, seconds: float, status: int) -> None:
        found = note_slow(self._node, request, seconds, status)
        if found is not None:
            self._log.message("warning", f"{_title(request)} took {seconds:.3f} s on node {found.node}: {found.shares}")

    def _user(self, request: Request) -> str:
        """The user for the log: of the identity, a Basic header, or the token of a request that was refused early."""
        if request.identity is not None:
            return request.identity.user
        name = claimed_user(request.header(b"authorization"))
        return name if name is not None else self._holder(request) or UNKNOWN_USER

    def _holder(self, request: Request) -> str | None:
        """The user of a token that was accepted before and still would be."""
        try:
            token = bearer_token(request.header(b"authorization"))
            return self._node.tokens.recognise(self._node.security.view(), token)
        except (AuthenticationError, StoreFault):  # the request fails for it, and says so
            return None

    def _is_known(self, request: Request) -> bool:
        """Whether the client has authenticated before, by its address or by its token."""
        return request.from_known_address or self._holder(request) is not None

    def _log_soon(self, entry: "_LogEntry") -> None:
        """Log behind the answers of this turn of the loop, all in one write; a crash loses no more than these."""
        if not self._entries:
            asyncio.get_running_loop().call_soon(self._write_entries)
        self._entries.append(entry)

    def _write_entries(self) -> None:
        entries, self._entries = self._entries, []
        for request, seconds, status in entries:
            identity = request.identity
            self._log.headers(request.headers)
            self._log.request(
                self._user(request),
                identity.context_hash if identity else None,
                request.client,
                request.method,
                request.shown_path,
                logged_query(request.query),
                logged_body(request.body, authenticated=identity is not None),
                seconds,
                status,
            )
        self._log.flush()


def _title(request: Request) -> str:
    """How lines beside that of the request name it."""
    who = request.identity.user if request.identity else UNKNOWN_USER
    what = f"{request.method} {request.shown_path[:MAX_SHOWN]} of {who} from {request.client}"
    return f"Request {request.id} ({what})" if request.id else f"Request {what}"


def _by_node(errors: Mapping[str, str]) -> str:
    return "; ".join(f"{node}: {text}" for node, text in sorted(errors.items()))


class _LogEntry(NamedTuple):
    """The entry of a request for the request log."""

    request: Request
    seconds: float
    status: int


class _Failed(SecmonError):
    """An error from the distribution layer, distinguished from the adapter's own (conventions.md 1.7)."""

    def __init__(self, error: SecmonError) -> None:
        super().__init__(error.code, error.extra, ids=error.ids, nodes=error.nodes)
        self.error = error


def _merged(request: Request) -> ApiResponse:
    """A path with doubled slashes leads to the merged one."""
    path = request.path
    while "//" in path:
        path = path.replace("//", "/")
    target = path.encode("ascii") + (b"?" + request.query if request.query else b"")
    return ApiResponse(308, b"", TEXT_TYPE, [(b"location", target)])


def _unknown_caller() -> Identity:
    """An identity without permissions: answers to unknown callers hide node names."""
    return Identity(user="", user_id=0, roles=(), run_as=False, mode="white")
