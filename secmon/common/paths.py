"""Paths of all files under the installation folder (manager.md 15)."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Paths:
    """Paths of one node. ``root`` is ``{install_dir}``."""

    root: Path

    @property
    def api_config(self) -> Path:
        return self.root / "api/configuration/api.yaml"

    @property
    def ssl(self) -> Path:
        return self.root / "api/configuration/ssl"

    @property
    def security(self) -> Path:
        return self.root / "api/configuration/security"

    @property
    def security_db(self) -> Path:
        """Users, roles, policies, rules, signing keys, revocations: replicated from the master."""
        return self.security / "security.db"

    @property
    def installation_uid(self) -> Path:
        """The name under which the master asks for newer versions."""
        return self.security / "installation_uid"

    @property
    def newer_versions(self) -> Path:
        """The last answer of the update service, on the master."""
        return self.root / "var/db/newer-versions.json"

    @property
    def etc(self) -> Path:
        return self.root / "etc"

    @property
    def main_config(self) -> Path:
        return self.etc / "ossec.conf"

    @property
    def internal_options(self) -> Path:
        return self.etc / "internal_options.conf"

    @property
    def local_internal_options(self) -> Path:
        return self.etc / "local_internal_options.conf"

    @property
    def shared(self) -> Path:
        return self.etc / "shared"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def audit_log(self) -> Path:
        """Every change of the security state, on the master."""
        return self.logs / "audit/security.log"

    @property
    def run(self) -> Path:
        return self.root / "var/run"

    @property
    def sockets(self) -> Path:
        return self.root / "queue/sockets"

    @property
    def cluster(self) -> Path:
        """Working folder of the cluster daemon: socket, temporary files, manifests."""
        return self.root / "queue/cluster"

    @property
    def cluster_socket(self) -> Path:
        return self.cluster / "c-internal.sock"

    @property
    def cluster_tls(self) -> Path:
        """Cluster CA (master) and this node's certificate and key."""
        return self.etc / "cluster"

    @property
    def role(self) -> Path:
        """The node's role of the moment, where a store of record decides it."""
        return self.run / "role"

    @property
    def begun_term(self) -> Path:
        """The id of the term whose begin the cluster daemon of this node has completed."""
        return self.run / "begun-term"

    @property
    def leader_socket(self) -> Path:
        """Where ``secmon-leaderd`` takes requests about the role of master."""
        return self.sockets / "leader"

    @property
    def lease(self) -> Path:
        return self.run / "security-lease"

    @property
    def control_socket(self) -> Path:
        """The supervisor's socket."""
        return self.sockets / "control"

    @property
    def agents_db(self) -> Path:
        """Agents: the registry (replicated from the master) and their states."""
        return self.root / "queue/db/agents.db"

    @property
    def tasks_db(self) -> Path:
        """Upgrades of agents; on the master."""
        return self.root / "queue/tasks/tasks.db"

    @property
    def unrecorded_files(self) -> Path:
        """Files of a node that were not those of the store of record when the node became master."""
        return self.root / "var/db/unrecorded-files"

    @property
    def client_keys(self) -> Path:
        """The registry's keys in the public grammar, for existing tools."""
        return self.etc / "client.keys"

    @property
    def multigroups(self) -> Path:
        """One folder for each combination of groups in use."""
        return self.root / "var/multigroups"

    @property
    def counters(self) -> Path:
        """Message counters of the agent link."""
        return self.root / "queue/rids"

    @property
    def enrolment_password(self) -> Path:
        return self.etc / "authd.pass"

    @property
    def random_enrolment_password(self) -> Path:
        """The password of this start, where none is configured."""
        return self.run / "authd.pass"

    @property
    def agent_link_socket(self) -> Path:
        """Where ``secmon-remoted`` takes commands for its agents."""
        return self.sockets / "remote"

    @property
    def merged_files_socket(self) -> Path:
        """Where ``secmon-remoted`` is notified that merged files of groups have changed."""
        return self.sockets / "merged-files"

    @property
    def upgrades_socket(self) -> Path:
        """Where ``secmon-modulesd`` is woken for tasks of this node."""
        return self.sockets / "upgrades"

    @property
    def events(self) -> Path:
        """The journal of events between the agent link and the analysis engine."""
        return self.root / "queue/events"

    @property
    def local_events(self) -> Path:
        """The journal of events that this node's own sources hand to the analysis engine."""
        return self.root / "queue/events-local"

    @property
    def inventory_db(self) -> Path:
        """What the agents of this node report of their hosts."""
        return self.root / "queue/db/inventory.db"

    @property
    def inventory_events(self) -> Path:
        """The journal of events that the inventory hands to the analysis engine, decoded already."""
        return self.root / "queue/events-inventory"

    @property
    def responses(self) -> Path:
        """The journal of alerts that active responses answer."""
        return self.root / "queue/responses"

    @property
    def outputs(self) -> Path:
        """How far each output has delivered the alerts of this node."""
        return self.root / "queue/outputs"

    @property
    def alert_store(self) -> Path:
        """The alerts of this node, indexed."""
        return self.root / "queue/alert-store"

    @property
    def attack(self) -> Path:
        """The imported ATT&CK file: replicated from the master."""
        return self.etc / "attack/attack.jsonl.gz"

    @property
    def previous_attack(self) -> Path:
        """The file that the last import has replaced, on the master."""
        return self.root / "var/db/previous-attack.jsonl.gz"

    @property
    def lists(self) -> Path:
        """Lists that rules look up, and their feeds: replicated from the master."""
        return self.etc / "lists"

    @property
    def list_feeds(self) -> Path:
        """What became of the renewals of lists, on the master."""
        return self.root / "var/db/list-feeds"

    @property
    def advisories(self) -> Path:
        """Advisories of vulnerabilities, a file for each ecosystem: replicated from the master."""
        return self.etc / "advisories"

    @property
    def previous_advisories(self) -> Path:
        """The files that the last import has replaced, on the master."""
        return self.root / "var/db/previous-advisories"

    @property
    def source_times(self) -> Path:
        """When the sources of this node's agents have sent events."""
        return self.root / "var/db/source-times"

    @property
    def silent_sources(self) -> Path:
        """The sources that are silent, on the master."""
        return self.root / "var/db/silent-sources"

    @property
    def queue_socket(self) -> Path:
        """Datagrams of existing tools for the analysis engine."""
        return self.sockets / "queue"

    @property
    def analysis_socket(self) -> Path:
        """Events for the analysis engine, acknowledged when they are stored."""
        return self.sockets / "analysis"

    @property
    def logtest_socket(self) -> Path:
        return self.sockets / "logtest"

    @property
    def ruleset_status(self) -> Path:
        """What the analysis engine says of the ruleset that is in force, and of the files that are not."""
        return self.run / "ruleset-status.json"

    @property
    def stats(self) -> Path:
        """Statistics of the analysis engine."""
        return self.root / "stats"

    @property
    def downloads(self) -> Path:
        """Working folder of downloads: what is there is unfinished."""
        return self.root / "var/download"

    @property
    def upgrades(self) -> Path:
        """Packages fetched for upgrades of agents."""
        return self.root / "var/upgrade"

    @property
    def packages(self) -> Path:
        """Repository of packages for agents where no other one is configured."""
        return self.root / "var/wpk"
