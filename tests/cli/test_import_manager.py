"""``secmon import manager``."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from secmon.agents.registry.entries import entries
from secmon.agents.registry.store import AgentStore
from secmon.common.paths import Paths
from secmon.config.main import load_main_config
from secmon.importers.manager import source
from tests.cli.runner import can_log_in, run
from tests.importers.old_manager import OldManager
from tests.importers.old_store import OldStore

CONFIG = """<ossec_config>
  <global><email_notification>no</email_notification></global>
  <remote><connection>secure</connection><port>1514</port></remote>
  <osquery><disabled>no</disabled></osquery>
  <!-- <cluster> is below -->
  <cluster><name>old</name><node_name>old-1</node_name><key>0123456789abcdef0123456789abcdef</key>
    <nodes><node>10.9.9.9</node></nodes><disabled>no</disabled></cluster>
  <ruleset>
    <decoder_dir>ruleset/decoders</decoder_dir><rule_dir>ruleset/rules</rule_dir>
    <list>etc/lists/amazon/names</list>
    <decoder_dir>etc/decoders</decoder_dir><rule_dir>etc/rules</rule_dir>
  </ruleset>
</ossec_config>
"""
RULES = """<group name="ours,">
  <rule id="100001" level="5"><decoded_as>json</decoded_as><description>Ours.</description></rule>
</group>
"""


@pytest.fixture
def old(tmp_path: Path) -> OldManager:
    old = OldManager(tmp_path / "old")
    old.agent(1, "web-01", groups=["default"])
    files = {
        "etc/ossec.conf": CONFIG,
        "etc/rules/local_rules.xml": RULES,
        "etc/decoders/local_decoder.xml": '<decoder name="ours"><program_name>^ours$</program_name></decoder>\n',
        "etc/lists/amazon/names": "a:b\n",
        "etc/lists/amazon/names.cdb": "compiled",
        "etc/authd.pass": "a password\n",
        "etc/local_internal_options.conf": "remoted.debug=1\n",
        "queue/db/001.db": "no database",
    }
    for name, text in files.items():
        (old.root / name).parent.mkdir(parents=True, exist_ok=True)
        (old.root / name).write_text(text)
    (old.root / "etc/rules/link.xml").symlink_to("/etc/passwd")
    (old.root / "api/configuration/security").mkdir(parents=True)
    store = OldStore(old.root / "api/configuration/security/rbac.db")
    store.user(100, "alice")
    return old


def import_(old: OldManager, master: Path, *more: str) -> Result:
    return run("import", "manager", old.root, "--root", master, *more)


def test_a_manager_moves_over(old: OldManager, master: Path) -> None:
    paths = Paths(master)
    before = paths.main_config.read_bytes()
    tried = import_(old, master, "--dry-run")
    assert tried.exit_code == 0, tried.output
    assert paths.main_config.read_bytes() == before
    done = import_(old, master)
    assert done.exit_code == 0, done.output
    for line in (
        "imported   agent 001 web-01: in default",
        "imported   user 100 alice",
        "imported   file etc/rules/local_rules.xml",
        "imported   file etc/lists/amazon/names",
        "imported   file etc/authd.pass",
        "dropped    file etc/rules/link.xml: not a file",
        "dropped    file etc/lists/amazon/names.cdb: not a source of the ruleset",
        "dropped    file etc/local_internal_options.conf: this node keeps its own; set there what you need",
        "dropped    inventory 1 001.db: file is not a database; the agent sends all of it again when it connects",
    ):
        assert line in done.stdout.splitlines(), done.stdout
    assert "osquery: no effect in this version" in done.stdout
    store = AgentStore(paths.agents_db)
    with store.read() as connection:
        assert [one.name for one in entries(connection)] == ["web-01"]
    store.close()
    cluster = load_main_config(paths).cluster
    assert (cluster.name, cluster.node_name, cluster.nodes) == ("secmon", "m", ["127.0.0.1"])
    assert b"osquery" in paths.main_config.read_bytes()
    assert (paths.etc / "authd.pass").stat().st_mode & 0o777 == 0o640
    assert (paths.etc / "ossec.conf.backup").read_bytes() == before
    assert run("config", "check", "--root", master).exit_code == 0
    again = import_(old, master)
    assert again.exit_code == 0
    assert again.stdout.splitlines()[-1] == "Nothing was changed: all of it is there."


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("etc/rules/local_rules.xml", RULES.replace("level", "levle"), "refused    ruleset ruleset: it would not load"),
        ("etc/ossec.conf", "<ossec_config><remote>", "refused    section etc/ossec.conf"),
        ("etc/ossec.conf", CONFIG.replace("<port>1514", "<port>x"), "refused    section etc/ossec.conf"),
        ("etc/client.keys", "no key\n", "refused    agent"),
    ],
)
def test_what_is_refused_changes_nothing(old: OldManager, master: Path, name: str, text: str, reason: str) -> None:
    paths = Paths(master)
    (old.root / name).write_text(text)
    before = paths.main_config.read_bytes()
    done = import_(old, master, "--json")
    assert done.exit_code == 1, done.output
    lines = json.loads(done.stdout)["data"]["lines"]
    shown = [f"{line['result']:<10} {line['kind']} {line['name']}: {line['text']}" for line in lines]
    assert any(line.startswith(reason) for line in shown), shown
    assert "Nothing was changed" in done.stderr
    assert paths.main_config.read_bytes() == before
    assert not (paths.etc / "rules/local_rules.xml").exists()
    assert not can_log_in(master, "alice", "Quarry-7!lamp")


def _deep(old: OldManager) -> None:
    folder = os.open(old.root / "etc/lists", os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("a", dir_fd=folder)
        inner = os.open("a", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = inner
    os.close(folder)


def _large(old: OldManager) -> None:
    for number in range(6):
        path = old.root / f"etc/rules/{number}.xml"
        path.touch()
        os.truncate(path, source.MAX_BYTES - number)


def _unclosed(old: OldManager) -> None:
    (old.root / "etc/ossec.conf").write_text("<ossec_config>" + "<cluster><!--" * 200_000)


@pytest.mark.parametrize(
    ("attack", "said"),
    [
        (_deep, "too many folders in folders"),
        (_large, "more than 256 MiB"),
        (_unclosed, "refused    section etc/ossec.conf"),
    ],
)
def test_hostile_folders(old: OldManager, master: Path, attack: Callable[[OldManager], None], said: str) -> None:
    attack(old)
    done = import_(old, master, "--dry-run")
    assert said in done.output
    assert not isinstance(done.exception, (MemoryError, RecursionError))
    subprocess.run(["rm", "-rf", old.root], check=True)  # shutil recurses


def test_another_file_of_that_name_is_kept(old: OldManager, master: Path) -> None:
    mine = master / "etc/rules/local_rules.xml"
    mine.write_text("<group name='mine,'></group>")
    done = import_(old, master)
    assert done.exit_code == 1
    assert "refused    file etc/rules/local_rules.xml: another file is here" in done.stdout
    assert mine.read_text() == "<group name='mine,'></group>"
