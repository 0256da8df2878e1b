"""Making an installation, and making it again after it was cut short."""

from pathlib import Path

import pytest

from secmon.common.paths import Paths
from secmon.daemons import install as module
from secmon.daemons.install import install
from secmon.security.store.security_store import SecurityStore


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return Paths(tmp_path / "node")


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
    assert install(paths, cluster=None) is None
    assert paths.security_db.read_bytes() == before
