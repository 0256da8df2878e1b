"""From an event at an agent to what follows: the command at agents, the alert in ``GET /alerts``, a webhook, a mail."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, Envelope, Session

from bench.harness import Aim, Client, Figure, median_figure, request
from bench.nodes import Bench, say, token
from secmon.simulator import Fleet, Options
from tests.integration.kit import RealCluster, cluster, free_port
from tests.simulator.background import Background, running, server_of

RULE = 100_920
WORD = "measured event"
_LIMIT_SECONDS = 10.0
_TRIES = 6
_POLL_SECONDS = 0.002
_CONFIG = """
  <command><name>measured</name><executable>measured</executable></command>
  <active-response><command>measured</command><location>all</location><rules_id>{rule}</rules_id></active-response>
  <integration><name>webhook</name><hook_url>http://127.0.0.1:{web}/</hook_url><rule_id>{rule}</rule_id></integration>
  <global>
    <email_notification>yes</email_notification>
    <smtp_server>127.0.0.1</smtp_server>
    <smtp_port>{smtp}</smtp_port>
    <smtp_encryption>none</smtp_encryption>
    <email_from>secmon@example.org</email_from>
    <email_to>day@example.org</email_to>
    <email_maxperhour>10000</email_maxperhour>
  </global>
  <email_alerts><email_to>{at_once}</email_to><rule_id>{rule}</rule_id><do_not_delay/></email_alerts>
</ossec_config>
"""
_AT_ONCE = "night@example.org"
"""Of the recipients the one whose mails do not wait for further alerts."""
_RULES = (
    f'<group name="measured,"><rule id="{RULE}" level="5"><match>{WORD}</match>'
    "<options>alert_by_email</options><description>Measured.</description></rule></group>"
)


def measure(bench: Bench) -> list[Figure]:
    """One event at a time, in a cluster of two nodes with an agent at each."""
    bench.stop()
    rounds = 3 if bench.quick else 30
    with receiver() as found, cluster(workers=1, before_start=found.configure) as made:
        fleets = [Fleet([server_of(node)], 1, prefix=node.name, options=Options()) for node in made.nodes]
        with running(fleets[0]) as near, running(fleets[1]) as far:
            for each in (near, far):
                each.until(lambda counters: counters.connected == 1)
            stage = Stage(made, near, far, found)
            stage.wait_ready()
            say(f"{rounds} events")
            return stage.figures([stage.round(number) for number in range(rounds)])


@dataclass
class Receiver:
    """A web server and a mail server that note when something comes."""

    web_port: int = field(default_factory=free_port)
    smtp_port: int = field(default_factory=free_port)
    posts: int = 0
    mails: int = 0

    def configure(self, made: RealCluster) -> None:
        """Outputs and a response on all nodes, and the rule on the master."""
        for node in made.nodes:
            text = node.paths.main_config.read_text().rstrip().removesuffix("</ossec_config>")
            text += _CONFIG.format(rule=RULE, web=self.web_port, smtp=self.smtp_port, at_once=_AT_ONCE)
            node.paths.main_config.write_text(text)
            (node.paths.etc / "rules" / "measured.xml").write_text(_RULES)

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        """A mail."""
        self.mails += envelope.rcpt_tos == [_AT_ONCE]
        return "250 OK"


@contextmanager
def receiver() -> Iterator[Receiver]:
    """They run."""
    found = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            found.posts += 1
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Nothing."""

    web = ThreadingHTTPServer(("127.0.0.1", found.web_port), Handler)
    threading.Thread(target=web.serve_forever, daemon=True).start()
    mail = Controller(found, hostname="127.0.0.1", port=found.smtp_port)
    mail.start()
    try:
        yield found
    finally:
        mail.stop()
        web.shutdown()
        web.server_close()


class Stage:
    """The nodes, an agent at each, and the receiver."""

    def __init__(self, made: RealCluster, near: Background, far: Background, found: Receiver) -> None:
        self._made, self._near, self._far, self._found = made, near, far, found
        self._headers = token(made, made.master)

    def wait_ready(self) -> None:
        """Until an event has all its effects: agents are known to the master, their files are theirs.

        Raises RuntimeError, with the effects that are missing.
        """
        missing: set[str] = set()
        for number in range(_TRIES):
            took = self.round(900_000 + number)
            missing = {name for name, one in took.items() if one >= _LIMIT_SECONDS * 1000}
            if not missing:
                return
        raise RuntimeError(f"an event is without effect at: {', '.join(sorted(missing))}")

    def round(self, number: int) -> dict[str, float]:
        """Milliseconds until each effect of one event; the limit where there was none."""
        before = self._counts()
        begin, took = time.monotonic(), dict[str, float]()
        agent = self._near.fleet.agents[0]
        self._near.call(lambda: agent.send(f"1:/var/log/x:{WORD} number {number}".encode()))
        with Client(self._made.master.api_port) as client:
            while len(took) < len(before) + 1 and time.monotonic() < begin + _LIMIT_SECONDS:
                now = self._counts()
                for name in before:
                    if now[name] > before[name]:
                        took.setdefault(name, (time.monotonic() - begin) * 1000)
                if "alert" not in took and self._is_found(client, number):
                    took["alert"] = (time.monotonic() - begin) * 1000
                time.sleep(_POLL_SECONDS)
        return {name: took.get(name, _LIMIT_SECONDS * 1000) for name in (*before, "alert")}

    def _is_found(self, client: Client, number: int) -> bool:
        since = f"since=now-10m&rule_ids={RULE}&limit=1&search=number"
        answer = client.ask(request("GET", f"/alerts?{since}", self._headers))
        return f'number {number}"'.encode() in answer.body

    def _counts(self) -> dict[str, int]:
        return {
            "agent of the node": len(self._near.fleet.commands),
            "agent of another node": len(self._far.fleet.commands),
            "webhook": self._found.posts,
            "mail": self._found.mails,
        }

    def figures(self, rounds: list[dict[str, float]]) -> list[Figure]:
        """The median of each effect."""
        return [
            median_figure(
                f"responses: event to {name}",
                [one[name] for one in rounds],
                "ms",
                aim=Aim(bound=2000, of="value") if name == "alert" else None,
            )
            for name in rounds[0]
        ]
