"""``/lists``: CDB lists (analysis-api.md 4 and 5)."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from secmon.cluster.catalogue import Place, operation
from secmon.cluster.executor import Context
from secmon.cluster.parameters import Alphanumeric, Common, Limit, Listing, Offset, SearchFor, SortBy
from secmon.common.errors import SecmonError
from secmon.common.outcome import Messages, Outcome, Result
from secmon.common.query import Fields, Sort
from secmon.knowledge.lists.feed_states import FOLDER, FeedState, FeedStates
from secmon.operations.nodes.upload import OCTETS
from secmon.operations.ruleset.file_operations import (
    DELETED,
    READ,
    TEXT,
    UPLOADED,
    AsItIs,
    FolderName,
    ListName,
    Overwrite,
    delete_file,
    read_file,
    ruleset_of,
    trimmed,
    upload_file,
)
from secmon.security.rbac.authorization import Require

BY_PATH = Sort(("relative_dirname", "filename"))
FIELDS = Fields(
    engine="list",
    select=("items", "filename", "relative_dirname", "renewal"),
    sort=("relative_dirname", "filename"),
    required=("relative_dirname", "filename"),
)
FILE_FIELDS = Fields(engine="list", search_in=("filename", "relative_dirname"))
SEE_LISTS = Require("lists:read", "list:file", param="filename", mode="each")
LISTS = Messages(all="The lists were read", some="Some lists were not read", none="No list was read")


class Entry(Struct):
    """One key with its value."""

    key: str
    value: str


class Renewal(Struct):
    """How a list is renewed from its feed: what the last try brought, and when the next one is."""

    status: Literal["current", "failing"]
    url: str
    checked_at: str
    next_at: str
    entries: int
    left_out: int
    renewed_at: str | None = None
    changed_at: str | None = None
    failed_since: str | None = None
    error: str | None = None


class CdbList(Struct):
    """A list with its entries."""

    items: list[Entry]
    relative_dirname: str
    filename: str
    renewal: Renewal | None = None
    """Only of a list that has a feed."""


class ListFile(Struct):
    """The file of a list."""

    relative_dirname: str
    filename: str
    renewal: Renewal | None = None
    """Only of a list that has a feed."""


class ListsQuery(Listing, frozen=True, kw_only=True):
    """Query parameters of ``GET /lists``."""

    relative_dirname: Annotated[FolderName | None, Meta(description="The folder.")] = None
    filename: Annotated[list[Alphanumeric] | None, Meta(description="Names of lists.")] = None


class ListFilesQuery(Common, frozen=True, kw_only=True):
    """Query parameters of ``GET /lists/files``."""

    offset: Offset = 0
    limit: Limit = 500
    sort: SortBy = None
    search: SearchFor = None
    relative_dirname: Annotated[FolderName | None, Meta(description="The folder.")] = None
    filename: Annotated[list[Alphanumeric] | None, Meta(description="Names of lists.")] = None


class ListQuery(Common, frozen=True, kw_only=True):
    """Parameters of ``GET /lists/files/{filename}``."""

    filename: ListName
    raw: AsItIs = False


class PutList(Common, frozen=True, kw_only=True):
    """Parameters and body of ``PUT /lists/files/{filename}``: the whole list."""

    filename: ListName
    body: bytes
    overwrite: Overwrite = False


class DeleteList(Common, frozen=True, kw_only=True):
    """Parameters of ``DELETE /lists/files/{filename}``."""

    filename: ListName


async def _paths(ctx: Context, params: ListsQuery | ListFilesQuery) -> list[tuple[str, str]]:
    """Folder and name of the selected lists that the caller may see."""
    found = await asyncio.to_thread(ruleset_of(ctx).lists)
    names = set(ctx.grant("list:file").select(dict.fromkeys(name for _, name in found)))
    where = trimmed(params.relative_dirname)
    return [(folder, name) for folder, name in found if name in names and where in (None, folder)]


@operation(
    "GET", "/lists", params=ListsQuery, place=Place.MASTER, require=(SEE_LISTS,), item=CdbList, fields=FIELDS,
    default_sort=BY_PATH, messages=LISTS,
)  # fmt: skip
async def read_lists(ctx: Context, params: ListsQuery) -> Outcome:
    """Lists with their entries; one that is not well formed refuses the request."""
    paths = await _paths(ctx, params)
    return Outcome(items=await asyncio.to_thread(_with_entries, ctx, paths))


def _with_entries(ctx: Context, paths: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
    """Lists whose name has a full stop cannot be named in permissions and are skipped. Raises 1800, 1802, 1803."""
    files, renewals, items = ruleset_of(ctx), FeedStates(ctx.node.paths).all(), []
    for folder, name in paths:
        if "." in name:
            continue
        data = files.read("list", f"{folder}/{name}")
        emptied = folder == FOLDER and name in renewals and not data
        try:
            entries = {} if emptied else files.as_object("list", data)
        except SecmonError as error:
            raise SecmonError(error.code, f"{folder}/{name}: {error.extra}") from None
        shown = [{"key": key, "value": value} for key, value in entries.items()]
        items.append({"items": shown, **_file(folder, name, renewals)})
    return items


def _file(folder: str, name: str, renewals: Mapping[str, FeedState]) -> dict[str, Any]:
    """What identifies a list, and how it is renewed if it has a feed."""
    file: dict[str, Any] = {"relative_dirname": folder, "filename": name}
    state = renewals.get(name) if folder == FOLDER else None
    return file if state is None else {**file, "renewal": state.shown()}


@operation(
    "GET", "/lists/files", params=ListFilesQuery, place=Place.MASTER, require=(SEE_LISTS,), item=ListFile,
    fields=FILE_FIELDS, default_sort=BY_PATH, messages=LISTS,
)  # fmt: skip
async def read_list_files(ctx: Context, params: ListFilesQuery) -> Outcome:
    """The files of lists."""
    paths = await _paths(ctx, params)
    renewals = await asyncio.to_thread(FeedStates(ctx.node.paths).all)
    return Outcome(items=[_file(folder, name, renewals) for folder, name in paths])


@operation(
    "GET", "/lists/files/{filename}", params=ListQuery, place=Place.MASTER, item=dict[str, str], raw_type=TEXT,
    require=(Require("lists:read", "list:file", param="filename"),), messages=READ,
)  # fmt: skip
async def read_list(ctx: Context, params: ListQuery) -> Result:
    """A list, as an object or as it is."""
    return await read_file(ctx, "list", params.filename, None, raw=params.raw)


@operation(
    "PUT", "/lists/files/{filename}", params=PutList, place=Place.MASTER, item=str, body_type=OCTETS,
    changes_files=True, require=(Require("lists:update"),), messages=UPLOADED,
)  # fmt: skip
async def put_list(ctx: Context, params: PutList) -> Outcome:
    """Store a list."""
    return await upload_file(ctx, "list", params.filename, None, params.body, overwrite=params.overwrite)


@operation(
    "DELETE", "/lists/files/{filename}", params=DeleteList, place=Place.MASTER, changes_files=True, item=str,
    require=(Require("lists:delete", "list:file", param="filename"),), messages=DELETED,
)  # fmt: skip
async def delete_list(ctx: Context, params: DeleteList) -> Outcome:
    """Delete a list."""
    return await delete_file(ctx, "list", params.filename, None)
