"""Rulesets that take each other's place, and broken ones that do not."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from secmon.common.paths import Paths
from secmon.engine.ruleset.diagnostics import RulesetError
from secmon.engine.ruleset.last_good import LAST_GOOD
from secmon.engine.ruleset.live_ruleset import LiveRuleset
from tests.engine.analysis_kit import make_folders
from tests.engine.rules_kit import ROOTS
from tests.manual_clock import ManualClock

CONFIG = """<ossec_config><alerts><log_alert_level>3</log_alert_level></alerts><ruleset>
<decoder_dir>etc/decoders</decoder_dir><rule_dir>etc/rules</rule_dir><list>etc/lists/users</list></ruleset>
<cluster><disabled>yes</disabled></cluster></ossec_config>"""
DECODER = '<decoder name="app"><prematch>^app </prematch></decoder>'


def rules(*numbers: int) -> str:
    made = "".join(
        f'<rule id="{number}" level="5"><decoded_as>app</decoded_as><description>{number}</description></rule>'
        for number in numbers
    )
    return f'<group name="app,">{made}</group>'


def install_rules(root: Path) -> Paths:
    """An installation's folder with a ruleset of its own."""
    paths = make_folders(root)
    paths.main_config.write_text(CONFIG)
    paths.internal_options.write_text("")
    (root / "etc/rules/0000-base.xml").write_text(ROOTS)
    (root / "etc/decoders/local_decoder.xml").write_text(DECODER)
    (root / "etc/rules/local_rules.xml").write_text(rules(100001))
    (root / "etc/lists/users").write_text("ana:1\n")
    return paths


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return install_rules(tmp_path)


def status(paths: Paths) -> dict[str, Any]:
    found = json.loads(paths.ruleset_status.read_bytes())
    assert isinstance(found, dict)
    return found


def local(paths: Paths) -> Path:
    return paths.etc / "rules/local_rules.xml"


def test_changes_are_compiled_and_nothing_else(paths: Paths) -> None:
    live = LiveRuleset(paths, ManualClock())
    first = live.start()
    assert 100001 in first.ruleset.rules.by_id
    assert first.ruleset.settings.alert_level == 3
    assert live.refresh() is None
    local(paths).write_text(rules(100001, 100002))
    second = live.refresh()
    assert second is not None
    assert 100002 in second.ruleset.rules.by_id
    assert live.current is second
    (paths.etc / "lists/users").write_text("ana:1\nbob:2\n")
    third = live.refresh()
    assert third is not None
    assert len(third.ruleset.lists["etc/lists/users"]) == 2
    assert status(paths)["status"] == "current"
    assert status(paths)["digest"] == third.digest


def test_a_finding_is_logged_with_its_severity_once(paths: Paths, caplog: pytest.LogCaptureFixture) -> None:
    local(paths).write_text(rules(100001).replace("<description>", "<if_sid>999999</if_sid><description>"))
    LiveRuleset(paths, ManualClock()).start()
    found = [record for record in caplog.records if record.levelname == "WARNING"]
    assert found
    assert not [record for record in found if "WARNING" in record.getMessage()]


def test_a_broken_ruleset_replaces_nothing(paths: Paths, caplog: pytest.LogCaptureFixture) -> None:
    live = LiveRuleset(paths, ManualClock())
    good = live.start()
    local(paths).write_text('<group name="x,">\n<rule id="1x" level="5"></rule></group>')
    assert live.refresh() is None
    assert live.refresh() is None
    assert live.current is good
    reported = status(paths)
    assert reported["status"] == "rejected"
    assert (reported["error"]["file"], reported["error"]["line"]) == ("etc/rules/local_rules.xml", 2)
    assert reported["digest"] == good.digest
    assert caplog.text.count("The ruleset does not load") == live.rejections == 1
    local(paths).write_text(rules(100001))
    assert live.refresh() is None
    assert (status(paths)["status"], status(paths)["error"]) == ("current", None)
    local(paths).write_text(rules(100007))
    assert live.refresh() is not None


def test_a_start_on_broken_files_runs_with_the_last_good_ones(paths: Paths) -> None:
    LiveRuleset(paths, ManualClock()).start()
    local(paths).write_text("<group")
    again = LiveRuleset(paths, ManualClock())
    assert 100001 in again.start().ruleset.rules.by_id
    assert status(paths)["status"] == "last_good"
    assert again.refresh() is None
    assert again.state == "last_good"
    local(paths).write_text(rules(100002))
    made = again.refresh()
    assert made is not None
    assert status(paths)["status"] == "current"


def test_without_a_copy_it_refuses(paths: Paths) -> None:
    local(paths).write_text("<group")
    with pytest.raises(RulesetError):
        LiveRuleset(paths, ManualClock()).start()
    assert status(paths)["status"] == "refused"


def torn(copy: bytes) -> bytes:
    return copy[: len(copy) // 2]


def flipped(copy: bytes) -> bytes:
    """Another id of a rule: it still compiles."""
    return copy.replace(b'id="100001"', b'id="100009"')


def without_checksum(copy: bytes) -> bytes:
    return copy.partition(b"\n")[2]


def of_another_form(copy: bytes) -> bytes:
    return copy.replace(b"ruleset-1", b"ruleset-2")


def empty(copy: bytes) -> bytes:
    return b""


@pytest.mark.parametrize("damage", [torn, flipped, without_checksum, of_another_form, empty])
def test_a_damaged_copy_is_not_used(
    paths: Paths, damage: Callable[[bytes], bytes], caplog: pytest.LogCaptureFixture
) -> None:
    LiveRuleset(paths, ManualClock()).start()
    copy = paths.root / LAST_GOOD
    kept = copy.read_bytes()
    damaged = damage(kept)
    assert damaged != kept
    copy.write_bytes(damaged)
    local(paths).write_text("<group")
    with pytest.raises(RulesetError):
        LiveRuleset(paths, ManualClock()).start()
    assert status(paths)["status"] == "refused"
    assert f"{copy}, is damaged and is not used" in caplog.text
    local(paths).write_text(rules(100001))
    LiveRuleset(paths, ManualClock()).start()
    assert copy.read_bytes() == kept


def test_the_configuration_counts_when_it_is_asked_for(paths: Paths) -> None:
    live = LiveRuleset(paths, ManualClock())
    live.start()
    paths.main_config.write_text(CONFIG.replace(">3<", ">7<"))
    assert live.refresh() is None
    made = live.refresh(configuration=True)
    assert made is not None
    assert made.ruleset.settings.alert_level == 7
    paths.main_config.write_text("<ossec_config>")
    assert live.refresh(configuration=True) is None
    assert live.current is made
    assert live.state == "rejected"


def test_sessions_share_what_is_compiled(paths: Paths) -> None:
    live = LiveRuleset(paths, ManualClock())
    made = live.start()
    assert live.latest(lambda digest: None) is made
    local(paths).write_text(rules(100002))
    other = live.latest(lambda digest: None)
    assert other.digest != made.digest
    assert live.latest({other.digest: other}.get) is other
    local(paths).write_text("<group")
    with pytest.raises(RulesetError):
        live.latest(lambda digest: None)
