"""What the supervisor reads of the configuration."""

from pathlib import Path

import pytest

from secmon.common.daemon_names import LEADER
from secmon.common.errors import ConfigError
from secmon.common.paths import Paths
from secmon.config.options import OPTIONS
from secmon.daemons.supervisor_settings import STANDARD, ProcessSpec, SupervisorSettings, require_processes


def test_the_log_of_each_daemon_has_an_option_for_its_detail() -> None:
    assert {f"{one.name.removeprefix('secmon-')}.debug" for one in STANDARD} <= set(OPTIONS)


def test_a_store_of_record_needs_a_process_for_each_daemon(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    leader = ProcessSpec(name=LEADER, factory="secmon.daemons.leaderd:build")
    require_processes(paths, SupervisorSettings(daemons=STANDARD[:1]))
    with pytest.raises(ConfigError) as refused:
        require_processes(paths, SupervisorSettings(daemons=(*STANDARD[:1], leader)))
    assert refused.value.code == 2000
    assert "--single-process" in str(refused.value)
