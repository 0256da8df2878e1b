"""The command line: ``secmon``."""

import click

from secmon import API_VERSION, __version__
from secmon.cli.group import LazyGroup

_HERE = "secmon.cli"


@click.group(
    cls=LazyGroup,
    lazy={
        "init": f"{_HERE}.init:init",
        "start": f"{_HERE}.start:start",
        "stop": f"{_HERE}.service:stop",
        "restart": f"{_HERE}.service:restart",
        "reload": f"{_HERE}.service:reload",
        "status": f"{_HERE}.service:status",
        "service": f"{_HERE}.system_service:service",
        "demo": f"{_HERE}.demo:demo",
        "doctor": f"{_HERE}.doctor:doctor",
        "config": f"{_HERE}.config:config",
        "verify-agent-conf": f"{_HERE}.agent_conf:verify",
        "user": f"{_HERE}.user:user",
        "agents": f"{_HERE}.agents:agents",
        "import": f"{_HERE}.import_:import_",
        "audit": f"{_HERE}.audit:audit",
        "cluster": f"{_HERE}.cluster:cluster",
        "requests": f"{_HERE}.requests:requests",
        "fleet": f"{_HERE}.fleet:fleet",
        "ruleset": f"{_HERE}.ruleset:ruleset",
        "alerts": f"{_HERE}.alerts:alerts",
        "lists": f"{_HERE}.lists:lists",
        "backup": f"{_HERE}.backup:backup",
        "restore": f"{_HERE}.restore:restore",
        "store": f"{_HERE}.store_migrate:store",
        "sca": f"{_HERE}.sca:sca",
        "logtest": f"{_HERE}.logtest:logtest",
        "openapi": f"{_HERE}.openapi:openapi",
    },
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.version_option(__version__, "-V", "--version", message=f"secmon %(version)s (API {API_VERSION})")
def main() -> None:
    """Security-monitoring server: a cluster that answers as one.

    Try it:  secmon demo

    \b
    Install a node:
      secmon init /opt/secmon
      secmon start --root /opt/secmon

    Exit status: 0 done, 1 failed (the reason is printed), 2 wrong usage.
    """


if __name__ == "__main__":
    main()
