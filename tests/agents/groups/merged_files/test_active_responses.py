"""The table of active responses out of a main configuration."""

import logging
from pathlib import Path

import pytest

from secmon.agents.groups.merged_files.active_responses import active_response_table, write_active_responses
from secmon.common.paths import Paths
from secmon.config.main import parse_main_config

RESTARTS = """\
restart-ossec0 - restart-ossec.sh - 0
restart-ossec0 - restart-ossec.cmd - 0
restart-wazuh0 - restart-ossec.sh - 0
restart-wazuh0 - restart-ossec.cmd - 0
restart-wazuh0 - restart-wazuh - 0
restart-wazuh0 - restart-wazuh.exe - 0
"""


def table(sections: str) -> str:
    return active_response_table(parse_main_config(f"<ossec_config>{sections}</ossec_config>"))


COMMANDS = """
<command><name>firewall-drop</name><executable>firewall-drop</executable><timeout_allowed>yes</timeout_allowed></command>
<command><name>once</name><executable> once.sh </executable></command>
<command><name>twice</name><executable>old.sh</executable></command>
<command><name>twice</name><executable>new.sh</executable><timeout_allowed>no</timeout_allowed></command>
<wodle name="command"><tag>x</tag><command>ls</command></wodle>
"""


def test_a_configuration_without_responses() -> None:
    assert table("") == RESTARTS
    assert table(COMMANDS) == RESTARTS


def test_each_response_is_a_line() -> None:
    responses = """
    <active-response><command>firewall-drop</command><location>local</location><timeout>180</timeout></active-response>
    <active-response><disabled>yes</disabled><command>once</command><location>local</location></active-response>
    <active-response><command>once</command><location>server</location><timeout>60</timeout></active-response>
    <active-response><command>twice</command><location>all</location></active-response>
    <active-response><command>firewall-drop</command><location>local</location><timeout>180</timeout></active-response>
    <active-response><command>firewall-drop</command><location>local</location></active-response>
    """
    assert table(COMMANDS + responses) == RESTARTS + (
        "firewall-drop180 - firewall-drop - 180\n"
        "once0 - once.sh - 0\n"
        "twice0 - new.sh - 0\n"
        "firewall-drop180 - firewall-drop - 180\n"
        "firewall-drop0 - firewall-drop - 0\n"
    )


def test_invalid_lines(caplog: pytest.LogCaptureFixture) -> None:
    sections = (
        "<command><name>a</name><executable>x\ny</executable></command>"
        "<active-response><command>a</command></active-response>"
        "<active-response><command>unknown</command></active-response>"
        "<active-response><location>local</location></active-response>"
    )
    with caplog.at_level(logging.WARNING):
        assert table(sections) == RESTARTS
    assert len(caplog.records) == 2


def test_the_file_is_written_when_it_differs(tmp_path: Path) -> None:
    paths, config = Paths(tmp_path), parse_main_config("<ossec_config/>")
    paths.shared.mkdir(parents=True)
    (paths.shared / "ar.conf").symlink_to("/etc/passwd")
    assert write_active_responses(paths, config)
    assert not write_active_responses(paths, config)
    assert (paths.shared / "ar.conf").read_text() == RESTARTS
    assert not (paths.shared / "ar.conf").is_symlink()


def test_a_file_that_cannot_be_written_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    paths, config = Paths(tmp_path), parse_main_config("<ossec_config/>")
    (paths.shared / "ar.conf" / "in the way").mkdir(parents=True)
    assert not write_active_responses(paths, config)
    assert "could not be written" in caplog.text
