"""``secmon backup`` and ``secmon restore``."""

import subprocess
from pathlib import Path

import pytest

from secmon.agents.registry import registry
from secmon.agents.registry.entries import entries
from secmon.agents.registry.registry import New
from secmon.agents.registry.store import AgentStore
from secmon.cluster.leadership.role_file import CurrentRole, write_role
from secmon.cluster.leadership.term import Term
from secmon.common.paths import Paths
from secmon.config.cluster import ClusterSection
from secmon.daemons.install import install
from tests.cli.runner import KEY, WORKER, run
from tests.integration.ha_kit import use_address_and_store
from tests.postgres import PostgresServer


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The private key; the public one is beside it."""
    file = tmp_path_factory.mktemp("keys") / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", file], check=True)
    return file


def test_there_and_back_with_a_passphrase(master: Path, root: Path) -> None:
    phrase = root / "phrase"
    phrase.write_text("correct horse battery\n")
    phrase.chmod(0o600)
    saved = run("backup", root / "file", "--root", master, "--passphrase-file", phrase)
    assert saved.exit_code == 0, saved.output
    assert "read back and compared" in saved.output
    assert (root / "file").stat().st_mode & 0o777 == 0o600
    again = run("backup", root / "file", "--root", master, "--passphrase-file", phrase)
    assert again.exit_code == 1
    assert "it exists" in again.output
    restored = run("restore", root / "file", "--root", root / "r", "--passphrase-file", phrase)
    assert restored.exit_code == 0, restored.output
    assert "files of m as it was at" in restored.output
    assert run("config", "check", "--root", root / "r").exit_code == 0
    assert run("audit", "verify", "--root", root / "r").exit_code == 0
    phrase.write_text("a different phrase")
    wrong = run("restore", root / "file", "--root", root / "r", "--passphrase-file", phrase, "--replace")
    assert wrong.exit_code == 1
    assert "the passphrase is wrong, or the file is damaged; nothing was replaced" in wrong.output


def test_a_folder_keeps_the_latest_backups_of_the_node(master: Path, root: Path, keys: Path) -> None:
    folder = root / "backups"
    folder.mkdir()
    for name in ("m-20200101T000000Z.secmon", "m-20200102T000000Z.secmon", "other-20200101T000000Z.secmon", "m-notes"):
        (folder / name).touch()
    saved = run("backup", folder, "--root", master, "--public-key", f"{keys}.pub", "--keep", "2")
    assert saved.exit_code == 0, saved.output
    assert f"Deleted {folder}/m-20200101T000000Z.secmon" in saved.output
    names = sorted(path.name for path in folder.iterdir())
    assert names[0] == "m-20200102T000000Z.secmon"
    assert names[2:] == ["m-notes", "other-20200101T000000Z.secmon"]
    restored = run("restore", folder / names[1], "--root", root / "r", "--private-key", keys)
    assert restored.exit_code == 0, restored.output
    without_key = run("restore", folder / names[1], "--root", root / "r2")
    assert without_key.exit_code == 2
    assert "give --private-key" in without_key.output
    assert not (root / "r2").exists()


def test_wrong_usage(master: Path, root: Path, keys: Path) -> None:
    (root / "bad.pub").write_text("ssh-ed25519 no key")
    for arguments, status, text in (
        (["--passphrase-file", keys, "--public-key", keys], 2, "not both"),
        (["--public-key", f"{keys}.pub", "--keep", "2"], 2, "--keep needs a folder"),
        ([], 2, "or use a terminal"),
        (["--public-key", root / "bad.pub"], 1, "line 1 is no public key"),
        (["--without", "users"], 2, "is not one of"),
    ):
        done = run("backup", root / "file", "--root", master, *arguments)
        assert done.exit_code == status, done.output
        assert text in done.output
    assert not (root / "file").exists()
    (root / "file").write_text("something else")
    refused = run("restore", root / "file", "--root", root / "r", "--private-key", keys)
    assert refused.exit_code == 1
    assert "no backup of secmon; nothing was replaced" in refused.output


def test_a_worker_is_not_saved(root: Path, keys: Path) -> None:
    (root / "key").write_text(KEY)
    assert run("init", root / "w", *WORKER, "--key-file", root / "key").exit_code == 0
    refused = run("backup", root / "file", "--root", root / "w", "--public-key", f"{keys}.pub")
    assert refused.exit_code == 1
    assert "run the command on the master" in refused.output
    idle = run("backup", root / "file", "--root", root / "w", "--public-key", f"{keys}.pub", "--if-master")
    assert idle.exit_code == 0
    assert not (root / "file").exists()


def test_what_is_recorded_is_saved(tmp_path: Path, keys: Path, postgres: PostgresServer) -> None:
    """The node has missed its own last change, which a crash between the two commits leaves behind."""
    paths = Paths(tmp_path / "node")
    install(paths, cluster=ClusterSection(key="k" * 32, nodes=["127.0.0.1"]))
    use_address_and_store(paths, postgres.new_database(), "127.0.0.1")
    store = AgentStore(paths.agents_db)
    with store.write() as connection:
        registry.add(connection, New(name="web-1"), now=1)
    store.close()
    (paths.lists / "mine").write_text("a:b\n")
    assert run("store", "migrate", "--root", paths.root).exit_code == 0
    write_role(paths.role, CurrentRole("master", Term(1, "x", "node01", "127.0.0.1", 1516)))
    (paths.lists / "mine").unlink()
    store = AgentStore(paths.agents_db)
    with store.write() as connection:
        registry.remove(connection, [1], purge=True)
    store.close()
    saved = run("backup", tmp_path / "file", "--root", paths.root, "--public-key", f"{keys}.pub")
    assert saved.exit_code == 0, saved.output
    restored = run("restore", tmp_path / "file", "--root", tmp_path / "r", "--private-key", keys)
    assert restored.exit_code == 0, restored.output
    assert "secmon store migrate" in restored.output
    found = AgentStore(Paths(tmp_path / "r").agents_db)
    with found.read() as connection:
        assert [one.name for one in entries(connection)] == ["web-1"]
    found.close()
    assert (Paths(tmp_path / "r").lists / "mine").read_text() == "a:b\n"
