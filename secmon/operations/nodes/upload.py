"""``PUT /manager/configuration`` and its twin ``PUT /cluster/{node_id}/configuration`` (manager.md 5)."""

import asyncio
import logging
from contextlib import nullcontext
from functools import partial

from secmon.cluster.catalogue import Place, operation
from secmon.cluster.executor import Context
from secmon.cluster.node import Node
from secmon.cluster.parameters import Common
from secmon.cluster.store_checks import security_problem
from secmon.common.errors import SecmonError
from secmon.common.outcome import Messages, Outcome
from secmon.common.to_the_end import to_the_end
from secmon.config.checks import bounded, invalid
from secmon.config.main import check_main_config, parse_main_config
from secmon.config.masking import restore_text
from secmon.config.replace import replace_main_config
from secmon.config.upload import check_upload
from secmon.config.xml import Element, XmlError, parse_xml
from secmon.operations.permissions import NodePath, on_manager, on_node

log = logging.getLogger("secmon.operations")

OCTETS = "application/octet-stream"


class Upload(Common, frozen=True, kw_only=True):
    """The whole new file."""

    body: bytes


class NodeUpload(NodePath, frozen=True, kw_only=True):
    """The whole new file of which node."""

    body: bytes


UPLOAD = Messages(
    all="The configuration was replaced; it takes effect at the next restart", none="The configuration was not replaced"
)


@operation(
    "PUT", "/manager/configuration", params=Upload, require=(on_manager("update_config"),), messages=UPLOAD, item=str,
    body_type=OCTETS, exempt=True,
)  # fmt: skip
@operation(
    "PUT", "/cluster/{node_id}/configuration", params=NodeUpload, place=Place.NODE, node_param="node_id",
    require=(on_node("read"), on_node("update_config")), messages=UPLOAD, item=str, body_type=OCTETS,
    needs_cluster=True, exempt=True,
)  # fmt: skip
async def upload(ctx: Context, params: Upload | NodeUpload) -> Outcome:
    """Replace the main configuration of a node, from its next restart on."""
    text = _text(params.body)
    node, outcome = ctx.node, Outcome()
    try:
        # Two steps: a caller who gives up while a service is asked leaves the file as it was.
        saved, new, warnings = await asyncio.to_thread(_checked, node, text)
        async with node.services.ruleset.changes if node.services.ruleset is not None else nullcontext():
            await _check_ruleset(node, new)
            now = node.clock.now()
            await to_the_end(partial(replace_main_config, node.paths, saved=saved, new=new, now=now))
    except SecmonError as error:
        outcome.fail(error, node.name)
        return outcome
    log.info("%s: %s replaced the main configuration", ctx.call.title, ctx.call.identity.user)
    outcome.items.append(node.name)
    outcome.notes += bounded(warnings)
    return outcome


def _text(body: bytes) -> str:
    """Raises 1912 for no body, 1911 for one that is not UTF-8; the whole request fails with them."""
    if not body:
        raise SecmonError(1912)
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise SecmonError(1911, f"byte {error.start}") from None


def _checked(node: Node, text: str) -> tuple[bytes, bytes, list[str]]:
    """The file on disk, the text that may replace it, and warnings about that: the upload with masked secrets restored.

    Raises 1113, 1124 to 1131 (``check_upload``), 1019 when the present file cannot be read, 1908 when the new one is
    not valid, 1127 when a worker would no longer follow the master whose security state it holds, 3028 and 3029 when
    another node of the cluster has its new name.
    """
    file = node.paths.main_config
    try:
        saved = file.read_bytes()
    except OSError as error:
        raise SecmonError(1019, f"{file.name}: {error.strerror}") from None
    new = restore_text(text, saved.decode("utf-8", "replace"))
    check_upload(parse_xml(new, file.name), _parsed(saved), node.api_config.upload_configuration)
    report = check_main_config(new, file=file.name)
    if report.problems:
        raise invalid(report.problems)
    _check_cluster(node, new)
    return saved, new.encode(), report.warnings


def _check_cluster(node: Node, new: str) -> None:
    """Raises 1127 and, for a name that the node could not join its cluster with, 3028 or 3029.

    A worker's security state is a replica: without its master the node would honour what the master has revoked.
    """
    cluster = parse_main_config(new).cluster
    if node.role == "worker" and not cluster.is_worker and cluster.store is None:
        reason = security_problem(node.paths)
        if reason is not None:
            raise SecmonError(1127, f"cluster: {reason}")
    if cluster.disabled or node.services.membership is None or cluster.node_name == node.name:
        return
    for member in node.services.membership.members():
        if member.name != node.name and member.name.casefold() == cluster.node_name.casefold():
            code = 3029 if "master" in (member.type, node.role) else 3028
            raise SecmonError(code, f"node_name {cluster.node_name}: the {member.type} at {member.ip} has this name")


async def _check_ruleset(node: Node, new: bytes) -> None:
    """Raises 1908 when the ruleset of the files that ``new`` names does not load, 1904 without a verdict."""
    if node.services.validation is not None:
        file = str(node.paths.main_config.relative_to(node.paths.root))
        refused = await node.services.validation.blocking_error({file: new})
        if refused is not None:
            raise SecmonError(1908, refused.text)


def _parsed(saved: bytes) -> Element | None:
    try:
        return parse_xml(saved, "saved")
    except XmlError:
        return None
