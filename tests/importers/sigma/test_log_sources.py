"""Log sources besides Windows: events that hit and near misses, as the default decoders decode them."""

import re
from typing import Any

import pytest

from secmon.engine.matching.pcre import Pcre
from secmon.importers.sigma.conditions import Condition, TextTest
from secmon.importers.sigma.mapping import mapping
from tests.importers.sigma.kit import Translated, line, rule, windows

HEADER = "Nov 14 22:13:20 web1 "
EXECVE = (
    "type=SYSCALL msg=audit(1700000000.123:77): arch=c000003e syscall=59 success=yes exit=0 a0=55d a1=55e uid=1000 "
    'auid=1000 comm="curl" exe="/usr/bin/curl" key="exec" type=EXECVE msg=audit(1700000000.123:77): argc=3 a0="curl" '
    'a1=2D6F202F746D702F78 a2="http://192.0.2.4/x" type=CWD msg=audit(1700000000.123:77): cwd="/home/ana" '
    'type=PATH msg=audit(1700000000.123:77): item=0 name="/usr/bin/curl" nametype=NORMAL type=PATH item=1 '
    "name=2F746D702F61 nametype=CREATE type=PROCTITLE msg=audit(1700000000.123:77): proctitle=6375726C002D6F"
)
SYSMON = (
    f'{HEADER}sysmon: <Event><System><Provider Name="Linux-Sysmon"/><EventID>{{}}</EventID>'
    "<Channel>Linux-Sysmon/Operational</Channel><Computer>web1</Computer></System><EventData>"
    '<Data Name="Image">/usr/bin/curl</Data><Data Name="CommandLine">curl &quot;a\\b&quot; &amp; x</Data>'
    '<Data Name="ParentImage">/usr/sbin/nginx</Data><Data Name="TargetFilename">/tmp/x</Data></EventData></Event>'
)
ACCESS = (
    '192.0.2.9 - ana [14/Nov/2023:22:13:20 +0000] "GET /a/b.php?x=1&y=../etc HTTP/1.1" 404 12 "http://ref/" "curl/8.1"'
)
_FROM = "1700000000.123    55 192.0.2.9 "
SQUID = f"{_FROM}TCP_MISS/200 512 GET http://bad.example:8080/p/q.exe?z=1 ana HIER_DIRECT/198.51.100.7 text/html"
TUNNEL = f"{_FROM}TCP_TUNNEL/200 512 CONNECT bad.example:443 ana HIER_DIRECT/198.51.100.7 -"


def fires(source: dict[str, str], selection: Any, text: str, decoders: str = "0[12789]*.xml") -> bool:
    made = Translated(rule({"selection": selection}, source), decoders=decoders)
    assert made.lines[0].result == "imported", made.reason()
    return made.fires(line(text))


LINUX = {"product": "linux", "category": "process_creation"}
AUDITD = {"product": "linux", "service": "auditd"}
WEB = {"category": "webserver"}
PROXY = {"category": "proxy"}


@pytest.mark.parametrize(
    ("selection", "hits"),
    [
        ({"Image|endswith": "/curl", "CommandLine|contains": " -o /tmp"}, True),
        ({"CommandLine|endswith": " http://192.0.2.4/x", "CurrentDirectory": "/home/ana"}, True),
        ({"CommandLine|startswith": "55d"}, False),
        ({"Image|endswith": "/wget"}, False),
        ({"ParentImage|endswith": "/nginx"}, False),
    ],
)
def test_programs_that_auditd_records(selection: Any, hits: bool) -> None:
    assert fires(LINUX, selection, EXECVE) is hits
    assert fires(LINUX, selection, EXECVE.partition("type=EXECVE")[0]) is False


@pytest.mark.parametrize(
    ("source", "number", "selection", "hits"),
    [
        (LINUX, 1, {"Image|endswith": "/curl", "ParentImage|endswith": "/nginx"}, True),
        (LINUX, 1, {"CommandLine": 'curl "a\\b" & x'}, True),
        (LINUX, 1, {"CommandLine|contains": "&quot;"}, False),
        (LINUX, 11, {"Image|endswith": "/curl"}, False),
        ({"product": "linux", "category": "file_event"}, 11, {"TargetFilename|startswith": "/tmp/"}, True),
        ({"product": "linux", "category": "network_connection"}, 11, {"Image|endswith": "/curl"}, False),
        ({"product": "linux", "service": "sysmon"}, 16, {"EventID": 16}, True),
    ],
)
def test_sysmon_for_linux(source: dict[str, str], number: int, selection: Any, hits: bool) -> None:
    assert fires(source, selection, SYSMON.format(number)) is hits


@pytest.mark.parametrize(
    ("selection", "hits"),
    [
        ({"type": "EXECVE", "a0": "curl", "a1|contains": "/tmp"}, True),
        ({"type": "PATH", "name|startswith": "/tmp/"}, True),
        ({"type": "PATH", "name": "/tmp/a"}, True),
        ({"type": "USER_LOGIN"}, False),
        ({"type": "EXEC"}, False),
        ({"syscall": "execve", "exe|endswith": "curl", "key": "exec"}, True),
        ({"syscall": 59}, False),
        ({"a0|contains": "55d"}, False),
        ({"proctitle|contains": "curl -o", "comm": "curl"}, True),
        ({"name|re": "^/tmp/a$"}, True),
        ({"name|re": "^tmp"}, False),
    ],
)
def test_records_of_auditd(selection: Any, hits: bool) -> None:
    assert fires(AUDITD, selection, EXECVE) is hits


def test_records_of_auditd_on_lines_of_their_own() -> None:
    record = 'type=EXECVE msg=audit(1700000000.123:77): argc=2 a0="rm" a1="-rf"'
    assert fires(AUDITD, {"type": "EXECVE", "a0": "rm", "a1": "-rf"}, record)
    assert fires(LINUX, {"CommandLine": "rm -rf"}, record)
    odd = 'type=EXECVE msg=audit(1700000000.123:77): argc=2 a0="rm" a1=2D7'
    assert fires(AUDITD, {"a1": "2D7"}, odd)


@pytest.mark.parametrize(
    ("selection", "hits"),
    [
        ({"cs-method": "GET", "cs-uri-query|contains": "../etc", "sc-status": 404}, True),
        ({"cs-uri-query|contains": "/a/b.php"}, True),
        ({"cs-uri-stem|endswith": "/b.php"}, True),
        ({"cs-uri-stem|contains": "x=1"}, False),
        ({"c-uri-query|startswith": "x=1"}, True),
        ({"cs-user-agent|contains": "curl/", "cs-referer": "http://ref/", "c-ip|cidr": "192.0.2.0/24"}, True),
        ({"cs-username": "ana", "sc-status|gte": 400}, True),
        ({"cs-username": "eve"}, False),
        (["b.php", "nothing"], True),
        (["nothing"], False),
    ],
)
def test_web_servers(selection: Any, hits: bool) -> None:
    assert fires(WEB, selection, ACCESS) is hits


@pytest.mark.parametrize(
    ("selection", "log", "hits"),
    [
        ({"c-uri|endswith": ".exe?z=1", "cs-host": "bad.example", "c-uri-extension": "exe"}, SQUID, True),
        ({"c-uri-query": "z=1", "c-uri-path": "/p/q.exe", "cs-method": "GET"}, SQUID, True),
        ({"r-dns|endswith": ".example"}, TUNNEL, True),
        ({"r-dns|endswith": ".example", "cs-method": "GET"}, TUNNEL, False),
        ({"c-uri|contains": "b.php"}, ACCESS, False),
    ],
)
def test_proxies(selection: Any, log: str, hits: bool) -> None:
    assert fires(PROXY, selection, log) is hits


@pytest.mark.parametrize(
    ("service", "log", "hits"),
    [
        ("sshd", "sshd[7]: error: maximum authentication attempts exceeded for root", True),
        ("sshd", "sudo[7]: error: maximum authentication attempts exceeded for root", False),
        ("auth", "login[7]: maximum authentication attempts exceeded", True),
        ("cron", "CRON[7]: (root) maximum authentication attempts", True),
        ("syslog", "kernel: nothing", False),
    ],
)
def test_keywords_in_logs_of_programs(service: str, log: str, hits: bool) -> None:
    assert fires({"product": "linux", "service": service}, ["maximum authentication"], HEADER + log) is hits


def test_fields_of_sudo() -> None:
    log = f"{HEADER}sudo:      ana : TTY=pts/0 ; PWD=/home/ana ; USER=root ; COMMAND=/usr/bin/vi -c x"
    assert fires({"product": "linux", "service": "sudo"}, {"COMMAND|contains": "/vi ", "USER": "root"}, log)
    assert not fires({"product": "linux", "service": "sudo"}, {"USER": "eve"}, log)


def test_clouds() -> None:
    head = '{"eventVersion":"1.08","eventSource":"iam.amazonaws.com",'
    log = head + '"eventName":"CreateUser","userIdentity":{"type":"Root"}}'
    source = {"product": "aws", "service": "cloudtrail"}
    assert fires(source, {"eventName": "CreateUser", "userIdentity.type": "Root"}, log, "[089]*.xml")
    assert not fires(source, {"eventName": "DeleteUser"}, log, "[089]*.xml")


def test_a_field_that_the_log_source_does_not_have_is_reported() -> None:
    made = Translated(rule({"selection": {"Moon|contains": "x"}}, WEB))
    assert made.reason() == "the field 'Moon' is not known in events of webserver"
    for name in ('a"b', "a>b", "a|b", "a$b"):
        made = Translated(rule({"selection": {f"{name}": "x"}}))
        assert made.lines[0].result != "imported"


def test_services_of_windows_are_channels() -> None:
    made = Translated(rule({"selection": {"EventID": 7045}}, {"product": "windows", "service": "system"}))
    assert made.fires(windows("System", 7045, ImagePath="x"))
    assert not made.fires(windows("Security", 7045, ImagePath="x"))
    made = Translated(
        rule({"selection": {"TargetObject|contains": "run"}}, {"product": "windows", "category": "registry_add"})
    )
    assert made.fires(windows(event_id=12, EventType="CreateKey", TargetObject="\\Run"))
    assert not made.fires(windows(event_id=12, EventType="DeleteKey", TargetObject="\\Run"))


def _tests(condition: Condition) -> list[TextTest]:
    return (
        [condition] if isinstance(condition, TextTest) else [one for part in condition.members for one in _tests(part)]
    )


def test_the_mapping_is_sound() -> None:
    sources = mapping().sources
    given = [tuple(sorted(one.logsource.items())) for one in sources]
    assert len(set(given)) == len(given)
    assert len({one.name for one in sources}) == len(sources)
    for source in sources:
        assert _tests(source.events), source.name
        for test in _tests(source.events):
            if test.kind == "pcre2":
                Pcre(test.content)
        for target in source.fields.values():
            assert re.fullmatch(r"(?:lines )?[\w.@ -]+(?:\|[\w.-]+)*", target), target
    assert set(mapping().levels) == {"informational", "low", "medium", "high", "critical"}
