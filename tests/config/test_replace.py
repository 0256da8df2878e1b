"""Replacing the main configuration on disk."""

import os
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from secmon.common.errors import SecmonError
from secmon.common.paths import Paths
from secmon.config.replace import VERSIONS, backup_path, replace_main_config, versions
from secmon.daemons.installation_files import create_installation_files

NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    paths = Paths(tmp_path / "secmon")
    create_installation_files(paths)
    return paths


def edited(paths: Paths, word: str) -> tuple[bytes, bytes]:
    """The present text, and one with another e-mail subject."""
    saved = paths.main_config.read_bytes()
    return saved, saved + f"<!-- {word} -->\n".encode()


def test_the_old_version_is_kept_with_mode_and_owner(paths: Paths) -> None:
    paths.main_config.chmod(0o604)
    saved, new = edited(paths, "one")
    before = paths.main_config.stat()
    replace_main_config(paths, saved=saved, new=new, now=NOON)
    assert paths.main_config.read_bytes() == new
    assert backup_path(paths).read_bytes() == saved
    assert [(one.name, one.read_bytes()) for one in versions(paths)] == [
        ("ossec.conf.backup-20260304T120000.000000Z", saved)
    ]
    for file in (paths.main_config, backup_path(paths), *versions(paths)):
        status = file.stat()
        assert (status.st_mode, status.st_uid, status.st_gid) == (before.st_mode, before.st_uid, before.st_gid)


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_root_keeps_a_foreign_owner(paths: Paths) -> None:
    os.chown(paths.main_config, 12345, 23456)
    saved, new = edited(paths, "one")
    replace_main_config(paths, saved=saved, new=new, now=NOON)
    status = paths.main_config.stat()
    assert (status.st_uid, status.st_gid) == (12345, 23456)


def test_the_last_versions_are_kept(paths: Paths) -> None:
    texts = []
    for number in range(VERSIONS + 3):
        saved, new = edited(paths, str(number))
        replace_main_config(paths, saved=saved, new=new, now=NOON + timedelta(seconds=number))
        texts.append(saved)
    assert [one.read_bytes() for one in versions(paths)] == texts[-VERSIONS:]


def test_an_installation_that_becomes_invalid_gets_its_file_back(paths: Paths) -> None:
    saved, _ = edited(paths, "")
    with pytest.raises(SecmonError, match="nosuchsection") as caught:
        replace_main_config(paths, saved=saved, new=b"<ossec_config><noSuchSection/></ossec_config>", now=NOON)
    assert caught.value.code == 1908
    assert paths.main_config.read_bytes() == saved
    assert versions(paths) == []


def test_problems_of_the_other_files_count_too(paths: Paths) -> None:
    paths.api_config.write_text("port: 0\n")
    saved, new = edited(paths, "one")
    with pytest.raises(SecmonError, match=r"api\.yaml") as caught:
        replace_main_config(paths, saved=saved, new=new, now=NOON)
    assert caught.value.code == 1908
    assert paths.main_config.read_bytes() == saved


def test_a_file_changed_meanwhile_is_not_overwritten(paths: Paths) -> None:
    saved, new = edited(paths, "mine")
    _, theirs = edited(paths, "theirs")
    paths.main_config.write_bytes(theirs)
    with pytest.raises(SecmonError, match="meanwhile") as caught:
        replace_main_config(paths, saved=saved, new=new, now=NOON)
    assert caught.value.code == 1126
    assert paths.main_config.read_bytes() == theirs
    assert not backup_path(paths).exists()


def test_one_of_several_writers_wins(paths: Paths) -> None:
    saved = paths.main_config.read_bytes()
    codes: list[int] = []

    def write(number: int) -> None:
        _, new = saved, saved + f"<!-- {number} -->".encode()
        try:
            replace_main_config(paths, saved=saved, new=new, now=NOON + timedelta(seconds=number))
            codes.append(0)
        except SecmonError as error:
            codes.append(error.code)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(codes) == [0] + [1126] * 7
    assert len(versions(paths)) == 1
    assert [one.name for one in paths.etc.iterdir() if one.name.endswith(".tmp")] == []


def test_a_backup_that_cannot_be_made_stops_the_upload(paths: Paths) -> None:
    saved, new = edited(paths, "one")
    backup_path(paths).mkdir()
    with pytest.raises(SecmonError) as caught:
        replace_main_config(paths, saved=saved, new=new, now=NOON)
    assert caught.value.code == 1019
    assert paths.main_config.read_bytes() == saved


def test_a_lock_that_cannot_be_taken_stops_the_upload(paths: Paths) -> None:
    saved, new = edited(paths, "one")
    (paths.run / "main-config.lock").mkdir()
    with pytest.raises(SecmonError) as caught:
        replace_main_config(paths, saved=saved, new=new, now=NOON)
    assert caught.value.code == 1126
    assert paths.main_config.read_bytes() == saved
