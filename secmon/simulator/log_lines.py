"""Log lines like those of real hosts; equal seeds yield equal lines, except for their times."""

from collections.abc import Callable
from datetime import datetime
from random import Random

_USERS = ("root", "admin", "deploy", "oracle", "ubuntu", "git", "backup", "alice", "bob", "carol")
_COMMANDS = (
    "/usr/bin/apt update",
    "/usr/bin/systemctl restart nginx",
    "/bin/cat /etc/shadow",
    "/usr/bin/tail -f /var/log/syslog",
)
_PATHS = (
    "/",
    "/index.html",
    "/api/v1/items?page=2",
    "/login",
    "/static/app.js",
    "/wp-login.php",
    "/.env",
    "/search?q=%27%20OR%201%3D1--",
    "/../../etc/passwd",
)
_CLIENTS = (
    "Mozilla/5.0 (X11; Linux x86_64; rv:125.0) Gecko/20100101 Firefox/125.0",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/124.0.0.0 Safari/537.36",
    "curl/8.5.0",
    "python-requests/2.31.0",
)
_STATUS = (200, 200, 200, 200, 301, 304, 400, 401, 403, 404, 404, 500)

Line = tuple[str, str]
"""Location and text."""


class LogLines:
    """The logs of one host. ``now`` is its clock, which may be wrong."""

    def __init__(self, host: str, random: Random, now: Callable[[], datetime]) -> None:
        self._host, self._random, self._now = host, random, now
        self._kinds: tuple[tuple[Callable[[], Line], ...], list[float]] = (
            (self._failed, self._invalid, self._accepted, self._session, self._sudo, self._web, self._cron),
            [20, 8, 6, 6, 5, 40, 15],
        )

    def next(self) -> Line:
        """One more line."""
        functions, weights = self._kinds
        return self._random.choices(functions, weights)[0]()

    def _head(self, program: str) -> str:
        now = self._now()
        return f"{now:%b} {now.day:2} {now:%H:%M:%S} {self._host} {program}"

    def _daemon(self, name: str) -> str:
        return self._head(f"{name}[{self._random.randrange(400, 32768)}]:")

    def _peer(self) -> str:
        network = self._random.choice(("192.0.2", "198.51.100", "203.0.113", "10.20.30"))
        return f"{network}.{self._random.randrange(1, 255)}"

    def _user(self) -> str:
        return self._random.choice(_USERS)

    def _from(self) -> str:
        return f"from {self._peer()} port {self._random.randrange(1024, 65536)}"

    def _failed(self) -> Line:
        return "/var/log/auth.log", f"{self._daemon('sshd')} Failed password for {self._user()} {self._from()} ssh2"

    def _invalid(self) -> Line:
        name = f"user{self._random.randrange(1000)}"
        return (
            "/var/log/auth.log",
            f"{self._daemon('sshd')} Failed password for invalid user {name} {self._from()} ssh2",
        )

    def _accepted(self) -> Line:
        print_ = self._random.randbytes(24).hex()
        text = f"Accepted publickey for {self._user()} {self._from()} ssh2: ED25519 SHA256:{print_}"
        return "/var/log/auth.log", f"{self._daemon('sshd')} {text}"

    def _session(self) -> Line:
        text = f"pam_unix(sshd:session): session opened for user {self._user()}(uid=1000) by (uid=0)"
        return "/var/log/auth.log", f"{self._daemon('sshd')} {text}"

    def _sudo(self) -> Line:
        user, command = self._user(), self._random.choice(_COMMANDS)
        text = f"{user:>8} : TTY=pts/{self._random.randrange(8)} ; PWD=/home/{user} ; USER=root ; COMMAND={command}"
        return "/var/log/auth.log", f"{self._head('sudo:')} {text}"

    def _cron(self) -> Line:
        return "/var/log/syslog", f"{self._daemon('CRON')} (root) CMD (run-parts --report /etc/cron.hourly)"

    def _web(self) -> Line:
        random, now = self._random, self._now()
        request = f"{random.choice(('GET', 'GET', 'GET', 'POST'))} {random.choice(_PATHS)} HTTP/1.1"
        status, size = random.choice(_STATUS), random.randrange(150, 60000)
        head = f"{self._peer()} - - [{now:%d/%b/%Y:%H:%M:%S +0000}]"
        text = f'{head} "{request}" {status} {size} "-" "{random.choice(_CLIENTS)}"'
        return "/var/log/nginx/access.log", text


class WindowsEvents:
    """The event channel of one Windows host (agent-data.md 8)."""

    _LOGON = (4624, "An account was successfully logged on.", "0x8020000000000000")
    _FAILED = (4625, "An account failed to log on.", "0x8010000000000000")
    _PROCESS = (4688, "A new process has been created.", "0x8020000000000000")

    def __init__(self, host: str, random: Random, now: Callable[[], datetime]) -> None:
        self._host, self._random, self._now = host, random, now
        self._record = random.randrange(1000, 100000)

    def next(self) -> dict[str, str]:
        """Body of one more event: its XML, and its message."""
        number, message, keywords = self._random.choice((self._LOGON, self._LOGON, self._FAILED, self._PROCESS))
        self._record += 1
        data = {
            "TargetUserName": self._random.choice(_USERS),
            "TargetDomainName": self._host,
            "LogonType": str(self._random.choice((2, 3, 10))),
            "IpAddress": f"192.0.2.{self._random.randrange(1, 255)}",
        }
        fields = "".join(f"<Data Name='{name}'>{value}</Data>" for name, value in data.items())
        xml = (
            "<Event xmlns='http://schemas.microsoft.com/win/2004/08/events/event'><System>"
            "<Provider Name='Microsoft-Windows-Security-Auditing' Guid='{54849625-5478-4994-a5ba-3e3b0328c30d}'/>"
            f"<EventID>{number}</EventID><Version>2</Version><Level>0</Level><Task>12544</Task><Opcode>0</Opcode>"
            f"<Keywords>{keywords}</Keywords><TimeCreated SystemTime='{self._now():%Y-%m-%dT%H:%M:%S.%f}00Z'/>"
            f"<EventRecordID>{self._record}</EventRecordID><Correlation/><Execution ProcessID='628' ThreadID='700'/>"
            f"<Channel>Security</Channel><Computer>{self._host}</Computer><Security/></System>"
            f"<EventData>{fields}</EventData></Event>"
        )
        return {"Message": message, "Event": xml}
