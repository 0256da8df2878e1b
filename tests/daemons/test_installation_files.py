"""The installation layout (manager.md 15)."""

import os
import shutil
from pathlib import Path

import pytest

from secmon.common.errors import ConfigError
from secmon.common.paths import Paths
from secmon.config.api import ApiConfig, load_api_config
from secmon.config.main import ClusterSection, load_main_config, validate_main_config
from secmon.config.options import OPTIONS, load_internal_options
from secmon.daemons.installation_files import create_installation_files, restore_folders, update_ruleset

CLUSTER = ClusterSection(name="eu", node_name="alpha", key="k" * 32, nodes=["127.0.0.1"], port=2000)

MODES = {
    ".": 0o750,
    "api": 0o750,
    "api/configuration": 0o750,
    "api/configuration/ssl": 0o770,
    "api/configuration/security": 0o770,
    "api/configuration/api.yaml": 0o640,
    "etc": 0o770,
    "etc/ossec.conf": 0o660,
    "etc/internal_options.conf": 0o640,
    "etc/local_internal_options.conf": 0o640,
    "etc/cluster": 0o700,
    "etc/shared": 0o770,
    "etc/rules": 0o770,
    "etc/shared/default": 0o770,
    "etc/shared/agent-template.conf": 0o660,
    "etc/shared/default/agent.conf": 0o660,
    "logs": 0o770,
    "logs/api": 0o750,
    "queue": 0o770,
    "queue/sockets": 0o770,
    "queue/cluster": 0o770,
    "queue/db": 0o750,
    "var/run": 0o770,
    "var/multigroups": 0o770,
    "backup": 0o750,
    "backup/agents": 0o770,
    "stats/totals": 0o750,
    "tmp": 0o1770,
}


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return Paths(tmp_path / "srv/secmon")


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_modes_hold_whatever_the_umask_is(paths: Paths, umask: int) -> None:
    before = os.umask(umask)
    try:
        made = create_installation_files(paths, cluster=CLUSTER)
    finally:
        os.umask(before)
    assert {name: (paths.root / name).stat().st_mode & 0o7777 for name in MODES} == MODES
    assert set(MODES) <= set(made)
    assert len(made) == len(set(made))


def test_what_was_made_reads_back(paths: Paths) -> None:
    create_installation_files(paths, cluster=CLUSTER, api_overrides={"port": 55001, "https.enabled": False})
    assert load_main_config(paths).cluster == CLUSTER
    assert validate_main_config(paths) == []
    api = load_api_config(paths)
    assert (api.port, api.https.enabled, api.warnings) == (55001, False, ())
    options = load_internal_options(paths)
    assert {name: options.get(name) for name in OPTIONS} == {name: each.default for name, each in OPTIONS.items()}
    assert options.warnings == ()


def test_a_stand_alone_node(paths: Paths) -> None:
    create_installation_files(paths)
    assert load_main_config(paths).cluster.disabled
    assert validate_main_config(paths) == []
    assert load_api_config(paths) == ApiConfig()


def test_nothing_that_exists_is_touched(paths: Paths) -> None:
    paths.api_config.parent.mkdir(parents=True)
    paths.api_config.write_text("port: 1234\n")
    paths.root.chmod(0o711)
    made = create_installation_files(paths, api_overrides={"port": 55001})
    assert "api/configuration/api.yaml" not in made
    assert load_api_config(paths).port == 1234
    assert paths.root.stat().st_mode & 0o7777 == 0o711
    assert create_installation_files(paths, cluster=CLUSTER) == []
    assert load_main_config(paths).cluster.disabled


def test_every_named_path_has_its_folder(paths: Paths) -> None:
    create_installation_files(paths)
    named = [name for name, value in vars(Paths).items() if isinstance(value, property)]
    assert {name for name in named if not getattr(paths, name).parent.is_dir()} == set()


@pytest.mark.parametrize(
    ("cluster", "overrides", "code"),
    [
        (ClusterSection(key="short", nodes=["10.0.0.1"]), {}, 3004),
        (ClusterSection(key="k" * 32, nodes=["10.0.0.1"], name="a b"), {}, 3004),
        (ClusterSection(key="k" * 32, nodes=["10.0.0.1"], node_name="x</node_name><node_name>y"), {}, 3004),
        (ClusterSection(key="k" * 32, nodes=["10.0.0.1</node><node>10.0.0.2"]), {}, 3004),
        (ClusterSection(key="k" * 32, nodes=["10.0.0.1"], node_name="n" * 65), {}, 3004),
        (None, {"port": 0}, 2000),
        (None, {"prot": 1}, 2000),
    ],
)
def test_bad_values_make_nothing(
    paths: Paths, cluster: ClusterSection | None, overrides: dict[str, object], code: int
) -> None:
    with pytest.raises(ConfigError) as raised:
        create_installation_files(paths, cluster=cluster, api_overrides=overrides)
    assert raised.value.code == code
    assert not paths.root.exists()


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="ownership needs root")
def test_owners(paths: Paths) -> None:
    create_installation_files(paths, owner=(12345, 23456))
    users = {"etc", "etc/shared/default", "etc/shared/default/agent.conf", "logs/api", "queue/sockets", "etc/cluster"}
    users.add("etc/shared/agent-template.conf")
    roots = {".", "api/configuration", "api/configuration/api.yaml", "etc/ossec.conf", "etc/shared", "queue", "tmp"}
    for name in users | roots:
        status = (paths.root / name).stat()
        assert (name, status.st_uid, status.st_gid) == (name, 12345 if name in users else 0, 23456)


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="ownership needs root")
def test_a_folder_that_is_replaced_while_it_is_made_keeps_its_owner(
    paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_installation_files(paths, owner=(12345, 23456))
    private, wanted = paths.etc / "private", paths.etc / "cluster"
    private.mkdir(0o700)
    (private / "key").write_text("root's own")
    wanted.rmdir()
    mkdir = os.mkdir

    def swapped(name: str, mode: int, *, dir_fd: int) -> None:
        mkdir(name, mode, dir_fd=dir_fd)
        if name == "cluster":
            wanted.rmdir()
            private.rename(wanted)

    monkeypatch.setattr(os, "mkdir", swapped)
    with pytest.raises(FileExistsError, match="etc/cluster"):
        restore_folders(paths, ["etc/cluster"], (12345, 23456))
    status = wanted.stat()
    assert (status.st_uid, status.st_mode & 0o777) == (0, 0o700)


def test_the_ruleset_of_an_older_version_gets_the_folders_that_it_lacks(paths: Paths) -> None:
    create_installation_files(paths)
    shutil.rmtree(paths.root / "ruleset/sca")
    changed = update_ruleset(paths)
    assert changed
    assert {str(Path(one).parent) for one in changed} == {"ruleset/sca"}
    assert update_ruleset(paths) == []
