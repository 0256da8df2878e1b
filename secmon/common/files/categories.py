"""Which files are replicated (cluster.md 4.2.1)."""

from dataclasses import dataclass

from secmon.common.errors import SecmonError

FOLDER_MODE = 0o770
MAX_DEPTH = 32
"""Folders between the installation folder and a file; deeper files are not replicated."""
MAX_NAME = 255
MAX_PATH = 3500
"""Bytes of a path below the installation folder; leaves room for the latter within the system's limit."""


@dataclass(frozen=True)
class Category:
    """One replicated folder with all below. ``only``: just files of that name; ``mode``: what files get on a worker."""

    folder: str
    only: str | None = None
    mode: int = 0o660
    remove_emptied: bool = False


CATEGORIES = (
    Category("etc/shared", remove_emptied=True),
    Category("var/multigroups", only="merged.mg", remove_emptied=True),
    Category("etc/rules"),
    Category("etc/decoders"),
    Category("etc/lists"),
    Category("etc/attack"),
    Category("etc/advisories"),
)

_EXCLUDED_NAMES = frozenset({"ar.conf", "ossec.conf"})
_EXCLUDED_ENDINGS = ("~", ".tmp", ".lock", ".swp")


def excluded(name: str) -> bool:
    """Whether files called ``name`` stay on their node, whatever the folder."""
    return name in _EXCLUDED_NAMES or name.endswith(_EXCLUDED_ENDINGS)


def category_of(path: str) -> Category | None:
    """The category that replicates the file ``path`` (below the installation folder); None: it is not replicated."""
    parent, _, name = path.rpartition("/")
    if excluded(name):
        return None
    for category in CATEGORIES:
        if f"{parent}/".startswith(f"{category.folder}/") and category.only in (None, name):
            return category
    return None


def below_category(path: str) -> bool:
    """Whether ``path`` is inside a category folder."""
    return any(path.startswith(f"{category.folder}/") for category in CATEGORIES)


def well_formed(path: str) -> bool:
    """Whether ``path`` is relative, plain (no empty, ``.`` or ``..`` part, no NUL), of valid text and bounded."""
    parts = path.split("/")
    if "\0" in path or len(parts) > MAX_DEPTH or any(part in ("", ".", "..") for part in parts):
        return False
    try:
        encoded = path.encode()
    except UnicodeEncodeError:  # a file name on disk that is not UTF-8
        return False
    return len(encoded) <= MAX_PATH and all(len(part.encode()) <= MAX_NAME for part in parts)


def checked(path: str) -> Category:
    """The category of a path that a peer sent. Raises 3045 for anything outside the replicated set."""
    category = category_of(path) if well_formed(path) else None
    if category is None:
        raise SecmonError(3045, f"path {path[:200]!r} is not replicated")
    return category
