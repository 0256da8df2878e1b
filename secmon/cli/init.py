"""``secmon init``: a new installation folder."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from secmon.cli.group import FolderType, installation_paths
from secmon.common.paths import Paths
from secmon.config.api import ApiConfig
from secmon.config.auth import AuthSettings
from secmon.config.cluster import ClusterSection, wrong_values
from secmon.config.main import AgentPorts
from secmon.config.options import InternalOptions
from secmon.config.port_check import check_ports
from secmon.config.remote import RemoteBlock
from secmon.daemons.install import COMPLETE, Credentials, generate_cluster_key, install


@click.command(short_help="Create an installation in a folder.")
@click.argument("folder", type=FolderType())
@click.option("--type", "node_type", type=click.Choice(["master", "worker"]), help="Role in a cluster.")
@click.option("--node-name", help="Name of this node in the cluster: 1 to 64 letters, digits, '_' and '-'.")
@click.option("--cluster-name", default="secmon", show_default=True, help="The same on all nodes.")
@click.option("--master", help="Address of the master as this node reaches it; on the master its own address.")
@click.option("--port", type=click.IntRange(1025, 65534), default=1516, show_default=True, help="Port of the cluster.")
@click.option(
    "--peer-port",
    type=click.IntRange(1025, 65534),
    help="Port on which this node listens for its peers, if not --port: for a second node on one host.",
)
@click.option("--bind", default="0.0.0.0", show_default=True, help="Address on which the cluster port listens.")
@click.option(
    "--key-file", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="File with the cluster key."
)
@click.option(
    "--admin-password-file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="File with the administrator's password. Default: a generated one.",
)
@click.option("--api-port", type=click.IntRange(1, 65535), default=55000, show_default=True, help="Port of the API.")
@click.option("--api-host", default="0.0.0.0", show_default=True, help="Address on which the API listens.")
@click.option(
    "--agent-port", type=click.IntRange(1, 65535), default=1514, show_default=True, help="Port to which agents connect."
)
@click.option(
    "--auth-port", type=click.IntRange(1, 65535), default=1515, show_default=True, help="Port on which agents enrol."
)
def init(
    folder: Path,
    node_type: str | None,
    peer_port: int | None,
    admin_password_file: Path | None,
    api_port: int,
    api_host: str,
    agent_port: int,
    auth_port: int,
    **chosen: Any,
) -> None:
    """Create an installation in FOLDER: configuration files, and on a master the users with generated passwords.

    Without --type the node has no cluster. A master generates the cluster key unless --key-file gives one; a worker
    needs the master's: from --key-file, or typed at the prompt. Nothing that exists is overwritten.

    \b
    Examples:
      secmon init /opt/secmon
      secmon init /opt/secmon --type master --node-name m1 --master 10.0.0.1
      secmon init /opt/secmon --type worker --node-name w1 --master 10.0.0.1 --key-file key.txt

    Exit status: 0 created, 1 failed, 2 wrong usage.
    """
    paths = installation_paths(folder)
    if paths.main_config.exists():
        raise click.ClickException(f"{paths.root}: {COMPLETE}")
    if admin_password_file and node_type == "worker":
        raise click.UsageError("--admin-password-file belongs to the master: a worker has the users of its master")
    cluster = None if node_type is None else _cluster(node_type, chosen)
    if cluster is None and any((peer_port, *(chosen[name] for name in ("key_file", "node_name", "master")))):
        raise click.UsageError("--node-name, --master, --key-file and --peer-port need --type master or --type worker")
    options = {} if peer_port is None else {"clusterd.peer_port": peer_port}
    agent_ports = AgentPorts(connections=agent_port, enrolment=auth_port)
    _check_ports(paths, ApiConfig(host=api_host, port=api_port), cluster, options, agent_ports)
    credentials = install(
        paths,
        cluster=cluster,
        api={"port": api_port, "host": api_host},
        options=options,
        agent_ports=agent_ports,
        admin_password=_secret(admin_password_file) if admin_password_file else None,
    )
    _report(paths, cluster, credentials)


def _cluster(node_type: str, chosen: Mapping[str, Any]) -> ClusterSection:
    """The section of the ``chosen`` options. Fails on values that are not allowed."""
    if chosen["master"] is None:
        raise click.UsageError("--type needs --master ADDRESS, the address at which the workers reach the master")
    cluster = ClusterSection(
        name=chosen["cluster_name"],
        node_name=chosen["node_name"] or ("master" if node_type == "master" else _required_name()),
        node_type="master" if node_type == "master" else "worker",
        key=_cluster_key(node_type, chosen["key_file"]),
        port=chosen["port"],
        bind_addr=chosen["bind"],
        nodes=[chosen["master"]],
    )
    for wrong in wrong_values(cluster):
        shown = wrong.value if wrong.key == "key" else repr(wrong.value)
        option = _OPTIONS.get(wrong.key, wrong.key)
        raise click.ClickException(f"{option}: {shown} is not allowed; allowed: {wrong.allowed}")
    return cluster


_OPTIONS = {
    "name": "--cluster-name",
    "node_name": "--node-name",
    "bind_addr": "--bind",
    "nodes.node": "--master",
    "key": "the cluster key",
}


def _check_ports(
    paths: Paths,
    api: ApiConfig,
    cluster: ClusterSection | None,
    options: Mapping[str, int],
    agent_ports: AgentPorts,
) -> None:
    """Raises ConfigError: an installation that could not start is not created."""
    section = cluster or ClusterSection(disabled=True)
    auth = AuthSettings(disabled=False, port=agent_ports.enrolment)
    remote = [RemoteBlock(port=agent_ports.connections)]
    for collision in check_ports(paths, api, section, InternalOptions(options), auth=auth, remote=remote):
        raise collision


def _required_name() -> str:
    raise click.UsageError("a worker needs --node-name: each node of a cluster has a name of its own")


def _cluster_key(node_type: str, key_file: Path | None) -> str:
    """The shared key: from a file or the prompt, never from an argument, which other users of the host could see."""
    if key_file is not None:
        return _secret(key_file)
    if node_type == "master":
        return generate_cluster_key()
    if not sys.stdin.isatty():
        if key := sys.stdin.readline().strip():
            return key
        raise click.UsageError("a worker needs the cluster key of its master: give --key-file, or use a terminal")
    key = click.prompt("Cluster key (on the master: <key> in etc/ossec.conf)", hide_input=True, err=True)
    return str(key).strip()


def _secret(file: Path) -> str:
    """The content of ``file`` without surrounding white space; warns if every user may read the file."""
    if file.stat().st_mode & 0o004:
        click.echo(f"Warning: every user of this host may read {file}; close it: chmod o= {file}", err=True)
    return file.read_text("utf-8", errors="replace").strip()


def _report(paths: Paths, cluster: ClusterSection | None, credentials: Credentials | None) -> None:
    click.echo(f"Created {paths.root}")
    if cluster is not None and cluster.node_type == "master":
        click.echo(f"The cluster key is in {paths.main_config}; workers need it.")
    if credentials is not None:
        click.echo("Passwords, shown only now:")
        for user, password in credentials.passwords.items():
            click.echo(f"  {user:12}{password}")
    click.echo(f"Start it: secmon start --root {paths.root}")
