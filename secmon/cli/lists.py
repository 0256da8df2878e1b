"""``secmon lists``: lists that are renewed from feeds."""

import asyncio
import sys
from typing import Any

import click

from secmon.cli.group import LazyGroup, echo_json, json_option, root_option
from secmon.cli.store import require_master
from secmon.common.clock import SystemClock
from secmon.common.counters import Counters
from secmon.common.paths import Paths
from secmon.engine.catalogue.configured_files import read_configured
from secmon.knowledge.lists.feed_states import FOLDER, FeedState, FeedStates
from secmon.knowledge.lists.feeds_yml import FEEDS_YML, MAX_BYTES, Feeds, ListFeed, parse_feeds
from secmon.knowledge.lists.renewal import ListRenewal


@click.group(cls=LazyGroup, short_help="Renew lists from feeds.")
def lists() -> None:
    """Renew lists (block lists, indicators) from the feeds that etc/lists/feeds.yml names.

    The master renews them on their schedules by itself; these commands are for a look, and for now.

    \b
    Examples:
      secmon lists status
      secmon lists renew bad-addresses
    """


@lists.command(short_help="Show when each list was renewed.")
@root_option
@json_option
def status(paths: Paths, as_json: bool) -> None:
    """Show each list with a feed: whether the feed works, and when the list was and will be renewed.

    Also names the lists that no rule can look up, because the configuration does not load them. Works on the master.

    \b
    Examples:
      secmon lists status
      secmon lists status --root /opt/secmon --json

    Exit status: 0 no feed fails, 1 one fails, or feeds.yml is invalid, 2 wrong usage.
    """
    require_master(paths, instead="run the command on the master,")
    states = FeedStates(paths)
    shown = {name: _shown(states.get(name), feed) for name, feed in _feeds(paths).items()}
    loaded = set(read_configured(paths).section.lists)
    for name, each in shown.items():
        each["loaded"] = f"{FOLDER}/{name}" in loaded
    if as_json:
        echo_json(shown)
    else:
        for name, each in shown.items():
            click.echo(_line(name, each))
        click.echo(f"feeds: {len(shown)}")
    sys.exit(1 if any(each["status"] == "failing" for each in shown.values()) else 0)


@lists.command(short_help="Renew lists now.")
@click.argument("names", metavar="[NAME]...", nargs=-1)
@root_option
@json_option
def renew(names: tuple[str, ...], paths: Paths, as_json: bool) -> None:
    """Renew the lists NAME now, or all lists with feeds. A list whose feed fails stays as it is.

    The analysis uses the new lists at once, on all nodes. Works on the master, running or not.

    \b
    Examples:
      secmon lists renew
      secmon lists renew bad-addresses bad-domains --root /opt/secmon

    Exit status: 0 done, 1 a feed fails, or feeds.yml is invalid, 2 wrong usage.
    """
    require_master(paths, instead="run the command on the master,")
    feeds = _feeds(paths)
    for name in names:
        if name not in feeds:
            raise click.UsageError(f"{FEEDS_YML} has no feed {name}; it has {', '.join(feeds) or 'none'}")
    renewal = ListRenewal(paths, SystemClock(), Counters())
    renewed = {name: asyncio.run(_renew(renewal, feeds[name])).shown() for name in dict.fromkeys(names or feeds)}
    if as_json:
        echo_json(renewed)
    else:
        for name, each in renewed.items():
            click.echo(_line(name, each))
    sys.exit(1 if any(each["status"] == "failing" for each in renewed.values()) else 0)


async def _renew(renewal: ListRenewal, feed: ListFeed) -> FeedState:
    with click.progressbar(length=feed.max_bytes, label=feed.name, show_pos=True, file=sys.stderr) as bar:

        def progress(received: int, total: int | None) -> None:
            bar.length = total or feed.max_bytes
            bar.update(received - bar.pos)

        return await renewal.renew(feed, progress)


def _feeds(paths: Paths) -> Feeds:
    file = paths.lists / FEEDS_YML
    if not file.exists():
        return {}
    with file.open("rb") as opened:
        return parse_feeds(opened.read(MAX_BYTES + 1), str(file))


def _shown(state: FeedState | None, feed: ListFeed) -> dict[str, Any]:
    """A feed that was not tried as it is declared now is waiting for that."""
    return {"status": "waiting"} if state is None or state.feed != feed else state.shown()


def _line(name: str, shown: dict[str, Any]) -> str:
    words = [f"{name}: {shown['status']}"]
    if "renewed_at" in shown:
        words.append(f"{shown['entries']} entries, renewed {shown['renewed_at']}")
    if shown.get("left_out"):
        words.append(f"{shown['left_out']} lines left out")
    if "error" in shown:
        words.append(f"fails since {shown['failed_since']}: {shown['error']}")
    if not shown.get("loaded", True):
        words.append(f"no rule can look it up: add <list>{FOLDER}/{name}</list> to <ruleset> in etc/ossec.conf")
    return "; ".join(words)
