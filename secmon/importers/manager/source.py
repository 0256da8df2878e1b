"""Reads the files of a 4.x manager that are taken over as they are (manager.md 15)."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from secmon.common.errors import SecmonError, os_text
from secmon.common.files.tree import list_folder, open_file, opened_folder
from secmon.importers.report import ReportLine, printable

MAIN = "etc/ossec.conf"
RBAC = "api/configuration/security/rbac.db"
MAX_BYTES = 64 << 20
MAX_TOTAL = 256 << 20
"""Bytes of a file, and of all files together: they are held in memory."""
MAX_LEVELS = 16
"""Of folders in folders."""
_FOLDERS = {"etc/rules": ".xml", "etc/decoders": ".xml", "etc/lists": ""}
"""Folders with the ending of their files."""
_SINGLE = ("etc/authd.pass", "etc/sslmanager.cert", "etc/sslmanager.key")
_OWN = {
    "api/configuration/api.yaml": "this node keeps its own; set there what you need",
    "etc/local_internal_options.conf": "this node keeps its own; set there what you need",
    "api/configuration/ssl": "this node keeps its own certificate of the API",
    "active-response/bin": "programs are not taken over; copy those that you use, and read them first",
    "integrations": "programs are not taken over; copy those that you use, and read them first",
}


class Files(Struct, frozen=True):
    """``files``: contents by path, without the main configuration ``main``; ``lines``: what is not taken over."""

    main: bytes | None
    files: Mapping[str, bytes]
    lines: tuple[ReportLine, ...]


def read_files(root: Path) -> Files:
    """Read the folder without writing to it or following links in it. Raises SecmonError 1006."""
    lines: list[ReportLine] = []
    try:
        files = {name: data for name in _SINGLE if (data := _content(root, name)) is not None}
        total = sum(map(len, files.values()))
        for folder, ending in _FOLDERS.items():
            for name in _names(root, folder, lines):
                if name.endswith((".cdb", "~", ".tmp")) or not name.endswith(ending):
                    lines.append(ReportLine("dropped", "file", printable(name), "not a source of the ruleset"))
                elif (data := _content(root, name)) is not None:
                    files[name] = data
                    total += len(data)
                    if total > MAX_TOTAL:
                        too_large = f"rules, decoders and lists of more than {MAX_TOTAL >> 20} MiB"
                        raise SecmonError(1006, f"{root}: {too_large}")
        main = _content(root, MAIN)
    except OSError as error:
        raise SecmonError(1006, os_text(error)) from error
    lines += [ReportLine("dropped", "file", name, why) for name, why in _OWN.items() if (root / name).exists()]
    return Files(main, files, tuple(lines))


def _names(root: Path, folder: str, lines: list[ReportLine]) -> Iterator[str]:
    """Paths of the files below ``folder``; the user of the other manager may have made links there."""
    if not (root / folder).is_dir():
        return
    for name, is_folder, is_file in list_folder(root, folder):
        if is_folder and folder.count("/") >= MAX_LEVELS:
            lines.append(ReportLine("dropped", "file", printable(f"{folder}/{name}"), "too many folders in folders"))
        elif is_folder:
            yield from _names(root, f"{folder}/{name}", lines)
        elif is_file:
            yield f"{folder}/{name}"
        else:
            lines.append(ReportLine("dropped", "file", printable(f"{folder}/{name}"), "not a file"))


def _content(root: Path, name: str) -> bytes | None:
    """The content of a file; None when there is none. Raises OSError, SecmonError 1006 when it is too large."""
    folder, _, last = name.rpartition("/")
    try:
        with opened_folder(root, folder) as descriptor, open(open_file(descriptor, last), "rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return None
    if len(data) > MAX_BYTES:
        raise SecmonError(1006, f"{root / name}: too large")
    return data
