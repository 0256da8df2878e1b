"""Sigma rules as the public collection has them in kinds, sizes and shares, with texts of our own, and Windows events.

The same calls return the same rules. One in twenty has something that cannot be translated.
"""

import json
import random
import uuid
from collections.abc import Callable
from typing import Any

from secmon.engine.input.predecode import Message

RULES = 3000
SHARES = {
    "process": 60, "registry": 8, "script": 7, "file": 6, "image": 3, "service": 5, "linux": 5, "web": 3, "proxy": 2,
    "unknown": 1,
}  # fmt: skip
"""Kinds of rules, in per cent."""
_TOOLS = """
    powershell pwsh cmd rundll32 regsvr32 mshta wscript cscript certutil bitsadmin net net1 sc schtasks wmic whoami
    reg msbuild installutil csc explorer svchost winword excel outlook msiexec curl nltest tasklist taskkill vssadmin
    bcdedit wevtutil netsh ipconfig systeminfo findstr xcopy robocopy expand makecab hh odbcconf msdt dllhost
""".split()  # noqa: SIM905
_FOLDERS = (
    "\\Temp\\",
    "\\AppData\\Local\\",
    "\\Users\\Public\\",
    "\\ProgramData\\",
    "\\Windows\\Tasks\\",
    "\\Downloads\\",
)
_SYLLABLES = ("ba", "ker", "do", "lun", "mi", "tas", "ro", "vex", "pa", "sin", "go", "fal", "ne", "qui", "zor", "hel")
_LEVELS = ("low", "medium", "medium", "medium", "high", "high", "critical")
_SYSMON = "Microsoft-Windows-Sysmon/Operational"
Rule = dict[str, Any]


def rules(number: int = RULES, seed: int = 1) -> list[Rule]:
    """``number`` rules by their shares."""
    made = _Rules(random.Random(seed))
    kinds: dict[str, Callable[[], Rule]] = {
        "process": made.process, "registry": made.registry, "script": made.script, "file": made.file,
        "image": made.image, "service": made.service, "linux": made.linux, "web": made.web, "proxy": made.proxy,
        "unknown": made.unknown,
    }  # fmt: skip
    found = [kinds[name]() for name, share in SHARES.items() for _ in range(number * share // 100)]
    return [made.described(one, at) for at, one in enumerate(found)]


class _Rules:
    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def described(self, rule: Rule, at: int) -> Rule:
        """The rule with what all have; one in twenty cannot be translated."""
        if at % 25 == 7:
            rule["detection"]["selection"] = {"CommandLine|expand": "%administrators%"}
        return {
            "title": f"{self._word().title()} {self._word()} {self._word()}",
            "id": str(uuid.UUID(int=self._chance.getrandbits(128), version=4)),
            "status": "test",
            "author": "bench",
            "level": self._chance.choice(_LEVELS),
            "tags": [f"attack.t{self._chance.choice((1059, 1218, 1003, 1547, 1027))}.001", "attack.execution"],
            **rule,
        }

    def _word(self) -> str:
        return "".join(self._chance.choices(_SYLLABLES, k=self._chance.choice((2, 3, 4))))

    def _words(self, least: int, most: int, frame: str = "{}") -> list[str]:
        return [frame.format(self._word()) for _ in range(self._chance.randint(least, most))]

    def _tool(self) -> str:
        return f"\\{self._chance.choice(_TOOLS if self._chance.random() < 0.8 else [self._word()])}.exe"

    def process(self) -> Rule:
        image = {"Image|endswith": [self._tool() for _ in range(self._chance.randint(1, 3))]}
        choice = self._chance.random()
        words = self._words(1, 8, self._chance.choice((" -{}", " /{}", "{}", "{}=", "\\{}")))
        detection: Rule = {"selection_img": image}
        if choice < 0.1:
            return _rule({"selection": {"Image|endswith": f"\\{self._word()}.exe"}}, "process_creation")
        if choice < 0.2:
            detection["selection_img"] = [image, {"OriginalFileName": f"{self._word()}.exe"}]
        if choice < 0.5:
            detection["selection_cli"] = {"CommandLine|contains|all": words[:3]}
        elif choice < 0.85:
            detection["selection_cli"] = {"CommandLine|contains": words}
        elif choice < 0.93:
            detection["selection_cli"] = {"CommandLine|re": rf"(?i){self._word()}\s+\S+{self._word()}"}
        else:
            detection["selection_cli"] = {"ParentImage|endswith": self._tool(), "CommandLine|contains": words}
        detection["condition"] = "all of selection_*"
        if self._chance.random() < 0.3:
            detection["filter_main"] = {"ParentImage|startswith": f"C:\\Program Files\\{self._word()}\\"}
            detection["filter_optional"] = {"CommandLine|contains": self._words(1, 2), "User|contains": "SYSTEM"}
            detection["condition"] += " and not 1 of filter_*"
        return _rule(detection, "process_creation")

    def registry(self) -> Rule:
        key = "\\".join(self._words(2, 3))
        detection: Rule = {"selection": {"TargetObject|contains": f"\\{key}\\", "Details|contains": self._words(1, 3)}}
        if self._chance.random() < 0.5:
            detection["selection"] = {"TargetObject|endswith": f"\\{key}", "Details": "DWORD (0x00000001)"}
        return _rule(detection, "registry_set")

    def script(self) -> Rule:
        if self._chance.random() < 0.5:
            return _rule({"selection": {"ScriptBlockText|contains|all": self._words(2, 4, "{}-")}}, "ps_script")
        return _rule({"selection": {"ScriptBlockText|contains": self._words(1, 12, "Get-{}")}}, "ps_script")

    def file(self) -> Rule:
        where = self._chance.choice(_FOLDERS)
        detection: Rule = {
            "selection": {"TargetFilename|contains": where, "TargetFilename|endswith": f".{self._word()}"}
        }
        if self._chance.random() < 0.5:
            detection = {
                "selection": {"Image|endswith": self._tool(), "TargetFilename|endswith": self._words(1, 4, "\\{}.dll")}
            }
        return _rule(detection, "file_event")

    def image(self) -> Rule:
        names = self._words(1, 3, "\\{}.dll")
        return _rule(
            {
                "selection": {"ImageLoaded|endswith": names},
                "filter": {"ImageLoaded|startswith": "C:\\Windows\\System32\\"},
                "condition": "selection and not filter",
            },
            "image_load",
        )

    def service(self) -> Rule:
        if self._chance.random() < 0.4:
            detection: Rule = {
                "selection": {"Provider_Name": "Service Control Manager", "EventID": 7045},
                "words": {"ImagePath|contains": self._words(1, 3)},
                "condition": "all of them",
            }
            return {"logsource": {"product": "windows", "service": "system"}, "detection": detection}
        number = self._chance.choice((4624, 4625, 4656, 4663, 4697, 4720, 4732, 5136, 5145, 4769))
        detection = {"selection": {"EventID": number, f"{self._word().title()}Name|contains": self._words(1, 3)}}
        return {"logsource": {"product": "windows", "service": "security"}, "detection": _with_condition(detection)}

    def linux(self) -> Rule:
        choice = self._chance.random()
        if choice < 0.5:
            detection = {"selection": {"Image|endswith": f"/{self._word()}", "CommandLine|contains": self._words(1, 3)}}
            return _rule(detection, "process_creation", "linux")
        if choice < 0.8:
            detection = {"selection": {"type": "EXECVE", "a0|endswith": self._word(), "a1|contains": self._word()}}
            return {"logsource": {"product": "linux", "service": "auditd"}, "detection": _with_condition(detection)}
        service = self._chance.choice(("sshd", "sudo", "cron", "auth", "syslog"))
        keywords: Rule = {"selection": self._words(1, 5, "{} failed")}
        return {"logsource": {"product": "linux", "service": service}, "detection": _with_condition(keywords)}

    def web(self) -> Rule:
        detection: Rule = {"selection": {"cs-method": "GET", "cs-uri-query|contains": self._words(1, 6, "/{}.php?")}}
        if self._chance.random() < 0.3:
            detection = {"selection": {"cs-user-agent|contains": self._words(1, 6), "sc-status": [200, 500]}}
        return {"logsource": {"category": "webserver"}, "detection": _with_condition(detection)}

    def proxy(self) -> Rule:
        detection: Rule = {"selection": {"c-useragent|contains": self._words(1, 6)}}
        if self._chance.random() < 0.5:
            detection = {
                "selection": {"c-uri|contains": self._words(1, 3, "/{}."), "cs-host|endswith": f".{self._word()}"}
            }
        return {"logsource": {"category": "proxy"}, "detection": _with_condition(detection)}

    def unknown(self) -> Rule:
        source = {"product": self._word(), "service": "audit"}
        return {"logsource": source, "detection": _with_condition({"selection": {"x": self._word()}})}


def _rule(detection: Rule, category: str, product: str = "windows") -> Rule:
    return {"logsource": {"product": product, "category": category}, "detection": _with_condition(detection)}


def _with_condition(detection: Rule) -> Rule:
    return detection if "condition" in detection else {**detection, "condition": "selection"}


def events(number: int, seed: int = 2) -> list[Message]:
    """Windows events: programs that start, mostly, and registry, files, libraries, scripts, logons."""
    made = _Events(random.Random(seed))
    return [made.event() for _ in range(number)]


class _Events(_Rules):
    """The programs are those that rules look for; command lines have a word of a rule in two."""

    def event(self) -> Message:
        choice = self._chance.random()
        image = f"C:\\Windows\\System32{self._tool()}"
        if choice < 0.5:
            line = f'"{image}" ' + " ".join(self._words(2, 9, self._chance.choice((" -{}", " /{}", "{}", "C:\\{}"))))
            return self._made(_SYSMON, 1, Image=image, CommandLine=line, ParentImage=f"C:\\Windows{self._tool()}",
                              User="EXAMPLE\\ana", CurrentDirectory="C:\\Users\\ana\\", IntegrityLevel="Medium",
                              Hashes=f"SHA256={self._chance.getrandbits(256):064X}")  # fmt: skip
        if choice < 0.6:
            key = "\\".join(self._words(3, 5))
            return self._made(
                _SYSMON, 13, Image=image, TargetObject=f"HKLM\\Software\\{key}", Details="DWORD (0x00000001)"
            )
        if choice < 0.7:
            name = f"C:\\Users\\ana{self._chance.choice(_FOLDERS)}{self._word()}.{self._word()}"
            return self._made(_SYSMON, 11, Image=image, TargetFilename=name)
        if choice < 0.8:
            return self._made(
                _SYSMON, 7, Image=image, ImageLoaded=f"C:\\Windows\\System32\\{self._word()}.dll", Signed="true"
            )
        if choice < 0.9:
            text = "\n".join(" ".join(self._words(3, 8, "${}-")) for _ in range(20))
            return self._made("Microsoft-Windows-PowerShell/Operational", 4104, ScriptBlockText=text)
        return self._made(
            "Security", 4624, TargetUserName="ana", LogonType="3", IpAddress="192.0.2.4", ProcessName=image
        )

    def _made(self, channel: str, number: int, **data: str) -> Message:
        named = "".join(f"<Data Name='{name}'>{value.replace('&', '&amp;')}</Data>" for name, value in data.items())
        text = (
            f"<Event><System><Provider Name='P' Guid='{{54849625}}'/><EventID>{number}</EventID><Level>4</Level>"
            f"<Keywords>0x8000000000000000</Keywords><EventRecordID>77</EventRecordID><Channel>{channel}</Channel>"
            f"<Computer>host1.example</Computer></System><EventData>{named}</EventData></Event>"
        )
        return Message("f", b"[003] (web3) any->EventChannel", json.dumps({"Message": "m", "Event": text}).encode())
