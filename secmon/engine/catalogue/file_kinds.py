"""What differs between rules, decoders and lists: folders, and the codes of errors."""

from collections.abc import Mapping
from dataclasses import dataclass

from secmon.cluster.node import RulesetKind
from secmon.common.errors import SecmonError


@dataclass(frozen=True, slots=True)
class FileKind:
    """Folders are relative to the installation; numbers are codes of the error catalogue, 0: none."""

    shipped: str
    own: str
    """The default folder of user files."""
    absent: int
    unreadable: int
    malformed: int
    vanished: int = 0
    """While all files are read."""
    forbidden: int = 0
    no_section: int = 0
    not_configured: int = 0
    is_shipped: int = 0
    no_folder: int = 0


KINDS: Mapping[RulesetKind, FileKind] = {
    "rule": FileKind("ruleset/rules", "etc/rules", 1415, 1414, 1413, 1201, 1207, 1200, 1209, 1210, 1211),
    "decoder": FileKind("ruleset/decoders", "etc/decoders", 1503, 1502, 1501, 1502, 1502, 1500, 1505, 1506, 1507),
    "list": FileKind("ruleset/lists", "etc/lists", 1802, 1803, 1800),
}


def unreadable(kind: RulesetKind, path: str, error: OSError, *, listing: bool = False) -> SecmonError:
    """``error`` as an API error; ``listing``: while all files are read."""
    codes = KINDS[kind]
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return SecmonError(codes.vanished if listing else codes.absent, path, ids=(path,))
    if isinstance(error, IsADirectoryError) and kind == "list":
        return SecmonError(1804, path, ids=(path,))
    return SecmonError(codes.forbidden if listing else codes.unreadable, f"{path}: {error.strerror}", ids=(path,))
