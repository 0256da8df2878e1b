"""What the supervisor reads of the configuration."""

from secmon.config.options import OPTIONS
from secmon.daemons.supervisor_settings import STANDARD


def test_the_log_of_each_daemon_has_an_option_for_its_detail() -> None:
    assert {f"{one.name.removeprefix('secmon-')}.debug" for one in STANDARD} <= set(OPTIONS)
