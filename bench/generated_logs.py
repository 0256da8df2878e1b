"""Logs for the generated ruleset: half of each class match a rule of their own, the others do not."""

import json
import random
from collections.abc import Callable, Mapping

from bench.generated_ruleset import GeneratedRuleset, Program
from secmon.engine.input.predecode import Message

SHARES: Mapping[str, int] = {
    "known programs": 30, "programs without a header": 10, "unknown programs": 10, "access logs": 20, "JSON": 15,
    "Windows": 15,
}  # fmt: skip
"""Classes of logs, and the share of each in the mixed ones, in per cent."""
HEADER = "Nov 14 22:13:20 web1 "
_LOCATION = b"[003] (web3) any->/var/log/bench"
_PLAIN = {
    "named": "{}[811]: ",
    "dated": "2023/11/14 22:13:20 {}: ",
    "numbered": "web1 811 {}: ",
    "classed": "web1 {}: ",
    "inside": "[main] <info> {}: ",
}
_WINDOWS = (
    '<Event xmlns="urn:schemas:events"><System><Provider Name="Generated-Auditing" Guid="{{54849625-5478-4994}}"/>'
    "<EventID>{number}</EventID><Version>2</Version><Level>0</Level><Task>12544</Task><Opcode>0</Opcode>"
    '<Keywords>0x8020000000000000</Keywords><TimeCreated SystemTime="2023-11-14T22:13:20.123456700Z"/>'
    '<EventRecordID>{record}</EventRecordID><Correlation/><Execution ProcessID="644" ThreadID="700"/>'
    "<Channel>{channel}</Channel><Computer>host{host}.example</Computer><Security/></System><EventData>"
    '<Data Name="SubjectUserSid">S-1-5-18</Data><Data Name="SubjectUserName">HOST{host}$</Data>'
    '<Data Name="TargetUserName">user{host}</Data><Data Name="TargetDomainName">EXAMPLE</Data>'
    '<Data Name="LogonType">5</Data><Data Name="ProcessName">C:\\Windows\\System32\\services.exe</Data>'
    '<Data Name="Image">C:\\Program Files\\{image}</Data><Data Name="IpAddress">-</Data></EventData></Event>'
)


def logs(ruleset: GeneratedRuleset, number: int, seed: int = 2) -> dict[str, list[Message]]:
    """``number`` logs of each class."""
    made = _Logs(ruleset, random.Random(seed))
    kinds: dict[str, Callable[[bool], Message]] = {
        "known programs": made.known,
        "programs without a header": made.plain,
        "unknown programs": made.unknown,
        "access logs": made.access,
        "JSON": made.operation,
        "Windows": made.windows,
    }
    return {name: [make(at % 2 == 0) for at in range(number)] for name, make in kinds.items()}


def mixed(classes: Mapping[str, list[Message]], seed: int = 3) -> list[Message]:
    """Logs of all classes by their shares, in random order."""
    size = min(map(len, classes.values())) / max(SHARES.values())
    found = [one for name, share in SHARES.items() for one in classes[name][: round(share * size)]]
    random.Random(seed).shuffle(found)
    return found


class _Logs:
    """Each method makes one log; ``hit``: of an event with a rule of its own."""

    def __init__(self, ruleset: GeneratedRuleset, chance: random.Random) -> None:
        self._ruleset, self._chance = ruleset, chance

    def known(self, hit: bool) -> Message:
        program = self._chance.choice(self._ruleset.programs)
        return _message(f"{HEADER}{program.name}[811]: {self._text(program, hit)}")

    def plain(self, hit: bool) -> Message:
        if self._chance.random() < 0.1:
            return self._firewall()
        program = self._chance.choice(self._ruleset.plain_programs)
        return _message(_PLAIN[program.plain].format(program.name) + self._text(program, hit))

    def unknown(self, hit: bool) -> Message:
        program = f"other{self._chance.randrange(40)}"
        word = self._chance.choice(self._ruleset.words) if hit else "idle"
        return _message(f"{HEADER}{program}[811]: the request {self._number()} of unit{self._number()} is {word} again")

    def access(self, hit: bool) -> Message:
        word = self._chance.choice(self._ruleset.urls) if hit else "index"
        status = self._chance.choice((200, 200, 200, 304, 404))
        return _message(
            f'{self._address()} - - [14/Nov/2023:22:13:20 +0000] "GET /shop/{word}.html?item={self._number()} '
            f'HTTP/1.1" {status} {self._number()} "https://www.example.com/shop/" "Mozilla/5.0 (X11; Linux x86_64)"'
        )

    def operation(self, hit: bool) -> Message:
        vendor = self._chance.choice(list(self._ruleset.operations))
        operation = self._chance.choice(self._ruleset.operations[vendor]) if hit else "list"
        document = {
            "timestamp": "2023-11-14T22:13:20.123Z",
            "vendor": vendor,
            "operation": operation,
            "id": f"{self._number()}",
            "srcip": self._address(),
            "user": {"name": f"user{self._number()}", "type": "person", "groups": ["staff", "admin"]},
            "target": {"name": f"bucket{self._number()}", "region": "north", "bytes": self._number(), "public": False},
            "result": "success",
            "duration": 1.5,
            "agent": "client/2.1 (linux)",
        }
        return _message(json.dumps(document))

    def windows(self, hit: bool) -> Message:
        logon = self._chance.random() < 0.6
        event = _WINDOWS.format(
            number=self._chance.choice(self._ruleset.logons) if logon and hit else 1,
            record=self._number(),
            host=self._chance.randrange(50),
            channel="Security" if logon else "Generated-Processes/Operational",
            image=f"{self._chance.choice(self._ruleset.images) if hit else 'editor'}.exe",
        )
        text = json.dumps(
            {"Message": "An account was logged on.\r\n\r\nSubject:\r\n\tSecurity ID:\t\tS-1-5-18", "Event": event}
        )
        return Message("f", b"[003] (win3) any->EventChannel", text.encode())

    def _text(self, program: Program, hit: bool) -> str:
        verb = self._chance.choice(program.verbs)
        event = self._chance.choice(program.events) if hit else "usual"
        if self._chance.random() < 0.3:
            fields = " ".join(f"{key}=value{self._number()}" for key in program.keys)
            return f"state {event} for unit {fields}"
        return f"{verb} {event} for user{self._number()} from {self._address()} port {self._number()} proto 2"

    def _firewall(self) -> Message:
        keys = self._chance.choice(self._ruleset.firewalls)
        fields = " ".join(f'{key}="value {at}"' if at % 3 else f"{key}={at}" for at, key in enumerate(keys))
        return _message(f"date=2023-11-14 time=22:13:20 {fields}")

    def _address(self) -> str:
        return f"192.0.2.{self._chance.randrange(1, 255)}"

    def _number(self) -> int:
        return self._chance.randrange(1, 60000)


def _message(text: str) -> Message:
    return Message("1", _LOCATION, text.encode())
