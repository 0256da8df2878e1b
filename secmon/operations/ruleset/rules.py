"""``/rules``: detection rules, their groups and requirements, and their files (analysis-api.md 2 and 5)."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from secmon.cluster.catalogue import Place, operation
from secmon.cluster.executor import Context, read_query
from secmon.cluster.node import Definitions
from secmon.cluster.parameters import (
    Alphanumeric,
    Common,
    Limit,
    Listing,
    Offset,
    SearchFor,
    SortBy,
    text_format,
)
from secmon.common import query
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
    XmlNames,
    delete_file,
    from_definitions,
    listed_files,
    read_file,
    upload_file,
)
from secmon.security.rbac.authorization import Require

Status = Literal["enabled", "disabled", "all"]
LevelRange = Annotated[str, text_format("range", r"[0-9]{1,9}|[0-9]{1,2}-[0-9]{1,2}")]
RuleNumber = Annotated[int, Meta(ge=1)]
Tag = Annotated[Alphanumeric | None, Meta(description="Only rules that have it.")]

REQUIREMENTS = ("pci_dss", "gdpr", "gpg13", "hipaa", "nist_800_53", "tsc", "mitre")
PLAIN = Fields(engine="list")

RULE_FIELDS = Fields(
    engine="list",
    select=(
        "description", "details", "filename", "gdpr", "groups", "id", "level", "relative_dirname", "pci_dss", "status",
        "gpg13", "hipaa", "nist_800_53", "tsc", "mitre",
    ),
    sort=("filename", "relative_dirname", "description", "id", "level", "status"),
    required=("id",),
)  # fmt: skip
FILE_FIELDS = Fields(engine="list", select=("filename", "relative_dirname", "status"), required=("filename",))

SEE_RULES = Require("rules:read", "rule:file", mode="restrict")
RULES = Messages(all="The rules were read", some="Some rules were not read", none="No rule was read")
VALUES = Messages(all="The values were read", some="Some rules could not be read", none="No value was read")


class Rule(Struct):
    """A rule as its file has it."""

    filename: str
    relative_dirname: str
    id: int
    level: int
    status: str
    details: dict[str, Any]
    pci_dss: list[str]
    gpg13: list[str]
    gdpr: list[str]
    hipaa: list[str]
    nist_800_53: list[str]
    tsc: list[str]
    mitre: list[str]
    groups: list[str]
    description: str


class RulesQuery(Listing, frozen=True, kw_only=True):
    """Query parameters of ``GET /rules``; a rule must pass all filters."""

    rule_ids: list[RuleNumber] | None = None
    status: Annotated[Status, Meta(description="Status of the file.")] = "all"
    group: Tag = None
    level: Annotated[LevelRange | None, Meta(description="A level, or a range such as 3-7.")] = None
    filename: Annotated[list[Alphanumeric] | None, Meta(description="Base names of files.")] = None
    relative_dirname: Annotated[FolderName | None, Meta(description="Part of the folder's name.")] = None
    pci_dss: Tag = None
    gdpr: Tag = None
    gpg13: Tag = None
    hipaa: Tag = None
    nist_800_53: Tag = field(default=None, name="nist-800-53")
    tsc: Tag = None
    mitre: Tag = None


class FilesQuery(Listing, frozen=True, kw_only=True):
    """Query parameters of ``GET /rules/files`` and ``GET /decoders/files``."""

    relative_dirname: Annotated[FolderName | None, Meta(description="The folder.")] = None
    filename: list[XmlNames] | None = None
    status: Status = "all"


class ValuesQuery(Common, frozen=True, kw_only=True):
    """Query parameters of lists of values."""

    offset: Offset = 0
    limit: Limit = 500
    sort: SortBy = None
    search: SearchFor = None


class RequirementQuery(ValuesQuery, frozen=True, kw_only=True):
    """Parameters of ``GET /rules/requirement/{requirement}``."""

    requirement: Literal["pci_dss", "gdpr", "hipaa", "nist-800-53", "gpg13", "tsc", "mitre"]


@operation(
    "GET", "/rules", params=RulesQuery, require=(SEE_RULES,), item=Rule, fields=RULE_FIELDS, default_sort=Sort(("id",)),
    messages=RULES,
)  # fmt: skip
async def read_rules(ctx: Context, params: RulesQuery) -> Outcome:
    """Rules of the files, loaded by the engine or not."""
    return await from_definitions(ctx, "rule", lambda found: _filtered(found, params))


def _filtered(found: Definitions, params: RulesQuery) -> Outcome:
    """Unknown ids are failed items, even where other filters would exclude their rules."""
    outcome = Outcome()
    items: Iterable[Mapping[str, Any]] = found.items
    if params.rule_ids is not None:
        wanted = set(params.rule_ids)
        for missing in wanted - {item["id"] for item in found.items}:
            outcome.fail(SecmonError(1208), missing)
        items = (item for item in items if item["id"] in wanted)
    outcome.items = [item for item in items if _matches(item, params)]
    return outcome


def _matches(item: Mapping[str, Any], params: RulesQuery) -> bool:
    if params.status not in ("all", item["status"]):
        return False
    if params.filename is not None and item["filename"] not in params.filename:
        return False
    if params.relative_dirname is not None and params.relative_dirname not in item["relative_dirname"]:
        return False
    if params.level is not None:
        least, _, most = params.level.partition("-")
        if not int(least) <= item["level"] <= int(most or least):
            return False
    if params.group is not None and params.group not in item["groups"]:
        return False
    asked = ((name, getattr(params, name)) for name in REQUIREMENTS)
    return all(value is None or value in item[name] for name, value in asked)


@operation("GET", "/rules/groups", params=ValuesQuery, require=(SEE_RULES,), item=str, messages=VALUES)
async def read_groups(ctx: Context, params: ValuesQuery) -> Outcome:
    """The groups of all rules."""
    return await from_definitions(ctx, "rule", lambda found: _values(found, "groups", params))


@operation(
    "GET", "/rules/requirement/{requirement}", params=RequirementQuery, require=(SEE_RULES,), item=str, messages=VALUES,
)  # fmt: skip
async def read_requirement(ctx: Context, params: RequirementQuery) -> Outcome:
    """The values that rules have of a requirement."""
    name = params.requirement.replace("-", "_")
    return await from_definitions(ctx, "rule", lambda found: _values(found, name, params))


def _values(found: Definitions, name: str, params: ValuesQuery) -> Outcome:
    values = dict.fromkeys(value for item in found.items for value in item[name])
    page = query.run_plain(values, read_query(params, PLAIN))
    return Outcome(items=list(page.items), total=page.total)


@operation(
    "GET", "/rules/files", params=FilesQuery, item=ListedFile, fields=FILE_FIELDS, default_sort=Sort(("filename",)),
    require=(Require("rules:read", "rule:file", param="filename", mode="each"),), messages=LISTED,
)  # fmt: skip
async def read_rule_files(ctx: Context, params: FilesQuery) -> Outcome:
    """The files of rules that the configuration names."""
    return await listed_files(ctx, "rule", folder=params.relative_dirname, status=params.status)


@operation(
    "GET", "/rules/files/{filename}", params=XmlFileQuery, place=Place.MASTER, item=dict[str, Any], raw_type=XML,
    require=(Require("rules:read", "rule:file", param="filename"),), messages=READ,
)  # fmt: skip
async def read_rule_file(ctx: Context, params: XmlFileQuery) -> Result:
    """A file of rules, as an object or as it is."""
    return await read_file(ctx, "rule", params.filename, params.relative_dirname, raw=params.raw)


@operation(
    "PUT", "/rules/files/{filename}", params=PutXmlFile, place=Place.MASTER, item=str, body_type=OCTETS,
    changes_files=True, require=(Require("rules:update"),), messages=UPLOADED,
)  # fmt: skip
async def put_rule_file(ctx: Context, params: PutXmlFile) -> Outcome:
    """Store a file of rules, and say what the engine makes of it."""
    return await upload_file(
        ctx, "rule", params.filename, params.relative_dirname, params.body, overwrite=params.overwrite
    )


@operation(
    "DELETE", "/rules/files/{filename}", params=DeleteXmlFile, place=Place.MASTER, changes_files=True, item=str,
    require=(Require("rules:delete", "rule:file", param="filename"),), messages=DELETED,
)  # fmt: skip
async def delete_rule_file(ctx: Context, params: DeleteXmlFile) -> Outcome:
    """Delete a file of rules."""
    return await delete_file(ctx, "rule", params.filename, params.relative_dirname)
