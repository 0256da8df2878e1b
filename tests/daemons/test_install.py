"""Making an installation, and making it again after it was cut short."""

import subprocess
import sys
from pathlib import Path

import pytest

from secmon.common.paths import Paths
from secmon.daemons import install as module
from secmon.daemons.install import install
from secmon.security.passwords import verify_password
from secmon.security.store.security_store import SecurityStore


@pytest.fixture
def paths(root: Path) -> Paths:
    return Paths(root / "node")


def test_an_installation_that_was_cut_short_is_made_again(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(module, "initialise", killed)
        with pytest.raises(KeyboardInterrupt):
            install(paths, cluster=None)
    assert not paths.main_config.exists()  # so that nothing takes it for complete
    credentials = install(paths, cluster=None)
    assert credentials is not None
    store = SecurityStore(paths.security_db)
    assert store.view().user("admin") is not None
    store.close()


def test_a_complete_installation_is_left_alone(paths: Paths) -> None:
    install(paths, cluster=None)
    before = paths.security_db.read_bytes()
    with pytest.raises(FileExistsError, match="holds an installation already"):
        install(paths, cluster=None)
    assert paths.security_db.read_bytes() == before


def test_of_many_at_once_one_makes_it(paths: Paths) -> None:
    command = [sys.executable, "-m", "secmon.cli", "init", str(paths.root)]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for _ in range(4)]
    ended = [(process.communicate()[0], process.returncode) for process in started]
    made = [text for text, status in ended if status == 0]
    assert len(made) == 1, ended
    assert all(
        "holds an installation already" in text or "making an installation" in text for text, code in ended if code
    )
    password = made[0].split("admin", 1)[1].split()[0]
    store = SecurityStore(paths.security_db)
    user = store.view().user("admin")
    store.close()
    assert user is not None
    assert verify_password(user.password, password)
