"""``secmon alerts``: the store in which the alerts of this node are searched."""

import sys

import click

from secmon.alerts.reindexing import AlreadyReindexing, reindex
from secmon.alerts.store import AlertStore
from secmon.alerts.writer import StoreFault
from secmon.cli.group import LazyGroup, echo_json, json_option, require_installation, root_option
from secmon.common.clock import SystemClock
from secmon.common.logfile.log_series import alert_series
from secmon.common.paths import Paths
from secmon.config.alert_store import AlertStoreSettings
from secmon.config.main import load_main_config
from secmon.daemons.alert_index import store_limits


@click.group(cls=LazyGroup, short_help="Build the store of alerts again.")
def alerts() -> None:
    """Work with the store in which the alerts of this node are searched.

    Alerts are searched through the API of any node: docs/alerts.md.

    Example:  secmon alerts reindex
    """


@alerts.command("reindex", short_help="Build the store again from the files of alerts.")
@root_option
@json_option
def reindex_alerts(paths: Paths, as_json: bool) -> None:
    """Build the store of this node again from its files of alerts, the compressed ones of past days too.

    Needed after damage, and to search in files that were copied from elsewhere. Files are read back to the day that
    store_days in the main configuration says. The node may run: until the end the old store is searched, and an
    interruption leaves it in use. Meanwhile both need room on the disk, each about half the size of the files.

    \b
    Examples:
      secmon alerts reindex
      secmon alerts reindex --root /opt/secmon --json

    Exit status: 0 built, 1 failed, or the node keeps no store, 2 wrong usage.
    """
    require_installation(paths)
    settings = AlertStoreSettings.of(load_main_config(paths))
    if not settings.enabled:
        raise click.ClickException("this node keeps no store: store in the section alerts of ossec.conf says so")
    clock = SystemClock()
    try:
        with click.progressbar(length=1, label="Indexing alerts", show_pos=True, file=sys.stderr) as bar:

            def show(done: int, total: int) -> None:
                bar.length = max(total, 1)
                bar.update(done - bar.pos)

            number, others = reindex(paths.alert_store, alert_series(paths), store_limits(settings), clock, show)
    except (AlreadyReindexing, StoreFault) as error:
        raise click.ClickException(f"{error}; the store in use is as before") from error
    size = AlertStore(paths.alert_store, clock).size()
    if as_json:
        echo_json({"alerts": number, "malformed_lines": others, "bytes": size})
        return
    click.echo(f"{number} alerts are indexed, in {size / 1e6:.1f} MB.")
    if others:
        click.echo(f"{others} lines are no alerts, such as one that a crash has cut off.")
