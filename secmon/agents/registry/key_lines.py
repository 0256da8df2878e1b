"""The grammar of the key file and of the file of registration times (agent-link.md 2.1, 2.2)."""

from collections.abc import Iterable
from datetime import UTC, datetime

from msgspec import Struct, field

from secmon.agents.names import bare_address, normal_address, padded, parse_id
from secmon.agents.registry.entries import Entry, Tombstone

MAX_FIELD = 1024
"""Maximum length of a field: more than other tools write, so that no line of theirs is lost."""


class KeyLine(Struct, frozen=True):
    """The fields of a line after the id; the address as the registry writes it."""

    name: str
    address: str
    key: str


class KeyLines(Struct, frozen=True):
    """The lines of a key file, by id. ``faults``: a sentence for each invalid line."""

    active: dict[int, KeyLine] = field(default_factory=dict)
    removed: dict[int, KeyLine] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)


def parse_keys(text: str) -> KeyLines:
    """Read a key file as far as it can be understood. Of active lines with one id, or one name, the first counts."""
    found = KeyLines()
    names: set[str] = set()
    for number, line in enumerate(text.split("\n"), 1):
        line = line.removesuffix("\r")
        if not line or line[0] in "# ":
            continue
        try:
            agent, name, entry = _fields(line)
            if name[0] in "!#":
                found.removed.setdefault(agent, entry)
                continue
            if agent in found.active:
                raise ValueError(f"id {padded(agent)} occurs twice")
            if name in names:
                raise ValueError(f"name {name} occurs twice")
        except ValueError as error:
            found.faults.append(f"line {number}: {error}")
            continue
        names.add(name)
        found.active[agent] = entry
    for agent in found.active.keys() & found.removed.keys():
        del found.removed[agent]
    return found


def _fields(line: str) -> tuple[int, str, KeyLine]:
    """Id, name with its mark, and the line. Raises ValueError."""
    parts = line.split()
    if not (line.isascii() and line.isprintable()):
        raise ValueError("characters that no field may have")
    if len(parts) != 4:
        raise ValueError("not four fields: id, name, address, key")
    agent, name, address, key = parse_id(parts[0]), *parts[1:]
    if not agent:
        raise ValueError("no id of an agent at its beginning")
    plain = name[1:] if name[0] in "!#" else name
    if not plain or max(map(len, parts)) > MAX_FIELD:
        raise ValueError("a field is empty or too long")
    try:
        return agent, name, KeyLine(plain, normal_address(address), key)
    except ValueError:
        raise ValueError(f"{address!r} is no address") from None


def render_keys(entries: Iterable[Entry], stones: Iterable[Tombstone]) -> str:
    """The text of a key file: agents, then those removed unless purged, each by id."""
    lines = [f"{one.line}\n" for one in entries]
    lines += [
        f"{padded(one.id)} !{one.name} {bare_address(one.register_ip)} {one.internal_key}\n"
        for one in stones
        if not one.purged
    ]
    return "".join(lines)


def render_times(entries: Iterable[Entry]) -> str:
    """When each agent was registered, in local time."""
    return "".join(
        f"{one.padded} {one.name} {bare_address(one.register_ip)} {_local(one.date_add)}\n" for one in entries
    )


def parse_times(text: str) -> dict[int, int]:
    """Seconds since 1970 by id; invalid lines are left out."""
    found: dict[int, int] = {}
    for line in text.splitlines():
        parts = line.split()
        agent = parse_id(parts[0]) if len(parts) == 5 else None
        if agent:
            try:
                found[agent] = int(datetime.fromisoformat(f"{parts[3]} {parts[4]}").astimezone().timestamp())
            except (ValueError, OverflowError):
                continue
    return found


def _local(moment: int) -> str:
    return datetime.fromtimestamp(moment, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")
