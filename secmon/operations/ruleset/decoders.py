"""``/decoders``: decoders and their files (analysis-api.md 3 and 5)."""

from typing import Annotated, Any

from msgspec import Meta, Struct

from secmon.cluster.catalogue import Place, operation
from secmon.cluster.executor import Context
from secmon.cluster.node import Definitions
from secmon.cluster.parameters import (
    Alphanumeric,
    Common,
    Limit,
    Listing,
    Names,
    Offset,
    SearchFor,
    Select,
    SortBy,
)
from secmon.common.errors import SecmonError
from secmon.common.outcome import Messages, Outcome, Result
from secmon.common.query import Fields, Sort
from secmon.operations.nodes.upload import OCTETS
from secmon.operations.ruleset.file_operations import (
    DELETED,
    LISTED,
    READ,
    UPLOADED,
    XML,
    DeleteXmlFile,
    FolderName,
    ListedFile,
    PutXmlFile,
    XmlFileQuery,
    delete_file,
    from_definitions,
    listed_files,
    read_file,
    trimmed,
    upload_file,
)
from secmon.operations.ruleset.rules import FILE_FIELDS, FilesQuery, Status
from secmon.security.rbac.authorization import Require

FIELDS = Fields(
    engine="list",
    select=("filename", "relative_dirname", "name", "position", "status", "details"),
    sort=("filename", "relative_dirname", "name", "position", "status"),
    required=("filename", "position"),
)
BY_PLACE = Sort(("filename", "position"))
SEE_DECODERS = Require("decoders:read", "decoder:file", mode="restrict")
DECODERS = Messages(all="The decoders were read", some="Some decoders were not read", none="No decoder was read")


class Decoder(Struct):
    """A decoder as its file has it."""

    filename: str
    relative_dirname: str
    status: str
    name: str
    position: int
    details: dict[str, Any]


class DecodersQuery(Listing, frozen=True, kw_only=True):
    """Query parameters of ``GET /decoders``; a decoder must pass all filters."""

    decoder_names: list[Names] | None = None
    filename: Annotated[list[Alphanumeric] | None, Meta(description="Base names of files.")] = None
    relative_dirname: Annotated[FolderName | None, Meta(description="The folder.")] = None
    status: Annotated[Status, Meta(description="Status of the file.")] = "all"


class ParentsQuery(Common, frozen=True, kw_only=True):
    """Query parameters of ``GET /decoders/parents``."""

    offset: Offset = 0
    limit: Limit = 500
    sort: SortBy = None
    search: SearchFor = None
    select: Select = None


@operation(
    "GET", "/decoders", params=DecodersQuery, require=(SEE_DECODERS,), item=Decoder, fields=FIELDS,
    default_sort=BY_PLACE, messages=DECODERS,
)  # fmt: skip
async def read_decoders(ctx: Context, params: DecodersQuery) -> Outcome:
    """Decoders as the files have them, whether or not the engine uses them."""
    return await from_definitions(ctx, "decoder", lambda found: _filtered(found, params))


def _filtered(found: Definitions, params: DecodersQuery) -> Outcome:
    outcome = Outcome(items=list(found.items))
    if params.decoder_names is not None:
        wanted = set(params.decoder_names)
        for missing in wanted - {item["name"] for item in found.items}:
            outcome.fail(SecmonError(1504), missing)
        outcome.items = [item for item in outcome.items if item["name"] in wanted]
    where = trimmed(params.relative_dirname)
    outcome.items = [
        item
        for item in outcome.items
        if (params.filename is None or item["filename"] in params.filename)
        and where in (None, item["relative_dirname"])
        and params.status in ("all", item["status"])
    ]
    return outcome


@operation(
    "GET", "/decoders/parents", params=ParentsQuery, require=(SEE_DECODERS,), item=Decoder, fields=FIELDS,
    default_sort=BY_PLACE, messages=DECODERS,
)  # fmt: skip
async def read_parents(ctx: Context, params: ParentsQuery) -> Outcome:
    """Decoders that have no parent."""
    return await from_definitions(ctx, "decoder", _parents)


def _parents(found: Definitions) -> Outcome:
    return Outcome(items=[item for item in found.items if "parent" not in item["details"]])


@operation(
    "GET", "/decoders/files", params=FilesQuery, item=ListedFile, fields=FILE_FIELDS, default_sort=Sort(("filename",)),
    require=(Require("decoders:read", "decoder:file", param="filename", mode="each"),), messages=LISTED,
)  # fmt: skip
async def read_decoder_files(ctx: Context, params: FilesQuery) -> Outcome:
    """The files of decoders that the configuration names."""
    return await listed_files(ctx, "decoder", folder=params.relative_dirname, status=params.status)


@operation(
    "GET", "/decoders/files/{filename}", params=XmlFileQuery, place=Place.MASTER, item=dict[str, Any], raw_type=XML,
    require=(Require("decoders:read", "decoder:file", param="filename"),), messages=READ,
)  # fmt: skip
async def read_decoder_file(ctx: Context, params: XmlFileQuery) -> Result:
    """A file of decoders, as an object or as it is."""
    return await read_file(ctx, "decoder", params.filename, params.relative_dirname, raw=params.raw)


@operation(
    "PUT", "/decoders/files/{filename}", params=PutXmlFile, place=Place.MASTER, item=str, body_type=OCTETS,
    changes_files=True, require=(Require("decoders:update"),), messages=UPLOADED,
)  # fmt: skip
async def put_decoder_file(ctx: Context, params: PutXmlFile) -> Outcome:
    """Store a file of decoders, and say what the engine makes of it."""
    return await upload_file(
        ctx, "decoder", params.filename, params.relative_dirname, params.body, overwrite=params.overwrite
    )


@operation(
    "DELETE", "/decoders/files/{filename}", params=DeleteXmlFile, place=Place.MASTER, changes_files=True, item=str,
    require=(Require("decoders:delete", "decoder:file", param="filename"),), messages=DELETED,
)  # fmt: skip
async def delete_decoder_file(ctx: Context, params: DeleteXmlFile) -> Outcome:
    """Delete a file of decoders."""
    return await delete_file(ctx, "decoder", params.filename, params.relative_dirname)
