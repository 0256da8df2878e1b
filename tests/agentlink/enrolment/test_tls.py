"""Certificates of the enrolment service: made, renewed, and compared with addresses."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from secmon.agentlink.enrolment.tls import VALID_DAYS, ensure_certificate, names_match, server_context
from secmon.common.errors import SecmonError
from secmon.common.paths import Paths
from secmon.config.auth import AuthSettings
from tests.manual_clock import ManualClock

SETTINGS = AuthSettings(disabled=False)


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    (tmp_path / "etc").mkdir()
    return Paths(tmp_path)


def test_a_certificate_is_made_once_and_renewed_before_it_ends(paths: Paths) -> None:
    clock = ManualClock()
    file = paths.root / SETTINGS.ssl_manager_cert
    ensure_certificate(paths, SETTINGS, clock)
    first = file.read_bytes()
    assert (paths.root / SETTINGS.ssl_manager_key).stat().st_mode & 0o777 == 0o640
    ensure_certificate(paths, SETTINGS, clock)
    assert file.read_bytes() == first
    clock.advance((VALID_DAYS - 30) * 86400)
    ensure_certificate(paths, SETTINGS, clock)
    assert file.read_bytes() != first
    server_context(paths, SETTINGS)


def test_settings_that_do_not_fit_are_named(paths: Paths) -> None:
    ensure_certificate(paths, SETTINGS, ManualClock())
    with pytest.raises(SecmonError, match=r"auth\.ciphers"):
        server_context(paths, replace(SETTINGS, ciphers="NONSENSE"))
    with pytest.raises(SecmonError, match=r"auth\.ssl_agent_ca"):
        server_context(paths, replace(SETTINGS, ssl_agent_ca="etc/none.pem"))
    (paths.root / SETTINGS.ssl_manager_cert).write_text("nothing")
    ensure_certificate(paths, SETTINGS, ManualClock())
    with pytest.raises(SecmonError, match=r"sslmanager\.cert"):
        server_context(paths, SETTINGS)


@pytest.mark.parametrize(
    ("certificate", "matches"),
    [
        ({"subject": ((("commonName", "192.0.2.9"),),)}, True),
        ({"subject": ((("commonName", "*.0.2.9"),),)}, True),
        ({"subject": ((("commonName", "19*.0.2.9"),),)}, False),
        ({"subject": ((("commonName", "192.*.2.9"),),)}, False),
        ({"subject": ((("commonName", "*"),),)}, False),
        ({"subjectAltName": (("DNS", "192.0.2.9"),)}, True),
        ({"subjectAltName": (("IP Address", "192.0.2.9"),)}, True),
        ({"subjectAltName": (("IP Address", "192.0.2.8"), ("DNS", "x")), "subject": ()}, False),
        ({"subjectAltName": (("DNS", "x"),), "subject": ((("commonName", "192.0.2.9"),),)}, True),
        ({}, False),
    ],
)
def test_names(certificate: dict[str, Any], matches: bool) -> None:
    assert names_match(certificate, "192.0.2.9") is matches
    assert names_match({"subjectAltName": (("IP Address", "2001:DB8:0:0:0:0:0:17"),)}, "2001:db8::17")
