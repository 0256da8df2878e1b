"""Folders of groups on a real disk."""

import os
import stat
import threading
from pathlib import Path

import pytest

from secmon.agents.groups.folders import (
    create_group,
    delete_group,
    group_exists,
    list_folders,
    list_groups,
    merged_path,
    require_group,
)
from secmon.common.errors import SecmonError
from secmon.common.paths import Paths
from secmon.daemons.installation_files import create_installation_files


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    paths = Paths(tmp_path)
    create_installation_files(paths)
    return paths


def code_of(action: object, *arguments: object) -> int:
    with pytest.raises(SecmonError) as caught:
        action(*arguments)  # type: ignore[operator]
    return caught.value.code


def test_a_new_group_has_the_template(paths: Paths) -> None:
    folder = create_group(paths, "web")
    assert b"<agent_config>" in (folder / "agent.conf").read_bytes()
    (paths.shared / "agent-template.conf").write_bytes(b"<agent_config/>\n")
    folder = create_group(paths, "db-1.north_2")
    assert (folder / "agent.conf").read_bytes() == b"<agent_config/>\n"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o770
    assert stat.S_IMODE((folder / "agent.conf").stat().st_mode) == 0o660
    assert list_groups(paths) == ("db-1.north_2", "default", "web")


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "ä", "a\n", "x" * 256, "../x"])
def test_names_that_no_group_can_have(paths: Paths, name: str) -> None:
    assert code_of(create_group, paths, name) == 1722
    assert not group_exists(paths, name)


def test_names_that_are_taken(paths: Paths) -> None:
    create_group(paths, "web")
    assert code_of(create_group, paths, "web") == 1711
    assert code_of(create_group, paths, "default") == 1711
    assert code_of(create_group, paths, "DEFAULT") == 1711
    assert code_of(create_group, paths, "ar.conf") == 1713
    assert code_of(create_group, paths, "files.yml") == 1713
    (paths.shared / "note").write_text("")
    assert code_of(create_group, paths, "note") == 1713


def test_one_of_concurrent_creations_of_a_group_succeeds(paths: Paths) -> None:
    outcomes: list[int] = []

    def attempt() -> None:
        try:
            create_group(paths, "web")
            outcomes.append(0)
        except SecmonError as error:
            outcomes.append(error.code)

    threads = [threading.Thread(target=attempt) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == [0] + [1711] * 7


def test_folders_that_are_no_groups(paths: Paths, tmp_path: Path) -> None:
    (paths.shared / "with space").mkdir()
    Path(os.fsdecode(os.fsencode(paths.shared) + b"/bad-\xff")).mkdir()
    (paths.shared / ".deleted+12").mkdir()
    (paths.shared / "link").symlink_to(tmp_path)
    found = list_folders(paths)
    assert found.groups == ("default",)
    assert found.invalid == (os.fsdecode(b"bad-\xff"), "with space")
    assert found.deleted == (".deleted+12",)
    assert not group_exists(paths, "link")


def test_deleting(paths: Paths, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("1")
    folder = create_group(paths, "web")
    (folder / "link").symlink_to(outside)
    delete_group(paths, "web")
    assert not folder.exists()
    assert (outside / "precious").exists()
    assert code_of(delete_group, paths, "web") == 1710
    assert code_of(delete_group, paths, "default") == 1712
    assert code_of(require_group, paths, "web") == 1710
    assert list_folders(paths) == (("default",), (), ())


def test_an_unreadable_shared_folder(tmp_path: Path) -> None:
    assert code_of(list_groups, Paths(tmp_path)) == 1727
    assert code_of(create_group, Paths(tmp_path), "web") == 1005


def test_where_merged_files_are(paths: Paths) -> None:
    assert merged_path(paths, "web") == paths.shared / "web/merged.mg"
    assert merged_path(paths, "default,linux") == paths.multigroups / "fe375984/merged.mg"
