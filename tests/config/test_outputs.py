"""Outputs of the main configuration: what is read, what is refused, what is shown."""

import pytest

from secmon.config.as_json import MASK, convert_main, mask_secrets
from secmon.config.main import check_main_config
from secmon.config.outputs import AlertConditions, Outputs, Recipients, SyslogOutput, TlsFiles, read_outputs
from secmon.config.xml import parse_xml


def outputs(xml: str) -> Outputs:
    text = f"<ossec_config>{xml}</ossec_config>"
    assert check_main_config(text).problems == []
    return read_outputs(parse_xml(text, "ossec.conf"))


def test_syslog() -> None:
    found = outputs(
        "<syslog_output><server>192.0.2.1</server></syslog_output>"
        "<syslog_output><server>x</server><protocol>tls</protocol><rfc>5424</rfc><format>cef</format><level>3</level>"
        "<rule_id>5716, 0100</rule_id><group>sshd,pam</group><location>web</location><ca_store>etc/ca.pem</ca_store>"
        "</syslog_output>"
    ).syslog
    assert found == (
        SyslogOutput(server="192.0.2.1", port=514),
        SyslogOutput(
            server="x", port=6514, protocol="tls", rfc=5424, format="cef", tls=TlsFiles(ca_store="etc/ca.pem"),
            conditions=AlertConditions(level=3, rules=("5716", "100"), group="sshd,pam", location="web"),
        ),
    )  # fmt: skip
    assert found[1].active_configuration() == {
        "server": "x", "port": 6514, "level": 3, "rule_id": [5716, 100], "group": ["sshd,pam"], "location": ["web"],
        "use_fqdn": "no", "format": "cef", "protocol": "tls", "rfc": 5424,
    }  # fmt: skip


GLOBAL = (
    "<global><email_notification>yes</email_notification><email_to>a@b</email_to><email_to>c@d</email_to>"
    "<smtp_server>s</smtp_server><email_from>e@f</email_from><smtp_password>secret</smtp_password></global>"
)


def test_mail() -> None:
    mail = outputs(
        GLOBAL + "<email_alerts><email_to>x@y</email_to><level>10</level><do_not_delay/></email_alerts>"
        "<email_alerts><email_to>z@y</email_to><format>sms</format><do_not_group/></email_alerts>"
    ).mail
    assert mail is not None
    assert (mail.server, mail.port, mail.sender, mail.password) == ("s", 25, "e@f", "secret")
    assert mail.recipients == (
        Recipients(addresses=("a@b", "c@d")),
        Recipients(addresses=("x@y",), conditions=AlertConditions(level=10), delay=False),
        Recipients(addresses=("z@y",), format="sms", grouped=False),
    )
    shown = mail.active_configuration()
    assert shown["global"]["email_to"] == ["a@b", "c@d"]
    assert [one["format"] for one in shown["alerts"]] == ["do_not_delay", "do_not_group"]
    assert "secret" not in str(shown)


def test_secrets_are_not_shown() -> None:
    xml = f"<ossec_config>{GLOBAL}<integration><name>n</name><api_key>k</api_key></integration></ossec_config>"
    shown = mask_secrets(convert_main(parse_xml(xml, "ossec.conf")))
    assert shown["global"]["smtp_password"] == MASK  # type: ignore[index, call-overload]
    assert "secret" not in str(shown)


def test_no_mail_without_a_server() -> None:
    xml = "<global><email_notification>yes</email_notification><email_to>a@b</email_to></global>"
    assert outputs(xml).mail is None
    (warning,) = check_main_config(f"<ossec_config>{xml}</ossec_config>").warnings
    assert warning.endswith("no mail is sent without email_from, smtp_server")
    assert outputs(GLOBAL.replace("yes", "no")).mail is None


def test_outputs_need_the_file_that_they_read() -> None:
    text = "<ossec_config><global><jsonout_output>no</jsonout_output></global></ossec_config>"
    (warning,) = check_main_config(text).warnings
    assert warning.endswith("alerts are not delivered to outputs without jsonout_output")


def test_indexer() -> None:
    section = (
        "<indexer><enabled>yes</enabled>{}<hosts><host>https://a:9200</host><host>https://b</host></hosts></indexer>"
    )
    assert outputs(section.format("")).indexer is None
    found = outputs(
        section.format("<alerts>yes</alerts><ssl><certificate_authorities><ca>x</ca></certificate_authorities></ssl>")
    )
    assert found.indexer is not None
    assert (found.indexer.hosts, found.indexer.tls.ca_store) == (("https://a:9200", "https://b"), "x")


@pytest.mark.parametrize(
    ("xml", "key"),
    [
        ("<syslog_output/>", "server"),
        ("<syslog_output><server>x</server><format>xml</format></syslog_output>", "format"),
        ("<syslog_output><server>x</server><rule_id>a</rule_id></syslog_output>", "rule_id"),
        ("<syslog_output><server>x</server><ca_store>x</ca_store></syslog_output>", "ca_store"),
        ("<syslog_output><server>x</server><level>17</level></syslog_output>", "level"),
        ("<integration><hook_url>x</hook_url></integration>", "name"),
        ("<integration><name>../x</name></integration>", "name"),
        ("<integration><name>slack</name></integration>", "hook_url"),
        ("<integration><name>pagerduty</name></integration>", "api_key"),
        ("<integration><name>x</name><options>[]</options></integration>", "options"),
        ("<email_alerts><level>3</level></email_alerts>", "email_to"),
        ("<indexer><alerts>yes</alerts></indexer>", "hosts.host"),
        ("<indexer><hosts><host>search:9200</host></hosts></indexer>", "hosts.host"),
    ],
)
def test_mistakes_are_found(xml: str, key: str) -> None:
    problems = check_main_config(f"<ossec_config>{xml}</ossec_config>").problems
    assert [one.key for one in problems] == [key]
