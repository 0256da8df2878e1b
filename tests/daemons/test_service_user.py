"""A node that root starts for the service user, on a host where that user has been taken over.

The user may write to most folders of the installation. Nothing that it puts there may lead root to a file of root's,
stop root's commands, or have another process killed.
"""

import gzip
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from secmon.common.paths import Paths
from secmon.daemons.demo.ports import free_port
from secmon.daemons.supervisor_lock import lock_holder
from tests import serviceuser
from tests.folders import short_root
from tests.waiting import LIMIT_SECONDS, wait_until

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(not serviceuser.usable(), reason="needs root and mount namespaces"),
]

SECRET = "2020/01/01 00:00:00 root's own secret\n"
OLD = 1_577_836_800


def secmon(*arguments: str, status: int | None = 0) -> str:
    """Run a command as root; what it printed."""
    command = [*serviceuser.prefix(), sys.executable, "-m", "secmon.cli", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd="/", timeout=LIMIT_SECONDS)
    assert status in (None, done.returncode), done.stdout + done.stderr
    return done.stdout + done.stderr


class Node:
    """An installation, and a file that only root may read."""

    def __init__(self, folder: Path) -> None:
        self.paths = Paths(folder / "n")
        self.root = str(self.paths.root)
        self.secret = folder / "secret"
        self.secret.write_text(SECRET)
        self.secret.chmod(0o600)
        os.utime(self.secret, (OLD, OLD))
        first = free_port("127.0.0.1", 26_000 + os.getpid() % 4000, set(), count=3)
        self._ports = [str(first + number) for number in range(3)]

    def init(self, *, status: int = 0) -> str:
        api, agents, enrolment = self._ports
        ports = ["--api-port", api, "--agent-port", agents, "--auth-port", enrolment]
        return secmon("init", self.root, "--api-host", "127.0.0.1", *ports, status=status)

    def user(self, script: str, *, status: int = 0) -> None:
        """Have the service user run a shell script in the installation; ``$SECRET`` is the file of root's."""
        with self.user_process(script) as process:
            assert process.wait(LIMIT_SECONDS) == status

    def user_process(self, script: str) -> "subprocess.Popen[str]":
        command = [*serviceuser.as_service_user(), "sh", "-euc", f"cd {self.root}\n{script}"]
        environment = {**os.environ, "SECRET": str(self.secret), "PYTHON": sys.executable}
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True, cwd="/")

    def untouched(self) -> bool:
        """Whether the secret is as it was, and no file of the installation holds it."""
        for file in self.paths.root.rglob("*"):
            if file.is_file() and not file.is_symlink():
                data = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
                assert SECRET.encode() not in data, file
        status = self.secret.stat()
        return (self.secret.read_text(), status.st_uid, status.st_gid, status.st_mode & 0o777) == (SECRET, 0, 0, 0o600)

    def log(self) -> str:
        return self.paths.logs.joinpath("ossec.log").read_text()


@pytest.fixture
def node() -> Iterator[Node]:
    folder = Path(tempfile.mkdtemp(prefix="su-", dir=short_root()))
    folder.chmod(0o755)
    made = Node(folder)
    made.init()
    yield made
    secmon("stop", "--root", made.root, status=None)
    shutil.rmtree(folder)


def test_links_lead_nowhere(node: Node) -> None:
    links = "logs/ossec.json logs/cluster.log logs/start.log var/run/supervisor.lock logs/audit/security.log"
    links += " api/configuration/ssl/server.key api/configuration/ssl/server.crt"
    node.user(f'for link in {links}; do ln -s "$SECRET" $link; done')
    refused = secmon("start", "--root", node.root, "--daemonize", status=1)
    assert "server.key: Permission denied" in refused
    node.user("rm api/configuration/ssl/*")
    secmon("start", "--root", node.root, "--daemonize")
    wait_until(lambda: "A log could not be rotated" in node.log(), "the logs were looked at")
    refused = secmon("user", "reset-password", "--generate", "--root", node.root, status=1)
    assert "logs/audit/security.log" in refused
    secmon("stop", "--root", node.root)
    assert node.untouched()


def test_folders_that_became_links_lead_nowhere(node: Node) -> None:
    target = node.secret.parent / "roots"
    target.mkdir(0o700)
    (target / "ossec.log").write_text(SECRET)
    node.user(f"mv etc/shared etc/aside; ln -s {target} etc/shared; rm etc/ossec.conf")
    assert "etc/shared" in node.init(status=1)
    node.user(f"mv etc/lists etc/other; ln -s {target} etc/lists; rmdir logs/secmon; ln -s {target} logs/secmon")
    secmon("ruleset", "update", "--root", node.root, status=1)
    assert [file.name for file in target.iterdir()] == ["ossec.log"]
    assert target.stat().st_mode & 0o777 == 0o700
    assert target.stat().st_uid == 0


def test_pipes_block_no_process(node: Node) -> None:
    pipes = "logs/ossec.json logs/start.log var/run/supervisor.lock var/run/secmon-apid-1.pid logs/audit/security.log"
    node.user(f"mkfifo {pipes}")
    secmon("start", "--root", node.root, "--daemonize")
    secmon("status", "--root", node.root)
    secmon("audit", "verify", "--root", node.root, status=None)
    secmon("stop", "--root", node.root)
    node.user("mv etc/ossec.conf etc/o; mkfifo etc/ossec.conf")
    assert "not a regular file" in secmon("start", "--root", node.root, status=1)


def test_what_runs_has_the_rights_of_the_service_user(node: Node) -> None:
    secmon("start", "--root", node.root, "--daemonize")
    supervisor = lock_holder(node.paths.root)
    assert ids(supervisor) == [0, serviceuser.UID, 0, serviceuser.UID]
    daemons = [int(file.stem.rpartition("-")[2]) for file in node.paths.run.glob("secmon-*.pid")]
    assert {tuple(ids(pid)) for pid in daemons} == {(serviceuser.UID,) * 4}
    node.user(f"kill -TERM {supervisor} || head -c 1 /proc/{supervisor}/mem", status=1)
    shutil.rmtree(node.paths.run)
    wait_until(lambda: any(node.paths.run.glob("secmon-apid-*.pid")), "the folder was made again")
    status = node.paths.run.stat()
    assert (status.st_uid, status.st_gid, status.st_mode & 0o777) == (0, serviceuser.UID, 0o770)


def test_one_process_becomes_the_service_user(node: Node) -> None:
    secmon("start", "--root", node.root, "--daemonize", "--single-process")
    assert ids(lock_holder(node.paths.root)) == [serviceuser.UID] * 4
    secmon("restart", "--root", node.root)
    secmon("stop", "--root", node.root)


def ids(pid: int) -> list[int]:
    """Real, effective, saved and file system user of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return [int(word) for line in lines if line.startswith("Uid:") for word in line.split()[1:]]


def test_stop_ends_the_supervisor_whatever_files_say(node: Node) -> None:
    secmon("start", "--root", node.root, "--daemonize")
    supervisor = lock_holder(node.paths.root)
    victim = subprocess.Popen(["sleep", "600"])
    try:
        node.user(
            f"rm -f var/run/supervisor.lock; echo {victim.pid} >var/run/supervisor.lock; rm queue/sockets/control"
        )
        os.kill(supervisor, signal.SIGSTOP)  # it can put nothing back
        stopping = secmon("stop", "--root", node.root, "--timeout", "1", status=1)
        assert f"process {supervisor}" in stopping
        os.kill(supervisor, signal.SIGCONT)
        wait_until(lambda: lock_holder(node.paths.root) == 0, "the node has stopped")
        assert victim.poll() is None
    finally:
        victim.kill()
        victim.wait()


def test_a_lock_alone_makes_no_supervisor(node: Node) -> None:
    hold = "import fcntl, os, sys, time; fcntl.flock(os.open('.', os.O_RDONLY), fcntl.LOCK_EX); print(1, flush=True)"
    with node.user_process(f'exec "$PYTHON" -c "{hold}; time.sleep(600)"') as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "1\n"
        refused = secmon("stop", "--root", node.root, status=1)
        assert f"process {holder.pid} holds {node.root}" in refused
        assert holder.poll() is None
        assert f"process {holder.pid}" in secmon("start", "--root", node.root, status=1)
        holder.kill()


def test_the_service_user_cannot_keep_its_daemons_root(node: Node) -> None:
    # as an older version made them
    node.paths.api_config.parent.chmod(0o770)
    node.paths.api_config.chmod(0o660)
    node.user('echo "drop_privileges: no" >>api/configuration/api.yaml')
    refused = secmon("start", "--root", node.root, status=1)
    assert "drop_privileges" in refused
    assert "drop_privileges" in secmon("config", "check", "--root", node.root, status=1)
    assert "api/configuration" in refused
    node.paths.api_config.parent.chmod(0o750)
    node.paths.api_config.chmod(0o640)
    secmon("start", "--root", node.root, "--daemonize")
    assert ids(lock_holder(node.paths.root)) == [0] * 4


def test_a_key_that_only_root_may_read(node: Node) -> None:
    secmon("start", "--root", node.root, "--daemonize")
    secmon("stop", "--root", node.root)
    key = node.paths.ssl / "server.key"
    os.chown(key, 0, 0)
    secmon("start", "--root", node.root, "--daemonize")
    secmon("stop", "--root", node.root)
    os.link(key, node.paths.root.parent / "elsewhere")
    assert "server.key: Permission denied" in secmon("start", "--root", node.root, status=1)


def test_a_folder_of_the_service_user_is_never_roots_alone(node: Node) -> None:
    target = node.secret.parent / "roots"
    target.mkdir(0o700)
    (target / "kept").write_text(SECRET)
    os.chown(node.paths.root, serviceuser.UID, serviceuser.UID)
    node.user("mv api a; cp -r a api; echo 'drop_privileges: no' >api/configuration/api.yaml; chmod 070 .")
    assert "Permission denied" in secmon("start", "--root", node.root, "--daemonize", status=1)
    node.paths.root.chmod(0o750)
    assert "drop_privileges" in secmon("start", "--root", node.root, "--daemonize", status=1)
    node.user("rm -r api; mv a api; mv ruleset r; cp -r r ruleset")
    node.user(f"rm -r ruleset/decoders; ln -s {target} ruleset/decoders")
    secmon("ruleset", "update", "--root", node.root, status=1)
    assert [file.name for file in target.iterdir()] == ["kept"]
    node.user("cd ruleset; rm decoders; cp -r ../r/decoders .")
    node.user("cd ruleset/rules; mkfifo pipe; ln -sf $SECRET $(ls | head -n 1)")
    secmon("ruleset", "update", "--root", node.root)
    assert not (node.paths.root / "ruleset/rules/pipe").exists()
    assert node.untouched()


def test_a_cut_key_file_is_put_back_and_kept_as_it_was_found(node: Node) -> None:
    key = f"001 host any {'0f' * 32}\n"
    backups = node.paths.root / "backup/agents"
    backups.chmod(0o750)  # as an older version made it
    secmon("start", "--root", node.root, "--daemonize")
    keys = node.paths.client_keys
    node.user(f"printf '{key}' >>etc/client.keys")
    wait_until(lambda: "was changed by another program" in node.log(), "the agent was taken")
    node.user("truncate -s 40 etc/client.keys")
    wait_until(lambda: keys.read_text() == key, "the line was put back")
    wait_until(lambda: any(file.read_text() == key[:40] for file in backups.iterdir()), "the cut file was kept")
    assert "Permission denied" not in node.log()


def test_a_backup_gives_the_service_user_no_rights(node: Node) -> None:
    phrase, backup = node.secret.parent / "phrase", node.secret.parent / "backup"
    phrase.write_text("sparrow-lantern-41\n")
    phrase.chmod(0o600)
    restore = ["restore", str(backup), "--root", node.root, "--passphrase-file", str(phrase), "--replace"]

    def refused() -> bool:
        """The change may come too late for a backup, or so late that the backup is found to be damaged."""
        backup.unlink(missing_ok=True)
        secmon("backup", str(backup), "--root", node.root, "--passphrase-file", str(phrase), status=None)
        return backup.exists() and "says drop_privileges: no" in secmon(*restore, status=None)

    with node.user_process(f'exec "$PYTHON" -c "{_CHANGES_THE_COPY}"') as changing:
        assert any(refused() for _ in range(10))
        changing.kill()
    assert "#drop_privileges: true" in node.paths.api_config.read_text()
    os.chown(node.paths.root, serviceuser.UID, serviceuser.UID)
    assert f"may write to {node.root}" in secmon(*restore, status=1)


_CHANGES_THE_COPY = """
import glob, time
while True:
    for name in glob.glob('tmp/.backup-*/content/api/configuration/api.yaml'):
        try:
            with open(name, 'r+b') as file:
                data = file.read()
                file.seek(0)
                file.write(data.replace(b'#drop_privileges: true', b'drop_privileges: no   '))
        except FileNotFoundError:
            pass
    time.sleep(0.001)
"""
"""Run by the service user while root makes backups; of the same length, which is recorded before."""
