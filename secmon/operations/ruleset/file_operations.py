"""Read, upload and delete files of rules, decoders and lists: the common part of these operations.

Uploads and deletions run on the master; workers receive the changes as all replicated files.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any

from msgspec import Meta, Struct

from secmon.cluster.executor import Context
from secmon.cluster.node import Definitions, Finding, RulesetFile, RulesetFiles, RulesetKind, RulesetValidation, XmlKind
from secmon.cluster.parameters import Common, text_format
from secmon.common.errors import Kind, SecmonError
from secmon.common.outcome import Messages, Outcome, Raw, Result
from secmon.common.to_the_end import to_the_end
from secmon.security.rbac.authorization import Require

log = logging.getLogger("secmon.operations")

XML = "application/xml"
TEXT = "text/plain"
MAX_NOTES = 5
"""Findings about the ruleset in one answer."""
MAX_NAME = 255
"""Bytes of a file name."""
BEFORE_SHARE = 0.3
"""Share of the time left for the validation of the ruleset as it is; that of the change follows."""

XmlName = Annotated[str, text_format("xml_filename_path", r"[\w\-]+\.xml")]
ListName = Annotated[str, text_format("cdb_filename_path", r"[\w\-]+")]
XmlNames = Annotated[str, text_format("xml_filename", r"[\w\-]+\.xml")]
FolderName = Annotated[
    str, text_format("get_dirnames_path", r"((etc|ruleset)/(decoders|rules)[\w\-/]*)|(etc/lists[\w\-/]*)")
]
InFolder = Annotated[FolderName | None, Meta(description="Folder below the installation folder.")]
AsItIs = Annotated[bool, Meta(description="Answer with the file itself.")]
Overwrite = Annotated[bool, Meta(description="Replace the file if there is one of this name.")]


class ListedFile(Struct):
    """A file of rules or decoders; ``disabled``: the configuration leaves it out."""

    filename: str
    relative_dirname: str
    status: str


class XmlFileQuery(Common, frozen=True, kw_only=True):
    """Query parameters of ``GET .../files/{filename}``."""

    filename: XmlName
    raw: AsItIs = False
    relative_dirname: InFolder = None


class PutXmlFile(Common, frozen=True, kw_only=True):
    """Parameters and body of ``PUT .../files/{filename}``: the whole file."""

    filename: XmlName
    body: bytes
    overwrite: Overwrite = False
    relative_dirname: InFolder = None


class DeleteXmlFile(Common, frozen=True, kw_only=True):
    """Parameters of ``DELETE .../files/{filename}``."""

    filename: XmlName
    relative_dirname: InFolder = None


READ = Messages(all="The file was read", none="The file was not read")
UPLOADED = Messages(all="The file was stored", none="The file was not stored")
DELETED = Messages(all="The file was deleted", none="The file was not deleted")
LISTED = Messages(all="The files were read", some="Some files could not be read", none="No file was read")


def ruleset_of(ctx: Context) -> RulesetFiles:
    """Raises 1000 in a process that has none: no operation runs there."""
    if ctx.node.services.ruleset is None:
        raise SecmonError(1000, "no ruleset in this process")
    return ctx.node.services.ruleset


def _validation(ctx: Context) -> RulesetValidation:
    """Raises 1000 in a process that has none: no operation runs there."""
    if ctx.node.services.validation is None:
        raise SecmonError(1000, "no validation of the ruleset in this process")
    return ctx.node.services.validation


def trimmed(folder: str | None) -> str | None:
    return None if folder is None else folder.rstrip("/")


async def from_definitions(ctx: Context, kind: XmlKind, make: Callable[[Definitions], Outcome]) -> Outcome:
    """The answer that ``make`` draws, from parameters alone, from the definitions in files that the caller may read."""
    files, scope = ruleset_of(ctx), ctx.grant(f"{kind}:file").scope

    def work() -> Outcome:
        found = files.definitions(kind, lambda file: file.filename in scope)
        outcome = make(found)
        for failure in found.failures:
            outcome.fail(failure)
        return outcome

    return await ctx.remembered(await files.version(kind), work)


async def listed_files(ctx: Context, kind: XmlKind, *, folder: str | None, status: str) -> Outcome:
    """The files that the caller may see, in the order of the configuration."""
    files = await asyncio.to_thread(ruleset_of(ctx).listed, kind)
    names = set(ctx.grant(f"{kind}:file").select(dict.fromkeys(file.filename for file in files)))
    where = trimmed(folder)

    def wanted(file: RulesetFile) -> bool:
        return file.filename in names and where in (None, file.relative_dirname) and status in ("all", file.status)

    return Outcome(
        items=[
            {"filename": file.filename, "relative_dirname": file.relative_dirname, "status": file.status}
            for file in files
            if wanted(file)
        ]
    )


async def read_file(ctx: Context, kind: RulesetKind, filename: str, folder: str | None, *, raw: bool) -> Result:
    """One file, as an object or raw. An error of the file is a failed item."""
    files = ruleset_of(ctx)

    def work() -> Any:
        data = files.read(kind, files.find(kind, filename, folder))
        return data if raw else files.as_object(kind, data)

    outcome = Outcome()
    try:
        found = await asyncio.to_thread(work)
    except SecmonError as error:
        if error.kind is Kind.INTERNAL:
            raise
        outcome.fail(SecmonError(error.code, error.extra), filename)
        return outcome
    if raw:
        return Raw(body=found, content_type=f"{TEXT if kind == 'list' else XML}; charset=utf-8")
    outcome.items.append(found)
    return outcome


async def upload_file(
    ctx: Context, kind: RulesetKind, filename: str, folder: str | None, data: bytes, *, overwrite: bool
) -> Outcome:
    """Store a file (analysis-api.md 5.2). Raises 1911, 1006 (name too long); other errors are failed items.

    The file is replaced atomically, so no copy of the old one is needed.
    """
    if len(os.fsencode(filename)) > MAX_NAME:
        raise SecmonError(1006, f"the name is longer than {MAX_NAME} bytes")
    try:
        data.decode()
    except UnicodeDecodeError as error:
        raise SecmonError(1911, f"byte {error.start}") from None
    files, outcome = ruleset_of(ctx), Outcome()
    path = _shown_path(kind, filename, folder)
    try:
        path = await asyncio.to_thread(files.target, kind, filename, folder)
        await asyncio.to_thread(files.check, kind, data)
        async with files.changes:
            if await asyncio.to_thread(files.exists, path):
                if not overwrite:
                    raise SecmonError(1905, path)
                await _may_delete(ctx, kind)
            notes = await _validated(ctx, path, data)
            # A separate step: a caller that is cancelled during the checks changes nothing.
            await to_the_end(partial(files.write, kind, path, data, overwrite=overwrite))
    except SecmonError as error:
        return _failed(outcome, error, path)
    log.info("%s: %s stored %s", ctx.call.title, ctx.call.identity.user, path)
    outcome.items.append(path)
    outcome.notes += notes
    return outcome


async def delete_file(ctx: Context, kind: RulesetKind, filename: str, folder: str | None) -> Outcome:
    """Delete a file of users (analysis-api.md 5.5)."""
    files, outcome = ruleset_of(ctx), Outcome()
    path = _shown_path(kind, filename, folder)
    try:
        path = await asyncio.to_thread(files.target, kind, filename, folder)
        async with files.changes:
            if not await asyncio.to_thread(files.exists, path):
                raise SecmonError(1906, path)
            notes = await _validated(ctx, path, None)
            await to_the_end(partial(files.delete, kind, path))
    except SecmonError as error:
        return _failed(outcome, error, path)
    log.info("%s: %s deleted %s", ctx.call.title, ctx.call.identity.user, path)
    outcome.items.append(path)
    outcome.notes += notes
    return outcome


def _shown_path(kind: RulesetKind, filename: str, folder: str | None) -> str:
    """The id of failures before the path is known to be allowed."""
    return f"{trimmed(folder) or f'etc/{kind}s'}/{filename}"


async def _may_delete(ctx: Context, kind: RulesetKind) -> None:
    """Raises 4000 unless the caller may delete the file that the request names."""
    if not await ctx.allows(Require(f"{kind}s:delete", f"{kind}:file", param="filename")):
        raise SecmonError(4000, f"Resource type: {kind}:file")


def _failed(outcome: Outcome, error: SecmonError, path: str) -> Outcome:
    if error.kind is Kind.INTERNAL:
        raise error
    outcome.fail(SecmonError(error.code, error.extra), path)
    return outcome


async def _findings_before(ctx: Context, share: float) -> Sequence[Finding] | None:
    """Findings about the ruleset as it is now; None when ``share`` of the time left is not enough."""
    left = None if ctx.call.deadline is None else ctx.call.deadline - ctx.node.clock.monotonic()
    try:
        async with asyncio.timeout(None if left is None else max(0.0, left * share)):
            return await _validation(ctx).findings()
    except TimeoutError:
        return None


async def _validated(ctx: Context, path: str, data: bytes | None) -> list[str]:
    """Notes on the ruleset with ``data`` at ``path``, None: without this file.

    Raises 1908 when the engine could not use it, 1904. Call it while ``RulesetFiles.changes`` is held.
    """
    before = await _findings_before(ctx, BEFORE_SHARE)
    changed = {path: data}
    refused = await _validation(ctx).blocking_error(changed)
    if refused is not None:
        raise SecmonError(1908, refused.text)
    return remarks(await _validation(ctx).findings(changed), path, before)


def remarks(findings: Sequence[Finding], path: str | None = None, before: Sequence[Finding] | None = None) -> list[str]:
    """Notes for an answer: errors, warnings about the file ``path``, and those that ``before`` does not have; bounded.

    After an error there are no warnings, so nothing is known to be new when ``before`` holds one.
    """
    known = None if before is None or any(one.error for one in before) else set(before)
    notes = [
        f"The engine cannot use the ruleset: {one.text}" if one.error else one.text
        for one in findings
        if one.error or (path is not None and one.file == path) or (known is not None and one not in known)
    ]
    more = len(notes) - MAX_NOTES
    return [*notes[:MAX_NOTES], f"{more} more findings"] if more > 0 else notes
