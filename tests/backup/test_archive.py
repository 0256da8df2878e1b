"""Archives that only an attacker makes are refused; those that are whole are read as they were written."""

import gzip
import io
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import IO

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from secmon.backup.archive import About, read_archive, write_archive
from secmon.backup.contents import Item
from secmon.backup.fault import BackupError

ABOUT = About(version="1", node="m1", role="master", created=1.5, files=1, size=3)
Member = tuple[tarfile.TarInfo, bytes]


def member(name: str, data: bytes = b"abc", kind: bytes = tarfile.REGTYPE, link: str = "") -> Member:
    header = tarfile.TarInfo(name)
    header.type, header.linkname, header.size = kind, link, len(data)
    return header, data


def about(made: About = ABOUT) -> Member:
    return member("backup.json", msgspec.json.encode(made))


def end(files: int = 1, size: int = 3) -> Member:
    return member("end.json", msgspec.json.encode({"files": files, "size": size}))


def tar(*members: Member) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as file:
        for header, data in members:
            file.addfile(header, io.BytesIO(data))
    return out.getvalue()


def read(plain: bytes, begin: Callable[[About], None] = lambda _: None) -> dict[str, bytes]:
    taken: dict[str, bytes] = {}

    def take(item: Item, content: IO[bytes]) -> None:
        taken[item.path] = content.read()

    read_archive(io.BytesIO(gzip.compress(plain)), begin, take)
    return taken


def test_what_was_written_is_read(tmp_path: Path) -> None:
    names = ["etc/ossec.conf", "etc/shared/" + "g" * 120 + "/" + "ü" * 100, "queue/db/agents.db"]
    items = []
    for number, name in enumerate(names):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * (number * 100_000))
        items.append(Item(name, path.stat().st_size, 0o640, number == 0))
    out = io.BytesIO()
    made = msgspec.structs.replace(ABOUT, files=3, size=300_000)
    write_archive(out, tmp_path, made, items, lambda _: None)
    taken: list[tuple[Item, bytes]] = []
    out.seek(0)
    assert read_archive(out, lambda _: None, lambda item, content: taken.append((item, content.read()))) == made
    assert taken == [(item, (tmp_path / item.path).read_bytes()) for item in items]


def test_a_plain_archive_is_read() -> None:
    assert read(tar(about(), member("etc/x"), end())) == {"etc/x": b"abc"}


@pytest.mark.parametrize(
    "name",
    [
        *("/etc/passwd", "../etc/x", "etc/../../x", "etc//x", "etc/./x", "./etc/x", "etc/", "etc", "tmp/x", "new/x"),
        *("queue/sockets/x", "var/run/role", ".restore-x/etc", "before-restore-1/etc/x", "etc/a\nb", "logs/ossec.log"),
        "queue/db/agents.db-wal",
    ],
)
def test_paths_that_no_backup_has_are_refused(name: str) -> None:
    with pytest.raises(BackupError):
        read(tar(about(), member(name), end()))


@pytest.mark.parametrize(
    "kind",
    [
        *(tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE),
        *(tarfile.GNUTYPE_SPARSE, tarfile.GNUTYPE_LONGLINK, tarfile.XHDTYPE, tarfile.XGLTYPE),
    ],
)
def test_other_kinds_of_entries_are_refused(kind: bytes) -> None:
    with pytest.raises(BackupError, match="something else than plain files"):
        read(tar(about(), member("etc/x", b"", kind, "/etc/passwd"), end(1, 0)))


def test_what_is_not_whole_is_refused() -> None:
    whole = tar(about(), member("etc/x"), end())
    for bad, reason in (
        (tar(about(), member("etc/x")), "its end is missing"),
        (tar(about(), end()), "does not hold what it says"),
        (tar(about(), member("etc/x"), end(1, 4)), "does not hold what it says"),
        (tar(about(), member("etc/x"), member("etc/x"), end(2, 6)), "twice"),
        (tar(member("etc/x"), end()), "no backup.json"),
        (tar(about(msgspec.structs.replace(ABOUT, format=2)), end(0, 0)), "later version"),
        (whole + b"more", "something follows"),
        (b"", "damaged"),
    ):
        with pytest.raises(BackupError, match=reason):
            read(bad)
    packed = gzip.compress(whole)
    for cut in (packed[:-1], packed[: len(packed) // 2], packed[:-8] + b"\0" * 8):
        with pytest.raises(BackupError, match="damaged"):
            read_archive(io.BytesIO(cut), lambda _: None, lambda *_: None)


def test_a_header_that_wants_memory_is_refused_before_it_is_read() -> None:
    header, _ = member("etc/x", b"", tarfile.GNUTYPE_LONGNAME)
    header.size = 1 << 40
    plain = tar(about())[:-10240].rstrip(b"\0")
    plain += b"\0" * (-len(plain) % 512) + header.tobuf(tarfile.GNU_FORMAT)
    with pytest.raises(BackupError, match="something else than plain files"):
        read(plain)


def test_long_names_without_end_are_refused() -> None:
    names = [member("x", b"etc/x\0", tarfile.GNUTYPE_LONGNAME) for _ in range(2000)]
    with pytest.raises(BackupError):
        read(tar(about(), *names, member("etc/x"), end()))


def test_the_reader_may_refuse_what_is_said_first() -> None:
    def refuse(said: About) -> None:
        raise BackupError(f"too large: {said.size}")

    with pytest.raises(BackupError, match="too large: 3"):
        read(tar(about(), member("etc/x"), end()), refuse)


@given(st.binary(max_size=3000), st.booleans())
def test_any_bytes_are_refused(data: bytes, within: bool) -> None:
    plain = tar(about()) if within else b""
    with pytest.raises(BackupError):
        read(plain.rstrip(b"\0") + data if within else data)
