"""``/groups/{group_id}/configuration`` and ``/groups/{group_id}/files`` (manager.md 2.6, agent-link.md 7.9)."""

import asyncio
import logging
import mimetypes
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from secmon.agents.agent_conf import verify_document
from secmon.agents.groups.contents import Algorithm, FileHash, hash_files, read_file
from secmon.agents.groups.folders import AGENT_CONF, AR_CONF, FILE_MODE, while_group_exists
from secmon.agents.groups.rootcheck_files import parse_checks, parse_rootkit_files, parse_rootkit_trojans
from secmon.cluster.catalogue import Place, operation
from secmon.cluster.executor import Context
from secmon.cluster.node import Node
from secmon.cluster.parameters import (
    Alphanumeric,
    Distinct,
    Limit,
    Offset,
    Q,
    SearchFor,
    Select,
    SortBy,
)
from secmon.common.errors import SecmonError, write_error
from secmon.common.file_io import write_file
from secmon.common.outcome import Messages, Outcome, Plain, Raw, Result
from secmon.common.query import Fields, Sort
from secmon.config.as_json import AGENT_ROOT, convert_agent
from secmon.config.problems import Report
from secmon.config.upload import check_commands
from secmon.config.xml import parse_xml, refuse_forbidden_references
from secmon.operations.groups.parameters import READ_GROUP, GroupPath
from secmon.security.rbac.authorization import Require

log = logging.getLogger("secmon.operations")

XML = "application/xml"

MAX_REPORTED = 20
"""Maximum number of problems in an answer."""

FileType = Literal["conf", "rootkit_files", "rootkit_trojans", "rcl"]
_TYPES: dict[str, FileType] = {
    AGENT_CONF: "conf",
    "rootkit_files.txt": "rootkit_files",
    "rootkit_trojans.txt": "rootkit_trojans",
}


class GroupBlock(Struct):
    """The configuration of agents that meet the filters."""

    filters: dict[str, str]
    config: dict[str, Any]


class GroupConfiguration(Struct):
    """The blocks of a group's ``agent.conf``, in the order of the file."""

    affected_items: list[GroupBlock]
    total_affected_items: int


class GroupFile(Struct):
    """A file of a group."""

    filename: str
    hash: str


class ConfigurationQuery(GroupPath, frozen=True, kw_only=True):
    """Parameters of GET /groups/{group_id}/configuration."""

    offset: Offset = 0
    limit: Limit = 500


class PutConfiguration(GroupPath, frozen=True, kw_only=True):
    """Path and body (``agent.conf``) of PUT /groups/{group_id}/configuration."""

    body: bytes


class FilesQuery(GroupPath, frozen=True, kw_only=True):
    """Parameters of GET /groups/{group_id}/files."""

    offset: Offset = 0
    limit: Limit = 500
    sort: SortBy = None
    search: SearchFor = None
    select: Select = None
    q: Q = None
    distinct: Distinct = False
    hash: Annotated[Algorithm, Meta(description="Algorithm of the hashes.")] = "md5"


class FileQuery(GroupPath, frozen=True, kw_only=True):
    """Path of a file of a group; it is parsed by its name, or as the ``type`` given."""

    file_name: Alphanumeric
    type: list[FileType] | None = None


class RawFileQuery(FileQuery, frozen=True, kw_only=True):
    """Parameters of GET /groups/{group_id}/files/{file_name}."""

    raw: Annotated[bool, Meta(description="Answer with the file itself.")] = False


@operation(
    "GET", "/groups/{group_id}/configuration", params=ConfigurationQuery, place=Place.MASTER, require=(READ_GROUP,),
    data=GroupConfiguration,
)  # fmt: skip
async def read_configuration(ctx: Context, params: ConfigurationQuery) -> Plain:
    """The configuration that the agents of a group share."""
    page = slice(params.offset, params.offset + params.limit)
    blocks = await asyncio.to_thread(lambda: _blocks(_content(ctx.node, params.group_id, AGENT_CONF)))
    return Plain(data={"affected_items": blocks[page], "total_affected_items": len(blocks)})


def _blocks(data: bytes) -> list[Any]:
    """Raises 1101."""
    return convert_agent(parse_xml(data, AGENT_CONF, code=1101))


@operation(
    "PUT", "/groups/{group_id}/configuration", params=PutConfiguration, place=Place.MASTER, body_type=XML,
    changes_files=True, require=(Require("group:update_config", "group:id", param="group_id"),),
)  # fmt: skip
async def update_configuration(ctx: Context, params: PutConfiguration) -> Plain:
    """Replace the configuration that the agents of a group share, if they can understand it."""
    group = params.group_id

    def replace() -> list[str]:
        with while_group_exists(ctx.node.paths, group) as folder:
            return _replace(ctx.node, folder, params.body)

    notes = await asyncio.to_thread(replace)
    log.info("%s: %s replaced the configuration of %s", ctx.call.title, ctx.call.identity.user, group)
    return Plain(message=f"The configuration of the group {group} was replaced", notes=notes)


def _replace(node: Node, folder: Path, data: bytes) -> list[str]:
    """Replace ``agent.conf``; returns warnings. Raises 1112, 1911, 1113, 1124, 1114, 1016, and changes nothing then."""
    if not data.strip():
        raise SecmonError(1112)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise SecmonError(1911, f"byte {error.start}") from None
    document = parse_xml(text, AGENT_CONF, code=1113)
    refuse_forbidden_references(text, AGENT_CONF)
    check_commands(document, node.api_config.upload_configuration, root=AGENT_ROOT)
    report = Report(AGENT_CONF)
    verify_document(document, report)
    if report.problems:
        more = f"; and {len(report.problems) - MAX_REPORTED} more" if len(report.problems) > MAX_REPORTED else ""
        raise SecmonError(1114, "; ".join(str(problem) for problem in report.problems[:MAX_REPORTED]) + more)
    try:
        write_file(folder / AGENT_CONF, data, FILE_MODE)
    except OSError as error:
        raise write_error(1016, error, f"{folder.name}/{AGENT_CONF}") from error
    return report.warnings


@operation(
    "GET", "/groups/{group_id}/files", params=FilesQuery, place=Place.MASTER, require=(READ_GROUP,), item=GroupFile,
    fields=Fields(engine="list", select=("filename", "hash"), required=("filename",)),
    default_sort=Sort(("filename",)),
    messages=Messages(all="The files of the group were read", none="No file was read"),
)  # fmt: skip
async def list_files(ctx: Context, params: FilesQuery) -> Outcome:
    """The files of a group, with their hashes."""
    outcome, group = Outcome(), params.group_id

    def read() -> list[FileHash]:
        with while_group_exists(ctx.node.paths, group):
            return hash_files(ctx.node.paths, group, params.hash)

    try:
        outcome.items = [{"filename": name, "hash": digest} for name, digest in await asyncio.to_thread(read)]
    except SecmonError as error:
        if error.code not in (1006, 1710):
            raise
        outcome.fail(error, group)
    return outcome


@operation(
    "GET", "/groups/{group_id}/files/{file_name}", params=RawFileQuery, place=Place.MASTER, require=(READ_GROUP,),
    data=dict[str, Any] | list[Any], raw_type="text/plain",
)  # fmt: skip
async def read_group_file(ctx: Context, params: RawFileQuery) -> Result:
    """A file of a group, as an object or as it is."""
    data = await _read(ctx, params)
    if params.raw:
        return Raw(body=data, content_type=f"{_content_type(params.file_name)}; charset=utf-8")
    return Plain(data=await asyncio.to_thread(_parsed, params, data))


@operation(
    "GET", "/groups/{group_id}/files/{file_name}/json", params=FileQuery, place=Place.MASTER, require=(READ_GROUP,),
    data=dict[str, Any] | list[Any],
)  # fmt: skip
async def read_file_as_json(ctx: Context, params: FileQuery) -> Plain:
    """A file of a group, as an object."""
    data = await _read(ctx, params)
    return Plain(data=await asyncio.to_thread(_parsed, params, data))


@operation(
    "GET", "/groups/{group_id}/files/{file_name}/xml", params=FileQuery, place=Place.MASTER, require=(READ_GROUP,),
    raw_type=XML,
)  # fmt: skip
async def read_file_as_xml(ctx: Context, params: FileQuery) -> Raw:
    """A file of a group as it is, as XML."""
    return Raw(body=await _read(ctx, params), content_type=f"{XML}; charset=utf-8")


async def _read(ctx: Context, params: FileQuery) -> bytes:
    """Raises 1710, 1006, 1104."""
    if params.type is not None and len(params.type) > 1:
        raise SecmonError(1104, ", ".join(params.type))
    return await asyncio.to_thread(_content, ctx.node, params.group_id, params.file_name)


def _content(node: Node, group: str, name: str) -> bytes:
    """Raises 1710, 1006."""
    with while_group_exists(node.paths, group):
        return read_file(node.paths, group, name)


def _parsed(params: FileQuery, data: bytes) -> Any:
    """The content of the file as an object, by its type. Raises 1101."""
    kind = params.type[0] if params.type else _TYPES.get(params.file_name, "rcl")
    if kind == "conf":
        blocks = _blocks(data)
        return {"affected_items": blocks, "total_affected_items": len(blocks)}
    text = data.decode("utf-8", "replace")
    if params.file_name == AR_CONF and not params.type:
        return text.splitlines()
    read = {"rootkit_files": parse_rootkit_files, "rootkit_trojans": parse_rootkit_trojans, "rcl": parse_checks}[kind]
    return read(text)


def _content_type(name: str) -> str:
    if name == AGENT_CONF:
        return XML
    kind, encoding = mimetypes.guess_type(name)
    return kind if kind is not None and encoding is None else "text/plain"
