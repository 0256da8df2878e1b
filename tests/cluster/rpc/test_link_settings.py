"""Settings of the link, and which generations understand each other."""

from datetime import timedelta

import pytest

from secmon.cluster.rpc import version
from secmon.cluster.rpc.credentials import PEER_PREFIX, address_of, endpoint
from secmon.cluster.rpc.link_settings import LinkSettings
from secmon.config.cluster import ClusterSection
from secmon.config.options import InternalOptions

SECTION = ClusterSection(name="c", node_name="alpha", key="s" * 32, port=2000, nodes=["10.0.0.1", "10.0.0.2"])


def test_settings_are_those_of_the_configuration() -> None:
    settings = LinkSettings.of(SECTION, InternalOptions.defaults())
    assert (settings.master, settings.port, settings.enrol_port, settings.listen_port) == ("10.0.0.1", 2000, 2001, 2000)
    assert (settings.heartbeat_seconds, settings.silence_seconds) == (1.0, 3.0)
    assert settings.certificate_life == timedelta(days=90)
    assert "s" * 32 not in repr(settings)


def test_ports_of_their_own() -> None:
    options = InternalOptions.defaults().with_overrides({"clusterd.peer_port": 3000, "clusterd.enrol_port": 0})
    settings = LinkSettings.of(SECTION, options)
    assert (settings.port, settings.enrol_port, settings.listen_port) == (2000, 0, 3000)


@pytest.mark.parametrize(
    ("protocol", "min_protocol", "understood"), [(2, 2, True), (3, 2, True), (9, 3, True), (9, 4, False), (1, 1, False)]
)
def test_ranges_that_overlap_understand_each_other(protocol: int, min_protocol: int, understood: bool) -> None:
    assert version.compatible(protocol, min_protocol) is understood


def test_addresses_of_both_kinds() -> None:
    assert endpoint("10.0.0.1", 1) == "10.0.0.1:1"
    assert endpoint("fe80::1", 1) == "[fe80::1]:1"
    assert address_of(f"unix-abstract:{PEER_PREFIX}4711/12/10.0.0.1") == "10.0.0.1"
    assert address_of(f"unix-abstract:{PEER_PREFIX}4711/12/fe80::1%25eth0") == "fe80::1%eth0"
    assert address_of("unix:") == "unix:"


def test_a_slow_link_is_given_time_within_the_lease() -> None:
    link = LinkSettings(node_name="w", cluster_name="c", key=b"k", master="m", lease_seconds=30)
    assert link.delay_seconds(0.0) == 0.0
    assert link.delay_seconds(0.4) == 6.0
    assert link.delay_seconds(1.0) == link.delay_seconds(float("inf")) == 15.0
