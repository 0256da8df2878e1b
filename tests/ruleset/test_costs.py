"""No log makes a pattern of the default ruleset give up: an attacker could hide behind one that does."""

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from secmon.engine.engine import Engine
from secmon.engine.input.predecode import Message
from secmon.engine.matching import MatchLimit
from secmon.engine.matching.pcre import Pcre
from secmon.engine.memory.state import State
from secmon.engine.ruleset.compiled import Ruleset
from secmon.engine.ruleset.ruleset_xml import parse
from tests.ruleset.default import default_ruleset, default_sources

BYTES = 8000
SYSMON = "Microsoft-Windows-Sysmon/Operational"
NOW = datetime(2023, 11, 14, 12, tzinfo=UTC)
PIECES = (
    *(
        "/*",
        "/**/",
        "+",
        "'",
        "..%2f",
        "../",
        "on",
        "{{",
        "%7b",
        "%0d%0a",
        "$(",
        "(",
        "() {",
        "${",
        "${${",
        "%25",
        "%3c",
    ),
    *("1+or+", "' or ", "union+", "x;", "|", "`", "=", "%{(#", "backup", "dump.", "A", " ", "from ", " ; USER=", "\\"),
    *("1/**/or", ")", "+)", "/**/", "\t", "cmd", "vssadmin ", "comsvcs", "procdump", "for ", "- ", "database."),
    *(
        '"action": "ADD" ',
        '"newValue": "',
        '"RuleActions"',
        '"add": [',
        '"verbs": ["',
        '"hostPath": {"path": "/etc',
        '"Action": [',
        "$(aws",
    ),
    *(
        "rejected after DATA",
        " <= ",
        " user [a]\\[a] status [NT_STATUS_X]",
        "Module 'a' loaded from",
        "a|",
        "SITE CPTO ",
    ),
    *("a=b ", "/1: ", "[1", "from 1.", ",", "x."),
    *("[char]", "iex", "FromBase64String", "powershell -e ", 'name="', "SRC=", "user "),
)


def web(text: str) -> str:
    return f'192.0.2.1 - - [14/Nov/2023:10:12:01 +0000] "GET /?x={text} HTTP/1.1" 404 5 "-" "{text[:2000]}"'


def syslog(program: str, start: str = "") -> Callable[[str], str]:
    return lambda text: f"Nov 14 10:12:01 web1 {program}[1]: {start}{text}"


def windows(number: int, channel: str, field: str) -> Callable[[str], str]:
    system = {"eventID": str(number), "channel": channel}
    return lambda text: json.dumps({"win": {"system": system, "eventdata": {field: text}}})


def kubernetes(resource: str, **fields: object) -> str:
    event = {"apiVersion": "audit.k8s.io/v1", "verb": "create", "objectRef": {"resource": resource}}
    return json.dumps(event | fields)


def cloud(product: str, **fields: object) -> str:
    return json.dumps({product: fields})


def eve(kind: str, **members: object) -> str:
    """An event of Suricata."""
    return json.dumps(
        {"timestamp": "2023-11-14T10:12:01.123456+0000", "event_type": kind, "src_ip": "192.0.2.1", **members}
    )


def after(head: str) -> Callable[[str], str]:
    """Pieces that go on with what a pattern begins with."""
    return lambda text: web(head + text)


LOGS: dict[str, Callable[[str], str]] = {
    "web": web,
    **{f"web {head}": after(head) for head in ("1", "'", "sleep", "union", "/database", ";")},
    "sshd": syslog("sshd", "Failed password for invalid user "),
    "sudo": syslog("sudo", "  ana : TTY=pts/0 ; PWD=/ ; USER=root ; COMMAND="),
    "cron": syslog("CRON", "(root) CMD ("),
    "kernel": syslog("kernel", "IN=eth0 OUT= "),
    "postfix": syslog("postfix/smtpd", "NOQUEUE: reject: RCPT from x[192.0.2.1]: 554 "),
    "named": syslog("named", "client @0x7f 192.0.2.1#1 ("),
    "nginx": lambda text: f"2023/11/14 10:12:01 [error] 1#1: *5 {text}",
    "apache": lambda text: f"[Tue Nov 14 10:12:01.1 2023] [core:error] [pid 1] [client 192.0.2.1:1] {text}",
    "audit": lambda text: f"type=SYSCALL msg=audit(1.1:1): {text}",
    "audited programs": lambda text: f'type=EXECVE msg=audit(1.1:1): argc=2 a0="sh" a1="{text}"',
    "powershell": windows(4104, "Microsoft-Windows-PowerShell/Operational", "scriptBlockText"),
    "programs": windows(4688, "Security", "commandLine"),
    "services": windows(7045, "System", "imagePath"),
    "exim": lambda text: f"2023-11-14 10:12:01 1r2AbC-0001aB-2C <= {text}",
    "vsftpd": lambda text: f'Tue Nov 14 10:12:01 2023 [pid 2] [{text}] FAIL LOGIN: Client "{text}',
    "proftpd": syslog("proftpd", "host (h[192.0.2.1]) - USER "),
    "samba": syslog("smbd", "Auth: [SMB2] user [a]"),
    "samba audit": syslog("smbd_audit", "ana|192.0.2.1|docs|renameat|ok|"),
    "redis": lambda text: f"811:M 14 Nov 2023 10:12:01.123 # {text}",
    "rabbitmq": lambda text: f"2023-11-14 10:12:01.123456+00:00 [info] <0.1.0> {text}",
    "cloudtrail": lambda text: cloud("aws", eventSource="iam.amazonaws.com", eventName="CreateRole", userAgent=text),
    "policies": lambda text: cloud(
        "aws",
        eventSource="iam.amazonaws.com",
        eventName="PutUserPolicy",
        requestParameters={"policyDocument": text},
    ),
    "mail rules": lambda text: cloud("office365", Operation="New-InboxRule", Parameters=text),
    "directory": lambda text: cloud(
        "ms-graph", activityDisplayName="Update conditional access policy", targetResources=text
    ),
    "bindings": lambda text: cloud(
        "gcp", protoPayload={"methodName": "SetIamPolicy", "serviceData": {"policyDelta": {"bindingDeltas": text}}}
    ),
    "containers": lambda text: kubernetes("pods", userAgent=text, requestURI=text),
    "roles": lambda text: kubernetes("roles", requestObject={"rules": text}),
    "secrets": lambda text: json.dumps({"type": "response", "request": {"operation": "read", "path": text}}),
    "tasks": windows(4698, "Security", "taskContent"),
    "cisco": lambda text: f"Nov 14 10:12:01 fw1 %ASA-5-111010: User '{text[:2000]}', IP <{text}> executed '{text}",
    "paloalto": lambda text: "1,2023/11/14 10:12:01,1,THREAT,url,1,x," + text.replace(" ", ","),
    "fortinet": lambda text: f'date=2023-11-14 time=10:12:01 type="event" logdesc="{text[:2000]}" msg="{text}',
    "cef": lambda text: f"Nov 14 10:12:01 gate1 CEF:0|{text[:2000]}|x|1|2|{text}|5|msg={text}",
    "leef": lambda text: f"Nov 14 10:12:01 gate1 LEEF:2.0|{text[:2000]}|x|1|2|^|usrName={text}",
    "filterlog": lambda text: "Nov 14 10:12:01 pf1 filterlog[1]: 4,,,1,igb0,match,block,in,4," + text.replace(" ", ","),
    "snort": lambda text: f"[**] [1:1:1] {text} [**] [Classification: {text[:2000]}] {{TCP}} 1:1 -> {text[:2000]}",
    "squid": lambda text: f"120 192.0.2.1 TCP_MISS/200 1 GET http://192.0.2.1/{text} - x/1 -",
    "haproxy": syslog(
        "haproxy", '192.0.2.1:1 [14/Nov/2023:10:12:01.655] f b/s 1/1/1/1/1 200 1 - - ---- 1/1/1/1/1 0/0 "GET '
    ),
    "openvpn": syslog("openvpn", "ana/192.0.2.1:1 VERIFY ERROR: depth=0, error=x: "),
    "strongswan": syslog("charon", "05[IKE] authentication of '"),
    "clamav": syslog("clamd", "ScanOnAccess: /"),
    "fail2ban": syslog("fail2ban.actions", "NOTICE [sshd] Ban "),
    "suricata": lambda text: eve("http", http={"hostname": "192.0.2.1", "url": text, "http_user_agent": text}),
    "suricata names": lambda text: eve("dns", dns={"type": "query", "rrname": text}),
    "zeek": lambda text: (
        f"1699956721.123456\tCHhAvVGS1DHFjwGM9\t192.0.2.1\t1\t192.0.2.2\t80\t1\tGET\t{text[:2000]}\t{text}"
    ),
    "sysmon": windows(1, SYSMON, "commandLine"),
    "files": windows(11, SYSMON, "targetFilename"),
    "registry": windows(13, SYSMON, "targetObject"),
}


@pytest.fixture
def compiled() -> Ruleset:
    return default_ruleset()


@pytest.mark.parametrize("kind", LOGS)
def test_patterns_never_give_up(compiled: Ruleset, kind: str, tmp_path: Path) -> None:
    for piece in PIECES:
        log = LOGS[kind]((piece * (BYTES // len(piece) + 1))[:BYTES]).encode()
        engine = Engine(compiled, State.private(tmp_path), host=b"host")
        engine.process(Message("1", b"stdin", log), NOW)  # raises MatchLimit


def test_patterns_stand_their_own_words() -> None:
    """A pattern costs most on a text that repeats what it looks for."""
    for file, data in default_sources().rules:
        for rule in (rule for group in parse(data) for rule in group.children):
            for one in (one for one in rule.children if one.attributes.get("type") == b"pcre2"):
                pattern = Pcre(one.content)
                for word in set(re.findall(rb"[A-Za-z]{3,}", one.content)):
                    try:
                        pattern.test((word * BYTES)[:BYTES])
                    except MatchLimit:
                        pytest.fail(f"{file}, rule {rule.attributes['id']!r}: {word!r}")
