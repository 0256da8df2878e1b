"""``secmon service``: the unit, and that it is never half installed. ``systemctl`` is a script that records calls."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from secmon.common.paths import Paths
from secmon.common.privileges import Account
from secmon.daemons import service_unit
from secmon.daemons.install import install
from secmon.daemons.installation_files import give_to
from secmon.daemons.service_unit import (
    ServiceError,
    Systemd,
    install_service,
    remove_service,
    service_state,
    unit_text,
)
from tests.cli.runner import run

ME = Account("secmon", os.getuid(), os.getgid(), (), "/")


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> Paths:
    made = Paths(tmp_path_factory.mktemp("service") / "node")
    install(made, cluster=None)
    return made


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Systemd:
    monkeypatch.setattr(service_unit, "find_account", lambda: ME)
    for name in ("units", "booted"):
        (tmp_path / name).mkdir()
    script = f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\n'
    script += f"[ ! -e {tmp_path}/fail-$1 ] || {{ echo no such thing >&2; exit 1; }}\n"
    script += "[ $1 != show ] || printf 'UnitFileState=enabled\\nActiveState=active\\n'\n"
    for name in ("systemctl", "useradd"):
        (tmp_path / name).write_text(script)
        (tmp_path / name).chmod(0o755)
    return Systemd(tmp_path / "units", tmp_path / "booted", str(tmp_path / "systemctl"), str(tmp_path / "useradd"))


def calls(systemd: Systemd) -> list[str]:
    file = systemd.units.parent / "calls"
    return file.read_text().splitlines() if file.exists() else []


def test_installed_shown_and_removed(paths: Paths, systemd: Systemd) -> None:
    assert install_service(paths, systemd, start=True)[-1] == "enabled and started it"
    assert calls(systemd) == ["daemon-reload", "enable --now secmon.service"]
    assert systemd.unit.read_text() == unit_text(paths)
    assert systemd.unit.stat().st_mode & 0o777 == 0o644
    state = service_state(paths, systemd)
    assert (state.installed, state.current, state.enabled, state.active) == (True, True, "enabled", "active")
    systemd.unit.write_text("an older one")
    assert not service_state(paths, systemd).current
    assert remove_service(systemd)
    assert not systemd.unit.exists()
    assert not remove_service(systemd)


@pytest.mark.parametrize("step", ["daemon-reload", "enable"])
@pytest.mark.parametrize("before", [None, b"an older one"])
def test_a_failure_leaves_the_unit_as_it_was(paths: Paths, systemd: Systemd, step: str, before: bytes | None) -> None:
    if before is not None:
        systemd.unit.write_bytes(before)
    (systemd.units.parent / f"fail-{step}").touch()
    with pytest.raises(ServiceError, match="no such thing"):
        install_service(paths, systemd, start=True)
    assert (systemd.unit.read_bytes() if systemd.unit.exists() else None) == before
    assert calls(systemd)[-1] == "daemon-reload"


def test_without_a_user_nothing_is_installed(paths: Paths, systemd: Systemd, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_unit, "find_account", lambda: None)
    (systemd.units.parent / "fail---system").touch()
    with pytest.raises(ServiceError, match="no such thing"):
        install_service(paths, systemd, start=True)
    assert not systemd.unit.exists()


def test_a_host_without_systemd_is_named(paths: Paths, systemd: Systemd) -> None:
    systemd.booted.rmdir()
    for work in (
        lambda: install_service(paths, systemd, start=True),
        lambda: remove_service(systemd),
        lambda: service_state(paths, systemd),
    ):
        with pytest.raises(ServiceError, match="not managed by systemd"):
            work()
    assert not systemd.unit.exists()
    assert calls(systemd) == []
    if not Path("/run/systemd/system").is_dir():
        shown = run("service", "status", "--root", paths.root)
        assert shown.exit_code == 1
        assert "not managed by systemd" in shown.output


def test_paths_that_systemd_would_read_otherwise_are_refused() -> None:
    for name in ("/opt/with space", "/opt/50%", '/opt/"', "/opt/$HOME", "/opt/a\nb"):
        with pytest.raises(ServiceError, match="must be without spaces"):
            unit_text(Paths(Path(name)))


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_understands_the_unit(paths: Paths, tmp_path: Path) -> None:
    unit = tmp_path / "secmon.service"
    unit.write_text(unit_text(paths))
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True)
    assert "secmon.service" not in done.stderr, done.stderr
    assert done.returncode == 0


@pytest.mark.skipif(os.getuid() != 0, reason="needs root")
def test_an_installation_of_root_is_given_to_the_user(paths: Paths, tmp_path: Path) -> None:
    """The owners are those of an installation that was made when there was the user, and links are left alone."""
    given = Paths(Path(shutil.copytree(paths.root, tmp_path / "node")))
    outside = tmp_path / "outside"
    outside.touch()
    (given.etc / "link").symlink_to(outside)
    (given.root / "before-restore-1").mkdir()
    give_to(given, (12345, 12346))
    owners = {
        str(path.relative_to(given.root)): (path.lstat().st_uid, path.lstat().st_gid) for path in given.root.rglob("*")
    }
    assert owners["etc"] == owners["etc/shared/default/agent.conf"] == (12345, 12346)
    assert owners["api/configuration/security/security.db"] == (12345, 12346)
    assert owners["etc/ossec.conf"] == owners["api/configuration/api.yaml"] == owners["queue"] == (0, 12346)
    assert owners["before-restore-1"] == (0, 0)
    assert outside.stat().st_uid == 0
