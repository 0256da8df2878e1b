"""What an import changes: decided from the source and what is here, before anything is written."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct, field

from secmon.agents.groups.folders import AGENT_CONF, AGENT_CONF_TEXT, RESERVED
from secmon.agents.names import MAX_ID, padded
from secmon.agents.registry.entries import Entry
from secmon.agents.registry.key_lines import KeyLine as KeyLine
from secmon.agents.registry.registry import New
from secmon.agents.wire.counters import parse as parse_counter
from secmon.common.paths import Paths
from secmon.importers.agents.source import Source, read_group_file
from secmon.importers.report import ReportLine, printable


class Plan(Struct):
    """``news``, ``assigned`` and ``stones`` go to the registry; ``made`` are groups without a folder anywhere;
    ``files`` are to be copied, by their path below the shared folder; ``counter`` is a file's text."""

    lines: list[ReportLine] = field(default_factory=list)
    news: list[New] = field(default_factory=list)
    assigned: dict[int, tuple[str, ...]] = field(default_factory=dict)
    stones: list[tuple[int, str, str, str]] = field(default_factory=list)
    made: list[str] = field(default_factory=list)
    files: dict[str, Path] = field(default_factory=dict)
    counter: str = ""

    @property
    def refused(self) -> bool:
        return any(line.result == "refused" for line in self.lines)

    @property
    def empty(self) -> bool:
        return not (self.news or self.assigned or self.stones or self.made or self.files or self.counter)

    def report(self, line: ReportLine) -> None:
        self.lines.append(line)


def decide(source: Source, here: Mapping[int, Entry], gone: Mapping[int, str], paths: Paths) -> Plan:
    """``here``: agents of this registry; ``gone``: names of those removed from it."""
    plan = Plan(lines=list(source.lines))
    for name, files in source.folders.items():
        _decide_folder(plan, name, files, paths)
    names = {one.name: one.id for one in here.values()}
    for agent, line in source.keys.active.items():
        _decide_agent(plan, agent, line, source, here.get(agent), gone, names)
    for agent, line in source.keys.removed.items():
        known = agent in here or agent in gone
        plan.report(ReportLine("present" if known else "imported", "removed", f"{padded(agent)} {line.name}"))
        if not known:
            plan.stones.append((agent, line.name, line.address, line.key))
    _decide_missing(plan, source, paths)
    _decide_counter(plan, source.counter, paths)
    return plan


def _decide_folder(plan: Plan, group: str, files: Mapping[str, Path], paths: Paths) -> None:
    folder = paths.shared / group
    if group in RESERVED or (folder.exists() and not folder.is_dir()):
        plan.report(ReportLine("refused", "group", group, "its name is that of a shared file"))
        return
    plan.report(ReportLine("present" if folder.is_dir() else "imported", "group", group))
    if not folder.is_dir() and AGENT_CONF not in files:
        plan.made.append(group)
    for name, path in files.items():
        target, shown = folder / name, printable(f"{group}/{name}")
        if not target.exists() or _untouched(target):
            plan.files[f"{group}/{name}"] = path
            plan.report(ReportLine("imported", "file", shown))
        elif read_group_file(path) == target.read_bytes():
            plan.report(ReportLine("present", "file", shown))
        else:
            plan.report(ReportLine("refused", "file", shown, "another file is here; remove it, or make them equal"))


def _untouched(target: Path) -> bool:
    """Whether this is the file that every new group gets, as it was."""
    return target.name == AGENT_CONF and target.is_file() and target.read_bytes() == AGENT_CONF_TEXT.encode()


def _decide_agent(
    plan: Plan,
    agent: int,
    line: KeyLine,
    source: Source,
    held: Entry | None,
    gone: Mapping[int, str],
    names: dict[str, int],
) -> None:
    name, groups = f"{padded(agent)} {line.name}", source.groups.get(agent, ())
    if held is not None and (held.name, held.internal_key) == (line.name, line.key):
        plan.report(ReportLine("present", "agent", name))
        _decide_groups(plan, held, groups)
    elif held is not None:
        plan.report(ReportLine("refused", "agent", name, f"the id is that of {held.name} here"))
    elif agent in gone:
        plan.report(ReportLine("dropped", "agent", name, f"{gone[agent]} with this id was removed here"))
    elif names.setdefault(line.name, agent) != agent:
        plan.report(ReportLine("refused", "agent", name, f"the name is that of agent {padded(names[line.name])} here"))
    elif agent > MAX_ID:
        plan.report(ReportLine("refused", "agent", name, "the id is too large"))
    else:
        plan.report(ReportLine("imported", "agent", name, f"in {','.join(groups)}" if groups else ""))
        plan.news.append(
            New(
                name=line.name,
                address=line.address,
                groups=groups,
                id=agent,
                key=line.key,
                added=source.added.get(agent),
            )
        )


def _decide_groups(plan: Plan, held: Entry, groups: tuple[str, ...]) -> None:
    if not groups or held.groups == groups:
        return
    if held.groups:
        plan.report(
            ReportLine("dropped", "groups", held.padded, f"it is in {held.group} here, not in {','.join(groups)}")
        )
        return
    plan.report(ReportLine("imported", "groups", held.padded, ",".join(groups)))
    plan.assigned[held.id] = groups


def _decide_missing(plan: Plan, source: Source, paths: Paths) -> None:
    """Groups that agents are in though they have no folder."""
    for name in dict.fromkeys(_named(plan)):
        if name not in source.folders and not (paths.shared / name).is_dir():
            plan.made.append(name)
            plan.report(ReportLine("warning", "group", name, "agents are in it but it has no folder: one is created"))


def _named(plan: Plan) -> Iterator[str]:
    for new in plan.news:
        yield from new.groups
    for groups in plan.assigned.values():
        yield from groups


def _decide_counter(plan: Plan, text: str, paths: Paths) -> None:
    """Agents that verify counters refuse a message whose counter is lower than the last one."""
    theirs = parse_counter(text)
    if theirs is None:
        return
    file = paths.counters / "sender_counter"
    ours = parse_counter(file.read_text("utf-8", "replace")) if file.exists() else None
    if ours is not None and ours >= theirs:
        plan.report(ReportLine("present", "counters", theirs.text))
        return
    plan.report(ReportLine("imported", "counters", theirs.text))
    plan.counter = theirs.text
