"""What is kept of an advisory: a record, and the ranges of versions of packages that it is about."""

import msgspec

SEVERITIES = ("Untriaged", "None", "Low", "Medium", "High", "Critical")
"""From the lowest to the highest."""


class FeedError(Exception):
    """A feed, or an advisory file, that cannot be used; says why."""


class Advisory(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A record of a feed.

    ``cves``: what it stands for, or its own id. ``published``, ``updated``: ``YYYY-MM-DD``, or empty.
    """

    id: str
    cves: list[str]
    title: str = ""
    references: list[str] = []
    published: str = ""
    updated: str = ""


class Rating(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """How severe it is for a package. ``severity``: one of :data:`SEVERITIES`.

    Scores are those of CVSS 2, 3 and 4, 0 when unknown; ``vectors``: theirs, by version (``2``, ``3``, ``4``).
    """

    severity: str = "Untriaged"
    cvss2: float = 0.0
    cvss3: float = 0.0
    cvss4: float = 0.0
    vectors: dict[str, str] = {}


class AffectedRange(msgspec.Struct, frozen=True, kw_only=True):
    """Versions of a package from the key ``since`` to before ``until``; None: all that follow.

    ``condition``: in words (agent-data.md 9.5). ``hotfixes``: updates of which each makes the host safe.
    """

    name: str
    since: bytes
    until: bytes | None
    condition: str
    rating: Rating = Rating()
    hotfixes: tuple[str, ...] = ()


class FeedRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A record as a feed has it now. ``modified``: comparable as text. ``ranges``: by ecosystem."""

    advisory: Advisory
    modified: str
    ranges: dict[str, list[AffectedRange]]
