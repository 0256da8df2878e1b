"""Upgrades of agents: requests and results (agent-link.md 10). The nodes of the agents do the work."""

import asyncio
from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, structs

from secmon.agents.names import padded
from secmon.agents.registry.agent_fields import iso_offset
from secmon.agents.tasks import lifecycle
from secmon.agents.tasks.lifecycle import Command, Task, Work
from secmon.agents.upgrade_targets import Candidate, normal_version, obstacle, obstacle_to
from secmon.agents.wire.version import MANAGER_VERSION
from secmon.cluster.catalogue import Place, operation
from secmon.cluster.executor import Context
from secmon.cluster.parameters import Alphanumeric, text_format
from secmon.common.errors import SecmonError
from secmon.common.outcome import Messages, Outcome
from secmon.config.agent_versions import highest_agent
from secmon.config.upgrades import read_upgrades
from secmon.operations.agents.parameters import STAYS_BELOW
from secmon.operations.agents.upgrade_selection import UPGRADE, ResultsQuery, Selection, select_agents, without_hidden
from secmon.operations.internal import INTERNAL
from secmon.operations.tasks.node_tasks import WAKE

ProductVersion = Annotated[
    str,
    text_format("product_version", r"(?i:(?:wazuh |secmon )?v?[0-9]+\.[0-9]+\.[0-9]+)"),
    Meta(max_length=64, description="The version to install; the manager's without it."),
]
Repository = Annotated[
    str,
    text_format("path", STAYS_BELOW + r"[\w\-.\\/:]+"),
    Meta(max_length=2048, description="Address of the packages, or a folder below the installation folder."),
]
PackagePath = Annotated[
    str,
    text_format("wpk_path", STAYS_BELOW + r"[\w\-.\\/:\s]*[^/]\.wpk"),
    Meta(
        max_length=1024,
        description="A package on the agents' nodes, relative to the installation folder or as on the master.",
    ),
]

REQUESTED = Messages(
    all="The upgrades were requested", some="Some of the upgrades were not requested",
    none="No upgrade was requested",
)  # fmt: skip
RESULTS = Messages(
    all="The results of the upgrades were read", some="Some of the results could not be read",
    none="No result was read",
)  # fmt: skip

_waking: set[asyncio.Task[Any]] = set()

STATUS_TEXTS: Mapping[str, str] = {
    "Pending": "In queue",
    "In progress": "Updating",
    "Done": "Updated",
    "Failed": "Error",
    "Cancelled": "Task cancelled since the manager was restarted",
    "Timeout": "Timeout reached while waiting for the response from the agent",
    "Legacy": "Legacy upgrade: check the result manually since the agent cannot report the result of the task",
}
"""Task states as texts of the API (manager.md 14.4)."""


class UpgradeTask(Struct):
    """The task that was created for an agent."""

    agent: str
    task_id: int


class UpgradeResult(Struct):
    """The last upgrade of an agent."""

    message: str
    agent: str
    task_id: int
    node: str
    module: str
    command: Literal["upgrade", "upgrade_custom"]
    status: str
    create_time: str
    update_time: str | UnsetType = UNSET
    error_msg: str | UnsetType = UNSET


class PutUpgrade(Selection, frozen=True, kw_only=True):
    """Query parameters of PUT /agents/upgrade. Named agents that do not meet all conditions fail."""

    wpk_repo: Repository | None = None
    upgrade_version: ProductVersion | None = None
    use_http: Annotated[bool, Meta(description="For a repository without http:// or https:// in front.")] = False
    force: Annotated[bool, Meta(description="Install older versions and those above the manager's too.")] = False


class PutCustomUpgrade(Selection, frozen=True, kw_only=True):
    """Query parameters of PUT /agents/upgrade_custom. Named agents that do not meet all conditions fail."""

    file_path: PackagePath
    installer: Annotated[Alphanumeric | None, Meta(description="Program of the package that installs it.")] = None


@operation(
    "PUT", "/agents/upgrade", params=PutUpgrade, place=Place.MASTER, item=UpgradeTask, require=(UPGRADE,),
    messages=REQUESTED,
)  # fmt: skip
async def upgrade_agents(ctx: Context, params: PutUpgrade) -> Outcome:
    """Upgrade agents to packages of a repository; each has a task that shows its progress."""
    version = None if params.upgrade_version is None else normal_version(params.upgrade_version)
    repository = params.wpk_repo
    if repository is not None and repository.startswith("/"):
        repository = f"./{_below(ctx, repository)}"
    work = Work(version=version, repository=repository, http=params.use_http)
    return await _request(ctx, params, "upgrade", work, target=None if params.force else version or MANAGER_VERSION)


@operation(
    "PUT", "/agents/upgrade_custom", params=PutCustomUpgrade, place=Place.MASTER, item=UpgradeTask, require=(UPGRADE,),
    messages=REQUESTED,
)  # fmt: skip
async def upgrade_agents_by_file(ctx: Context, params: PutCustomUpgrade) -> Outcome:
    """Give agents a package that lies on their nodes."""
    work = Work(file=_package(ctx, params.file_path), installer=params.installer)
    return await _request(ctx, params, "upgrade_custom", work, target=None)


@operation(
    "GET", "/agents/upgrade_result", params=ResultsQuery, place=Place.MASTER, item=UpgradeResult, require=(UPGRADE,),
    messages=RESULTS,
)  # fmt: skip
async def read_results(ctx: Context, params: ResultsQuery) -> Outcome:
    """How the last upgrade of each agent went."""
    chosen, outcome = await select_agents(ctx, params)
    found = await asyncio.to_thread(_last, ctx, [one.id for one in chosen])
    outcome.items = [_result_item(found[one.id]) for one in chosen if one.id in found]
    if without := [padded(one.id) for one in chosen if one.id not in found]:
        outcome.fail(SecmonError(1813), *without)
    return without_hidden(outcome, ctx.grant("agent:id"))


async def _request(
    ctx: Context, params: PutUpgrade | PutCustomUpgrade, command: Command, work: Work, *, target: str | None
) -> Outcome:
    """Create the tasks. ``target``: agents of this version or a later one are not upgraded.

    Raises 1121 where upgrades are off, 1823 for a target above the highest version of agents: then no task is made.
    """
    if not read_upgrades(ctx.node.main_config).enabled:
        raise SecmonError(1121, "agent-upgrade is not enabled")
    chosen, outcome = await select_agents(ctx, params)
    highest = highest_agent(ctx.node.main_config)
    fit, obstacles = _divide(chosen, target, highest)
    if 1823 in obstacles:
        raise SecmonError(1823, f"{target} is above {highest}")
    for code, ids in obstacles.items():
        outcome.fail(SecmonError(code), *ids)
    wanted = [(one.id, one.node_name if ctx.node.clustered else ctx.node.name) for one in fit]
    made = await asyncio.to_thread(_create, ctx, wanted, command, work)
    _wake(ctx, {node for agent, node in wanted if agent in made})
    outcome.items = [{"agent": padded(agent), "task_id": made[agent]} for agent in sorted(made)]
    if busy := [padded(agent) for agent, _ in wanted if agent not in made]:
        outcome.fail(SecmonError(1820), *busy)
    return without_hidden(outcome, ctx.grant("agent:id"))


def _wake(ctx: Context, nodes: Set[str]) -> None:
    """Notify ``nodes`` of their tasks, without waiting; a node that is not reached finds them when it polls."""
    calls = ctx.node.services.nodes
    if calls is None or not nodes:
        return
    operation = INTERNAL[WAKE]
    call = structs.replace(ctx.call, operation=operation)
    asking = calls.call_nodes(call, dict.fromkeys(nodes, operation.defaults))
    task = asyncio.create_task(asking, name="wake for upgrades")
    _waking.add(task)
    task.add_done_callback(_waking.discard)


def _divide(
    chosen: Sequence[Candidate], target: str | None, highest: str
) -> tuple[list[Candidate], dict[int, list[str]]]:
    """The agents that can be upgraded, and the ids of the others by error code."""
    fit: list[Candidate] = []
    obstacles: dict[int, list[str]] = {}
    for one in chosen:
        code = obstacle(one) or (None if target is None else obstacle_to(one, target, highest))
        if code is None:
            fit.append(one)
        else:
            obstacles.setdefault(code, []).append(padded(one.id))
    return fit, obstacles


def _create(ctx: Context, wanted: Sequence[tuple[int, str]], command: Command, work: Work) -> dict[int, int]:
    with ctx.node.tasks.write() as connection:
        return lifecycle.create(connection, wanted, command, work, now=int(ctx.node.clock.now().timestamp()))


def _last(ctx: Context, numbers: Sequence[int]) -> dict[int, Task]:
    with ctx.node.tasks.read() as connection:
        return lifecycle.last(connection, numbers)


def _package(ctx: Context, text: str) -> str:
    """The path of a package relative to the installation folder; a relative one is so already. Raises 1006."""
    return _below(ctx, text) if Path(text).is_absolute() else str(Path(text))


def _below(ctx: Context, text: str) -> str:
    """The path relative to the installation folder, which is another one on each node. Raises 1006."""
    root, path = ctx.node.paths.root.resolve(), Path(text)
    for base in (root, ctx.node.paths.root):
        if path.is_absolute() and path.is_relative_to(base) and path != base:
            return str(path.relative_to(base))
    raise SecmonError(1006, f"{text} does not lie below {ctx.node.paths.root}")


def _result_item(task: Task) -> dict[str, Any]:
    item: dict[str, Any] = {
        "message": "Success",
        "agent": padded(task.agent_id),
        "task_id": task.task_id,
        "node": task.node,
        "module": task.module,
        "command": task.command,
        "status": STATUS_TEXTS[task.status],
        "create_time": iso_time(task.create_time),
    }
    if task.last_update_time is not None:
        item["update_time"] = iso_time(task.last_update_time)
    if task.error_message is not None:
        item["error_msg"] = task.error_message
    return item


def iso_time(seconds: int) -> str:
    """``YYYY-MM-DDTHH:MM:SSZ`` (conventions.md 13.3)."""
    return iso_offset(seconds).replace("+00:00", "Z")
