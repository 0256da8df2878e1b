"""Contents and hashes of the files of groups, for the API. Links are not followed."""

import hashlib
import os
import stat
from collections.abc import Iterator
from typing import Literal, NamedTuple

from secmon.agents.groups.folders import AR_CONF, group_folder
from secmon.common.errors import SecmonError
from secmon.common.files.tree import open_file, opened_folder
from secmon.common.paths import Paths

Algorithm = Literal[
    "md5", "sha1", "sha224", "sha256", "sha384", "sha512", "blake2b", "blake2s", "sha3_224", "sha3_256", "sha3_384",
    "sha3_512",
]  # fmt: skip

MAX_SHOWN = 64 << 20
"""Maximum size in bytes of a file in an answer."""

_BLOCK = 1 << 20


class FileHash(NamedTuple):
    """A file and the hash of its content, as hexadecimal digits."""

    filename: str
    hash: str


def hash_file(paths: Paths, group: str, name: str, algorithm: Algorithm) -> str | None:
    """Hash of a file at the top of a group's folder; None if it does not exist or cannot be read."""
    try:
        with opened_folder(paths.root, f"etc/shared/{group}") as folder:
            return _hash(folder, name, algorithm)
    except OSError:
        return None


def hash_files(paths: Paths, group: str, algorithm: Algorithm) -> list[FileHash]:
    """All files of a group with their paths below its folder, and the table of active responses, by name.

    Raises SecmonError 1006 for a file that cannot be read, 1727 for a folder.
    """
    found = []
    try:
        with opened_folder(paths.root, group_folder(paths, group).relative_to(paths.root).as_posix()) as top:
            for prefix, names, folder in _folders(top):
                found += list(_hashes(folder, prefix, names, algorithm))
        if not any(each.filename == AR_CONF for each in found):
            with opened_folder(paths.root, "etc/shared") as shared:
                found += list(_hashes(shared, "", [AR_CONF], algorithm))
    except OSError as error:
        raise SecmonError(1727, f"{group}: {error.strerror}", ids=(group,)) from error
    return sorted(found)


def read_file(paths: Paths, group: str, name: str) -> bytes:
    """A file of a group; ``ar.conf`` of all groups where it has none of its own. Raises SecmonError 1006."""
    if "/" in name or "\0" in name or name.startswith("."):
        raise SecmonError(1006, name[:200])
    error: OSError | None = None
    for place in (f"etc/shared/{group}", "etc/shared") if name == AR_CONF else (f"etc/shared/{group}",):
        try:
            with opened_folder(paths.root, place) as folder, open(open_file(folder, name), "rb") as file:
                data = file.read(MAX_SHOWN + 1)
        except OSError as failure:
            error = failure
            continue
        if len(data) > MAX_SHOWN:
            raise SecmonError(1006, f"{name}: it has more than {MAX_SHOWN} bytes")
        return data
    raise SecmonError(1006, f"{name}: {(error and error.strerror) or 'not a file'}")


def _folders(top: int) -> Iterator[tuple[str, list[str], int]]:
    """Path with its slash, names of files, and descriptor of a folder and all below it; hidden ones are left out."""
    for path, folders, names, descriptor in os.fwalk(".", dir_fd=top, follow_symlinks=False):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        prefix = path.removeprefix(".").removeprefix("/")
        yield f"{prefix}/" if prefix else "", sorted(names), descriptor


def _hashes(folder: int, prefix: str, names: list[str], algorithm: Algorithm) -> Iterator[FileHash]:
    for name in names:
        try:
            if name.startswith(".") or not stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                continue
            shown = os.fsencode(f"{prefix}{name}").decode("utf-8", "replace")
            yield FileHash(shown, _hash(folder, name, algorithm))
        except FileNotFoundError:
            continue  # deleted meanwhile
        except PermissionError as error:
            raise SecmonError(1006, f"{prefix}{name}: {error.strerror}") from error


def _hash(folder: int, name: str, algorithm: Algorithm) -> str:
    with open(open_file(folder, name), "rb") as file:
        digest = hashlib.new(algorithm, usedforsecurity=False)
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()
