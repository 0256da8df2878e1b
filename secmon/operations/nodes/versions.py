"""``GET /manager/version/check``: newer versions of the product (manager.md 13.2)."""

import asyncio
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from secmon import API_VERSION
from secmon.agents.wire.version import parse
from secmon.cluster.catalogue import Place, operation
from secmon.cluster.executor import Context, authorizer, wait_for_revision
from secmon.cluster.parameters import Pretty
from secmon.cluster.updates.check import UpdateAnswer, UpdateService, installation_id, read_updates
from secmon.cluster.updates.releases import Release, newer
from secmon.common.clock import iso_micro, iso_z
from secmon.common.outcome import Plain
from secmon.operations.permissions import on_manager

FETCH_SECONDS = 4.0
"""For a query that a client waits for; less where its request has less than twice as much left."""
UPDATE = on_manager("update_config")


class Semver(Struct):
    """The numbers of a version."""

    major: int
    minor: int
    patch: int


class AvailableRelease(Struct):
    """A release that is newer; without members where there is none."""

    tag: str | UnsetType = UNSET
    title: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    published_date: str | UnsetType = UNSET
    semver: Semver | UnsetType = UNSET

    @classmethod
    def of(cls, release: Release | None) -> "AvailableRelease":
        if release is None:
            return cls()
        published = iso_z(release.published_date)
        return cls(release.tag, release.title, release.description, published, Semver(*release.version))


class NewVersions(Struct):
    """What is known of newer versions. ``last_check_date``: empty before the first query, and without queries."""

    uuid: str
    last_check_date: str
    current_version: str
    update_check: bool
    last_available_major: AvailableRelease
    last_available_minor: AvailableRelease
    last_available_patch: AvailableRelease


class VersionQuery(Pretty, frozen=True, kw_only=True):
    """Whether to ask now."""

    force_query: Annotated[
        bool, Meta(description="Ask the update service now, which takes `manager:update_config`.")
    ] = False


@operation(
    "GET", "/manager/version/check", params=VersionQuery, place=Place.MASTER_ONLY, open_to_all=True, exempt=True,
    data=NewVersions,
)  # fmt: skip
async def check(ctx: Context, params: VersionQuery) -> Plain:
    """Newer versions of the product, as the update service names them (`force_query`: `manager:update_config`)."""
    node = ctx.node
    if params.force_query:  # any token will do for what is stored, but not to have the master send requests
        await wait_for_revision(node, ctx.call)
        authorizer(node, ctx.call).check(UPDATE)
    updates = UpdateService(node.paths, read_updates(node.main_config), clock=node.clock, counters=node.counters)
    uid = await asyncio.to_thread(installation_id, node.paths)
    answer: UpdateAnswer | None = None
    if updates.settings.enabled:
        now = params.force_query
        answer = await (updates.fetch(_seconds(ctx)) if now else asyncio.to_thread(updates.last))
    found = newer(answer.releases if answer else (), parse(API_VERSION))
    versions = NewVersions(
        uuid=uid,
        last_check_date=iso_micro(answer.asked_at) if answer else "",
        current_version=f"v{API_VERSION}",
        update_check=updates.settings.enabled,
        last_available_major=AvailableRelease.of(found.major),
        last_available_minor=AvailableRelease.of(found.minor),
        last_available_patch=AvailableRelease.of(found.patch),
    )
    return Plain(data=msgspec.to_builtins(versions))


def _seconds(ctx: Context) -> float:
    """So that the service's failure is reported as such, before the request itself times out."""
    deadline = ctx.call.deadline
    return FETCH_SECONDS if deadline is None else min(FETCH_SECONDS, (deadline - ctx.node.clock.monotonic()) / 2)
