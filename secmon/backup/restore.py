"""Restores a backup: everything is read, checked and made ready beside the installation, and only then put in place."""

import errno
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, NamedTuple

from secmon.agents.wire.counters import Counter, parse
from secmon.backup.archive import About, read_archive
from secmon.backup.contents import Item
from secmon.backup.encryption import Identity, decrypt
from secmon.backup.fault import BackupError
from secmon.backup.pipes import produced
from secmon.cluster.store_checks import inspect_stores
from secmon.common.clock import Clock
from secmon.common.file_io import sync_folder, write_file
from secmon.common.paths import Paths
from secmon.common.privileges import find_account, is_root
from secmon.config.api import load_api_config
from secmon.config.checks import validate_installation
from secmon.daemons.installation_files import make_folders
from secmon.daemons.service_user import first_writable
from secmon.daemons.supervisor_lock import SupervisorLock

_STAGING = ".restore-"
_BEFORE = "before-restore-"
_RESERVE = 64 << 20
"""Bytes of the disk that are left free."""
_BLOCK = 1 << 20
_SKIPPED_COUNTS = 100_000
"""Global counts of the server's message counter that are skipped: a billion messages that the node may have sent since.

Agents that verify counters refuse a message with one that they have seen.
"""


class Restored(NamedTuple):
    """``aside``: the folder with what the installation folder held before, if it held anything."""

    about: About
    aside: Path | None


def restore_backup(
    archive: IO[bytes],
    identity: Identity,
    paths: Paths,
    *,
    replace: bool,
    daemons_as_root: bool = False,
    clock: Clock,
    progress: Callable[[int, int], None],
) -> Restored:
    """Make ``paths`` the installation that ``archive`` (behind its head) holds. The node must not run.

    ``daemons_as_root``: accept an installation whose daemons stay root. The service user can change the copy that a
    backup is made of, so a backup alone must not give it more rights.

    What is there before is kept aside, and only with ``replace``. Until the archive has been read and checked as a
    whole, nothing is changed. A process that is killed later leaves a folder without ``etc``, in which the command can
    be repeated. Raises BackupError, AlreadyRunning, OSError.
    """
    root = paths.root
    made = not root.exists()
    root.mkdir(mode=0o750, parents=True, exist_ok=True)
    lock = SupervisorLock(root)
    lock.acquire()
    try:
        _require_roots_own(root)
        if paths.main_config.exists() and not replace:
            raise BackupError(f"{root} holds an installation: stop it, and restore with --replace, or elsewhere")
        with _staging(root) as staged:
            about = _extract(archive, identity, staged, progress)
            _make_ready(staged, daemons_as_root=daemons_as_root)
            return Restored(about, _put_in_place(root, staged.root, clock))
    finally:
        lock.release()
        if made and not any(root.iterdir()):
            root.rmdir()


def _require_roots_own(root: Path) -> None:
    """Root makes and moves files by their names here. Raises BackupError for a folder of the service user."""
    account = find_account() if is_root() else None
    open_to = first_writable(account, root) if account else None
    if account and open_to:
        raise BackupError(
            f"the user {account.name} may write to {open_to}, and could misdirect what root does there: "
            f"chown root {open_to} && chmod g-w,o-w {open_to}"
        )


@contextmanager
def _staging(root: Path) -> Iterator[Paths]:
    """A folder on the disk of ``root`` that no other user can enter, removed afterwards; so is what killed processes
    have left."""
    for left in root.glob(f"{_STAGING}*"):
        shutil.rmtree(left)
    folder = root / f"{_STAGING}{secrets.token_hex(4)}"
    folder.mkdir(mode=0o700)
    try:
        yield Paths(folder / "content")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _extract(archive: IO[bytes], identity: Identity, staged: Paths, progress: Callable[[int, int], None]) -> About:
    """The content of the archive below ``staged``, with modes and owners. Raises BackupError, OSError."""
    account = find_account() if is_root() else None
    owner = (account.uid, account.gid) if account else None
    make_folders(staged, owner)
    done, total = 0, 0

    def begin(about: About) -> None:
        nonlocal total
        total = about.size
        _require_room(staged.root, total)

    def take(item: Item, content: IO[bytes]) -> None:
        nonlocal done
        _require_room(staged.root, item.size)
        _write(staged.root, item, content, owner)
        done += item.size
        progress(min(done, total), total)

    with produced(lambda out: decrypt(archive, out, identity)) as plain:
        return read_archive(plain, begin, take)


def _require_room(folder: Path, size: int) -> None:
    found = os.statvfs(folder)
    if size + _RESERVE > found.f_bavail * found.f_frsize:
        raise OSError(errno.ENOSPC, f"{os.strerror(errno.ENOSPC)}: the backup needs more room", str(folder))


def _write(root: Path, item: Item, content: IO[bytes], owner: tuple[int, int] | None) -> None:
    path = root / item.path
    user, group = (-1, -1) if owner is None else (0 if item.roots else owner[0], owner[1])
    _make_parents(root, path.parent, owner)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except (FileExistsError, IsADirectoryError) as error:
        raise BackupError(f"the backup is refused: {item.path} is in it as a file and as a folder") from error
    with open(descriptor, "wb") as file:
        shutil.copyfileobj(content, file, _BLOCK)
        file.flush()
        if file.tell() != item.size:
            raise BackupError("the backup is damaged: it is cut off")
        os.fchown(descriptor, user, group)
        os.fchmod(descriptor, item.mode)  # after the owner: a change of owner clears special bits
        os.fsync(descriptor)


def _make_parents(root: Path, folder: Path, owner: tuple[int, int] | None) -> None:
    """Folders of the operator, such as those of groups; the others were made with their own modes."""
    if folder == root or folder.is_dir():
        return
    _make_parents(root, folder.parent, owner)
    try:
        folder.mkdir()
    except (FileExistsError, NotADirectoryError) as error:
        relative = folder.relative_to(root)
        raise BackupError(f"the backup is refused: {relative} is in it as a file and as a folder") from error
    if owner is not None:
        os.chown(folder, *owner)
    folder.chmod(0o770)


def _make_ready(staged: Paths, *, daemons_as_root: bool) -> None:
    """Check that a node can start from what was extracted. Raises BackupError."""
    if not staged.main_config.exists():
        raise BackupError("the backup holds no etc/ossec.conf")
    problems = [str(each) for each in validate_installation(staged)]
    problems += inspect_stores(staged, worker=False).problems
    if problems:
        reasons = "; ".join(problems).replace(f"{staged.root}/", "")
        raise BackupError(f"the backup holds no installation that could start: {reasons}")
    if is_root() and not load_api_config(staged).drop_privileges and not daemons_as_root:
        api = staged.api_config.relative_to(staged.root)
        raise BackupError(
            f"{api} of the backup says drop_privileges: no, so the daemons would stay root. The service user could "
            "have put that in while the backup was made. If it was you: --daemons-as-root"
        )
    file = staged.counters / "sender_counter"
    counter = parse(file.read_text("utf-8", "replace")) if file.exists() else None
    if counter is not None:
        owner = file.stat()
        text = Counter(counter.major + _SKIPPED_COUNTS, counter.minor).text
        write_file(file, text.encode(), owner.st_mode & 0o777, owner.st_uid, owner.st_gid)


def _put_in_place(root: Path, staged: Path, clock: Clock) -> Path | None:
    """Exchange what is in ``root`` for what is in ``staged``; the folder with what was there, if anything was.

    ``etc``, which makes it an installation, goes first and comes last. A failure undoes what was done. Raises OSError.
    """
    status = staged.stat()
    there = [each.name for each in root.iterdir() if not each.name.startswith((_STAGING, _BEFORE))]
    aside = root / f"{_BEFORE}{clock.now():%Y%m%d%H%M%S}"
    with ExitStack() as undo:

        def move(source: Path, target: Path) -> None:
            os.rename(source, target)
            undo.callback(os.rename, target, source)

        if there:
            aside.mkdir(mode=0o700)
            undo.callback(aside.rmdir)
        for name in sorted(there, key=lambda name: name != "etc"):
            move(root / name, aside / name)
        sync_folder(root)
        for name in sorted((each.name for each in staged.iterdir()), key=lambda name: name == "etc"):
            move(staged / name, root / name)
        os.chown(root, status.st_uid, status.st_gid)
        os.chmod(root, status.st_mode & 0o7777)
        sync_folder(root)
        undo.pop_all()
    return aside if there else None
