"""secmon-integratord: hands alerts to services, programs and a search cluster."""

from functools import partial
from pathlib import Path

from secmon.common.paths import Paths
from secmon.config.outputs import Integration, load_outputs
from secmon.daemons.daemon import Context
from secmon.daemons.output_daemon import OutputDaemon
from secmon.outputs.delivery import Delivery
from secmon.outputs.indexer.indexer_output import IndexerOutput
from secmon.outputs.integrations.program import ProgramIntegration, clear
from secmon.outputs.integrations.service import ServiceIntegration
from secmon.outputs.output import Output

NAME = "secmon-integratord"
BUILT_IN = frozenset({"webhook", "slack", "pagerduty"})


def build(context: Context) -> OutputDaemon:
    """The daemon for the installation in ``context.paths``. Raises ConfigError."""
    paths, configured = context.paths, load_outputs(context.paths)
    clear(paths.outputs / "alerts")
    outputs = [_integration(one, paths, paths.outputs / "alerts") for one in configured.integrations]
    if configured.indexer is not None:
        outputs.append(IndexerOutput(configured.indexer, paths.root))
    active = {"integration": [one.active_configuration() for one in configured.integrations]}
    return OutputDaemon(NAME, paths, [(one.name, partial(Delivery, one)) for one in outputs], active)


def _integration(settings: Integration, paths: Paths, folder: Path) -> Output:
    if settings.name in BUILT_IN:
        return ServiceIntegration(settings, paths.root)
    return ProgramIntegration(settings, paths.root, folder)
