"""Releases of the product, as a list somewhere describes them, and which of them are newer (manager.md 13.2)."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta, Struct

from secmon.agents.wire.version import Version, parse
from secmon.common.clock import iso_z


class Release(Struct, frozen=True, kw_only=True):
    """One release. Texts are bounded: answers of the API contain them."""

    tag: Annotated[str, Meta(pattern=r"^v?[0-9]{1,6}\.[0-9]{1,6}\.[0-9]{1,6}$(?!\n)")]
    title: Annotated[str, Meta(max_length=1024)]
    description: Annotated[str, Meta(max_length=65_536)]
    published_date: Annotated[datetime, Meta(tz=True)]

    def __post_init__(self) -> None:
        try:
            iso_z(self.published_date)
        except OverflowError:
            raise ValueError("published_date is out of range") from None

    @property
    def version(self) -> Version:
        """Major, minor and patch."""
        return parse(self.tag)


Releases = Annotated[tuple[Release, ...], Meta(max_length=1000)]


class _Document(Struct, frozen=True):
    """Other members are left to their authors."""

    releases: Releases


class Newer(NamedTuple):
    """The last release of the next majors, of this major, and of this minor; None where there is none."""

    major: Release | None
    minor: Release | None
    patch: Release | None


def read_releases(data: bytes) -> tuple[Release, ...]:
    """The releases in a JSON document from anywhere. Raises ValueError, which says what is wrong."""
    try:
        return msgspec.json.decode(data, type=_Document).releases
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def newer(releases: Sequence[Release], own: Version) -> Newer:
    """What ``releases`` hold above ``own``: the first number that differs says of which kind each is."""

    def last(same: int) -> Release | None:
        above = [one for one in releases if one.version[:same] == own[:same] and one.version[same] > own[same]]
        return max(above, key=lambda one: one.version, default=None)

    return Newer(last(0), last(1), last(2))
