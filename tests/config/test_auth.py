"""The ``auth`` section."""

from secmon.config.auth import AuthSettings, Force, read_auth
from secmon.config.main import main_config_template, parse_main_config


def settings(section: str) -> AuthSettings:
    return read_auth(parse_main_config(f"<ossec_config>{section}</ossec_config>"))


def test_without_the_section_enrolment_is_off() -> None:
    assert settings("<global/>") == AuthSettings(disabled=True)
    assert settings("<auth/>") == AuthSettings(disabled=False)


def test_a_new_installation_purges_and_replaces() -> None:
    found = read_auth(parse_main_config(main_config_template(None)))
    assert found == AuthSettings(disabled=False, purge=True)
    assert found.force == Force()


def test_every_option() -> None:
    found = settings(
        """<auth><port>2515</port><ipv6>yes</ipv6><use_password>yes</use_password><ssl_agent_ca>etc/ca</ssl_agent_ca>
        <force><enabled>no</enabled><key_mismatch>no</key_mismatch>
        <disconnected_time enabled="no">2h</disconnected_time>
        <after_registration_time>3m</after_registration_time></force>
        <agents><allow_higher_versions>yes</allow_higher_versions></agents>
        <key_request><exec_path>/bin/keys</exec_path><timeout>5</timeout></key_request></auth>"""
    )
    assert (found.port, found.ipv6, found.use_password, found.ssl_agent_ca) == (2515, True, True, "etc/ca")
    assert found.force == Force(enabled=False, key_mismatch=False, disconnected_time=None, after_registration_time=180)
    assert found.allow_higher_versions
    assert (found.key_request.enabled, found.key_request.exec_path, found.key_request.timeout) == (True, "/bin/keys", 5)


def test_options_of_old_versions_still_count() -> None:
    old = settings("<auth><force_insert>no</force_insert><force_time>0</force_time></auth>").force
    assert (old.enabled, old.disconnected_time) == (False, None)
    assert settings("<auth><force_time>60</force_time></auth>").force.disconnected_time == 60


def test_the_active_configuration() -> None:
    shown = settings("<auth/>").active_configuration()
    assert shown["force"] == {
        "enabled": "yes",
        "key_mismatch": "yes",
        "disconnected_time": {"enabled": "yes", "value": 3600},
        "after_registration_time": 3600,
    }
    assert shown["agents"] == {"allow_higher_versions": "no"}
    assert shown["key_request"] == {"enabled": "no", "timeout": 60, "threads": 1, "queue_size": 1024}
    assert "ssl_agent_ca" not in shown
    assert (shown["port"], shown["disabled"]) == (1515, "no")
