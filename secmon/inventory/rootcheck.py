"""Findings of rootcheck: stored by their text, and passed on to the rules (agent-data.md 6)."""

import re

from sqlalchemy import bindparam, func, select, update

from secmon.inventory.changes import Changes
from secmon.inventory.decoded_event import event_of
from secmon.inventory.message import AgentMessage, MalformedMessage
from secmon.inventory.schema import rootcheck_findings as findings

DECODER = "rootcheck"
MAX_TEXT = 6144
"""Bytes of a finding; a longer one is cut."""
MAX_FINDINGS = 5000
"""Findings of an agent; a new one takes the place of the one that was not reported for the longest time."""
MARKERS = (
    "Starting rootcheck scan.",
    "Ending rootcheck scan.",
    "Starting syscheck scan.",
    "Ending syscheck scan.",
)
"""Texts that say when a scan begins and ends."""

_QUOTE = re.compile("[Ff]ile '")


def handle_rootcheck(message: AgentMessage, changes: Changes) -> None:
    """A :data:`secmon.inventory.changes.Handler`."""
    text = message.body.encode()[:MAX_TEXT].decode(errors="ignore")
    if not text:
        raise MalformedMessage("the finding is empty")
    new = _store(text, message.agent, int(message.received), changes)
    given = (("title", title_of(text)), ("file", file_of(text)))
    fields = [(name, value) for name, value in given if value]
    changes.report(event_of(message, DECODER, fields, text, first_seen=new))


_MINE = findings.c.agent_id == bindparam("agent")
_REPEATED = update(findings).where(_MINE, findings.c.log == bindparam("text")).values(date_last=bindparam("now"))
_COUNT = select(func.count()).select_from(findings).where(_MINE)
_OLDEST = (
    select(findings.c.id).where(_MINE, findings.c.log.not_in(MARKERS)).order_by(findings.c.date_last).limit(1)
).scalar_subquery()


def _store(text: str, agent: int, now: int, changes: Changes) -> bool:
    """Note that ``text`` was reported ``now``, in seconds since 1970: whether it is new."""
    if changes.execute(findings, _REPEATED, {"agent": agent, "text": text, "now": now}).rowcount:
        return False
    if changes.execute(findings, _COUNT, {"agent": agent}).scalar_one() >= MAX_FINDINGS:
        changes.delete(findings, agent, findings.c.id == _OLDEST)
    row = {"agent_id": agent, "date_first": now, "date_last": now, "log": text}
    changes.save(findings, {**row, "pci_dss": _tag("PCI_DSS", text), "cis": _tag("CIS", text)})
    return True


def _tag(name: str, text: str) -> str | None:
    value, end, _ = text.partition(f"{{{name}: ")[2].partition("}")
    return value if end else None


def title_of(text: str) -> str:
    """The title of a finding (agent-data.md 6.3)."""
    brace = text.find(" {", 1)
    title = text if brace < 0 else text[:brace]
    before, audit, rest = title.partition("System Audit: ")
    if audit and " - " not in before:
        title = rest
    sentence, stop, _ = title.partition(". ")
    title = f"{sentence}." if stop else title
    if quote := _QUOTE.search(title):
        _, end, rest = title[quote.end() :].partition("' ")
        title = title[: quote.end() - 1] + rest if end else title
    return title


def file_of(text: str) -> str | None:
    """The file that a finding names, if it names one (agent-data.md 6.3)."""
    found = _until(".", text.partition("File: ")[2])
    quote = _QUOTE.search(text) if found is None else None
    return found if quote is None else _until("'", text[quote.end() :])


def _until(end: str, text: str) -> str | None:
    """What is before ``end`` and a blank, or before ``end`` at the end of ``text``."""
    found, blank, _ = text.partition(f"{end} ")
    if blank:
        return found
    return text.removesuffix(end) if text.endswith(end) else None
