"""The file of ATT&CK: a gzip of one JSON object a line, as the product ships and writes it."""

import gzip
import io
import zlib
from collections.abc import Iterator
from typing import Literal

import msgspec

MAX_BYTES = 256 << 20
"""Bytes of an uncompressed file."""
MAX_LINE = 1 << 20

Kind = Literal["tactic", "technique", "group", "software", "mitigation"]
KINDS: dict[str, Kind] = {
    "x-mitre-tactic": "tactic",
    "attack-pattern": "technique",
    "intrusion-set": "group",
    "malware": "software",
    "tool": "software",
    "course-of-action": "mitigation",
}
"""Kinds by STIX type (analysis-api.md 8.4); objects of other types are ignored."""
OWN_SOURCE = "mitre-attack"
"""Source of the reference that gives an object its external id."""


class AttackError(Exception):
    """A file that cannot be used as ATT&CK; says why."""


class Reference(msgspec.Struct, frozen=True, omit_defaults=True):
    """An external reference with an address."""

    source: str
    url: str | None = None
    external_id: str | None = None
    description: str | None = None


class AttackObject(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="kind", tag="object"):
    """A tactic, technique, group, software or mitigation, with its STIX properties."""

    type: str
    id: str
    name: str
    created: str
    modified: str
    external_id: str | None = None
    url: str | None = None
    description: str | None = None
    revoked: bool = False
    deprecated: bool = False
    version: str | None = None
    short_name: str | None = None
    phases: tuple[str, ...] = ()
    detection: str | None = None
    network_requirements: bool = False
    remote_support: bool = False
    references: tuple[Reference, ...] = ()
    """Besides the one with the external id."""


class Relation(msgspec.Struct, frozen=True, tag_field="kind", tag="relation"):
    """``verb`` is the STIX type of the relationship."""

    verb: str
    source: str
    target: str


class Release(msgspec.Struct, frozen=True, tag_field="kind", tag="release"):
    """The first line. ``spec_version`` is that of STIX, ``version`` that of ATT&CK where it is known."""

    spec_version: str
    version: str = ""


Record = Release | AttackObject | Relation

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Record).decode


def write_records(records: Iterator[Record]) -> bytes:
    """The file of ``records``, which begin with the release. The same records give the same bytes."""
    buffer = io.BytesIO()
    with gzip.GzipFile(fileobj=buffer, mode="wb", mtime=0) as file:
        for record in records:
            file.write(_encode(record) + b"\n")
    return buffer.getvalue()


def read_records(content: bytes) -> Iterator[Record]:
    """The records of a file. Raises AttackError."""
    size = number = 0
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
            while line := file.readline(MAX_LINE):
                number, size = number + 1, size + len(line)
                if size > MAX_BYTES:
                    raise AttackError(f"it has more than {MAX_BYTES >> 20} MB")
                yield _decode(line)
    except (OSError, EOFError, zlib.error) as error:
        raise AttackError(f"it is not a whole gzip file: {error}") from None
    except msgspec.DecodeError as error:
        raise AttackError(f"line {number}: {error}") from None
