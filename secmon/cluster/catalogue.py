"""The catalogue: every operation of the API, declared once.

Read off it: HTTP routes, parameter checks, permissions, the OpenAPI document, execution on other nodes, and the table
in ``docs/operations.md``. What daemons ask each other is in a separate catalogue (``internal``), which has no
routes. Catalogues are the only module state of the product.
"""

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal

import msgspec

from secmon.cluster.parameters import Parameter, build, describe
from secmon.common.outcome import Messages, Outcome, Result
from secmon.common.query import Fields, Sort
from secmon.security.rbac.authorization import Require

NO_MESSAGES = Messages()
INTERNAL_PATHS = "/internal/"
"""Beginning of the paths of operations without a route."""
_ID_CHARACTERS = str.maketrans({"/": "_", "{": None, "}": None})
Method = Literal["GET", "POST", "PUT", "DELETE"]
Auth = Literal["bearer", "basic", "scraper"]
Function = Callable[[Any, Any], Awaitable[Result]]
Finish = Callable[[Any, Outcome], Awaitable[None]]


class Place(Enum):
    """Where an operation runs."""

    ANY = "any"
    """The node asked."""
    MASTER = "master"
    MASTER_ONLY = "master only"
    """The node asked, which must be the master: others refuse with 902."""
    NODE = "node"
    """The one node that a parameter names."""
    NODES = "nodes"
    """The nodes that a parameter lists, or all of them."""
    AGENT = "agent"
    """The node of each agent concerned: the function runs on the master and asks them (``Services.nodes``)."""


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One thing a client can ask.

    ``require``: checks in order. ``messages``: the envelope's three texts. ``item`` or ``data``: shape of the affected
    items, or of ``data``; ``extra``: shapes of further members of ``data``, beside the items. ``fields`` and
    ``default_sort``: the collection is a list of objects, which the executor filters, orders and pages.
    ``node_param``: parameter that names the target nodes. ``finish``: what the coordinator of a multi-node call does
    with the merged answer. ``exempt``: runs although daemons of the node are down (manager.md 19, row 1).
    ``changes_files``: it writes files that are replicated, and is answered when these are recorded.
    ``follow``: the items are server-sent events; it gives the parameters with which the call is repeated.
    ``auth``: a token, name and password, or ``scraper``: a token, or none from an address that ``api.yaml`` names.
    ``open_to_all``: any valid token will do. ``deprecated``: since which version.
    """

    method: Method
    path: str
    summary: str
    params: type[msgspec.Struct]
    function: Function
    place: Place = Place.ANY
    require: tuple[Require, ...] = ()
    auth: Auth = "bearer"
    open_to_all: bool = False
    messages: Messages = NO_MESSAGES
    item: Any = None
    data: Any = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    fields: Fields | None = None
    default_sort: Sort | None = None
    node_param: str | None = None
    needs_cluster: bool = False
    exempt: bool = False
    changes_files: bool = False
    finish: Finish | None = None
    follow: Callable[[Any, Outcome], Any] | None = None
    deprecated: str | None = None
    raw_type: str | None = None
    body_type: str = "application/json"
    parameters: tuple[Parameter, ...] = field(init=False)
    name: str = field(init=False)
    """``METHOD path``: the operation's name in the catalogue and on the wire between nodes."""
    defaults: Any = field(init=False)
    """The parameters of a request that gives none; None where one is required."""
    unpack: Callable[[bytes], Any] = field(init=False)
    """The typed parameters out of msgpack. Raises what msgspec raises."""

    def __post_init__(self) -> None:
        parameters = describe(self.params, self.path)
        complete = not any(one.required or one.location == "body" for one in parameters)
        object.__setattr__(self, "parameters", parameters)
        object.__setattr__(self, "name", f"{self.method} {self.path}")
        object.__setattr__(self, "defaults", self.params() if complete else None)
        object.__setattr__(self, "unpack", msgspec.msgpack.Decoder(self.params).decode)

    @property
    def id(self) -> str:
        """In the OpenAPI document, and as a label of metrics."""
        return self.method.lower() + self.path.translate(_ID_CHARACTERS)

    @property
    def internal(self) -> bool:
        """Whether only daemons and nodes call it."""
        return self.path.startswith(INTERNAL_PATHS)

    @property
    def area(self) -> str:
        """First segment of the path."""
        return self.path.split("/")[1] or "root"

    @property
    def body(self) -> Parameter | None:
        return next((one for one in self.parameters if one.location == "body"), None)

    @property
    def template(self) -> re.Pattern[str]:
        """The path as a pattern with a named group for each parameter; one trailing slash is fine."""
        escaped = re.sub(r"\\{(\w+)\\}", r"(?P<\1>[^/]+)", re.escape(self.path))
        return re.compile(f"{escaped.rstrip('/')}/?")

    def build(self, values: dict[str, Any]) -> Any:
        """The typed parameters; raises ``ParameterError``."""
        return build(self.params, values)


class Catalogue:
    """Operations by name; each can be declared once only."""

    def __init__(self) -> None:
        self._operations: dict[str, Operation] = {}

    def add(self, operation: Operation) -> None:
        """Raises ValueError for a name that is declared already."""
        if operation.name in self._operations:
            raise ValueError(f"declared twice: {operation.name}")
        self._operations[operation.name] = operation

    def get(self, name: str) -> Operation | None:
        return self._operations.get(name)

    def __getitem__(self, name: str) -> Operation:
        """Raises KeyError for a name that is not declared."""
        return self._operations[name]

    def __iter__(self) -> Iterator[Operation]:
        return iter(self._operations.values())

    def __len__(self) -> int:
        return len(self._operations)


CATALOGUE = Catalogue()


def operation(
    method: Method, path: str, *, params: type[msgspec.Struct], catalogue: Catalogue = CATALOGUE, **options: Any
) -> Callable[[Function], Function]:
    """Declare the decorated coroutine function as the operation ``METHOD path``.

    It is called with a ``Context`` and the typed parameters. Its docstring's first line is the summary. A function may
    be declared several times, as with ``/manager/x`` and ``/cluster/{node_id}/x``. ``options`` are fields of
    :class:`Operation`.
    """

    def declare(function: Function) -> Function:
        catalogue.add(
            Operation(
                method=method,
                path=path,
                summary=(function.__doc__ or "").strip().splitlines()[0],
                params=params,
                function=function,
                **options,
            )
        )
        return function

    return declare
