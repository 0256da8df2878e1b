"""The sections that say where agents connect."""

import pytest

from secmon.config.remote import RemoteBlock, permitted, read_remote
from secmon.config.template import main_config_template
from secmon.config.xml import parse_xml


def read(text: str) -> list[RemoteBlock]:
    return read_remote(parse_xml(f"<ossec_config>{text}</ossec_config>", "ossec.conf"))


def test_a_new_installation_serves_agents() -> None:
    found = read_remote(parse_xml(main_config_template(None), "ossec.conf"))
    assert found == [RemoteBlock()]
    assert found[0].host == "0.0.0.0"


def test_without_a_section_no_agent_is_served() -> None:
    assert read("<global/>") == []


def test_everything_set() -> None:
    secure, syslog = read(
        "<remote><connection>secure</connection><port>1600</port><protocol>UDP, tcp,x</protocol><ipv6>yes</ipv6>"
        "<queue_size>10</queue_size><rids_closing_time>2m</rids_closing_time>"
        "<connection_overtake_time>0</connection_overtake_time>"
        "<agents><allow_higher_versions>yes</allow_higher_versions></agents></remote>"
        "<remote><connection>syslog</connection><allowed-ips>192.0.2.0/24</allowed-ips><allowed-ips>any</allowed-ips>"
        "<denied-ips>192.0.2.9</denied-ips><local_ip>192.0.2.1</local_ip><protocol>udp</protocol></remote>"
    )
    assert secure == RemoteBlock(
        port=1600,
        protocols=("udp", "tcp"),
        ipv6=True,
        queue_size=10,
        rids_closing_seconds=120,
        overtake_seconds=0,
        allow_higher_versions=True,
    )
    assert secure.host == "::"
    assert (syslog.secure, syslog.port, syslog.host) == (False, 514, "192.0.2.1")
    assert (syslog.allowed, syslog.denied) == (("192.0.2.0/24", "any"), ("192.0.2.9",))


def test_shown() -> None:
    (block,) = read("<remote><connection>secure</connection><local_ip>192.0.2.1</local_ip></remote>")
    assert block.active_configuration() == {
        "connection": "secure",
        "ipv6": "no",
        "local_ip": "192.0.2.1",
        "protocol": ["TCP"],
        "port": "1514",
        "queue_size": "131072",
        "agents": {"allow_higher_versions": "no"},
        "connection_overtake_time": 60,
    }
    assert RemoteBlock(secure=False, allowed=("any",)).active_configuration() == {
        "connection": "syslog",
        "ipv6": "no",
        "protocol": ["TCP"],
        "port": "1514",
        "allowed-ips": ["any"],
        "connection_overtake_time": 60,
    }


@pytest.mark.parametrize(
    ("source", "fine"),
    [
        ("192.0.2.7", True),
        ("192.0.2.9", False),
        ("198.51.100.1", False),
        ("2001:0DB8:0000:0000:0000:0000:0000:0017", True),
    ],
)
def test_permitted(source: str, fine: bool) -> None:
    assert permitted(source, ["192.0.2.0/24", "2001:db8::/32"], ["192.0.2.9"]) is fine
    assert permitted(source, ["!192.0.2.0/24"], []) is not source.startswith("192.0.2.")
    assert not permitted(source, [], [])
