"""The tables of the inventory (docs/reference/agent-data.md 3.4, 4.3, 5.6, 6.2, 7.2).

One table for each kind of row, keyed by agent, so that a question over all agents is one query. Integers have 64 bits.
Texts are compared byte by byte, as the checksums of ranges need it (agent-data.md 2.3).
"""

from pathlib import Path

from sqlalchemy import Column, Float, Index, Integer, LargeBinary, MetaData, Table, Text, UniqueConstraint, text

from secmon.common.sqlite.schema import StoreSchema

metadata = MetaData()


def _agent_id() -> Column[int]:
    return Column("agent_id", Integer, primary_key=True, autoincrement=False)


def _key(name: str) -> Column[str]:
    return Column(name, Text, primary_key=True)


def _columns(texts: str = "", integers: str = "", reals: str = "") -> list[Column[str] | Column[int] | Column[float]]:
    """Nullable columns, their names separated by blanks."""
    return [
        *(Column(name, Text) for name in texts.split()),
        *(Column(name, Integer) for name in integers.split()),
        *(Column(name, Float) for name in reals.split()),
    ]


def _scanned(name: str, key: str, texts: str = "", integers: str = "", reals: str = "") -> Table:
    """A table of the system inventory. ``key`` is the column by which agents order and name its rows in ranges."""
    columns = _columns(f"{texts} scan_time", integers, reals)
    scan = Column("scan_id", Integer, nullable=False)
    checksum = Column("checksum", Text, nullable=False)
    return Table(name, metadata, _agent_id(), _key(key), scan, *columns, checksum, sqlite_with_rowid=False)


fim_entries = Table(
    "fim_entries",
    metadata,
    _agent_id(),
    _key("type"),
    _key("full_path"),
    Column("file", Text, nullable=False),
    Column("date", Integer, nullable=False),
    Column("changes", Integer, nullable=False),
    *_columns(
        texts="arch value_name value_type perm uid gid uname gname md5 sha1 sha256 attributes symbolic_path checksum",
        integers="size mtime inode",
    ),
    sqlite_with_rowid=False,
)
"""Files and entries of the registry. ``full_path`` names the row in ranges (agent-data.md 3.4)."""

hardware = _scanned(
    "hardware", "board_serial", texts="cpu_name", integers="cpu_cores ram_total ram_free ram_usage", reals="cpu_mhz"
)
operating_systems = _scanned(
    "operating_systems",
    "os_name",
    texts="hostname architecture os_version os_codename os_major os_minor os_patch os_build os_platform sysname "
    "release version os_release os_display_version reference",
)
packages = _scanned(
    "packages",
    "item_id",
    texts="format name priority section vendor install_time version architecture multiarch source description location",
    integers="size",
)
hotfixes = _scanned("hotfixes", "hotfix")
processes = _scanned(
    "processes",
    "pid",
    texts="name state cmd argvs euser ruser suser egroup rgroup sgroup fgroup",
    integers="ppid utime stime priority nice size vm_size resident share start_time pgrp session nlwp tgid tty "
    "processor",
)
ports = _scanned(
    "ports",
    "item_id",
    texts="protocol local_ip remote_ip state process",
    integers="local_port remote_port tx_queue rx_queue inode pid",
)
network_interfaces = _scanned(
    "network_interfaces",
    "item_id",
    texts="name adapter type state mac",
    integers="mtu tx_packets rx_packets tx_bytes rx_bytes tx_errors rx_errors tx_dropped rx_dropped",
)
network_protocols = _scanned("network_protocols", "item_id", texts="iface type gateway dhcp", integers="metric")
network_addresses = _scanned("network_addresses", "item_id", texts="iface proto address netmask broadcast")
users = _scanned(
    "users",
    "user_name",
    texts="user_full_name user_home user_shell user_uuid user_groups user_roles user_type "
    "user_password_hash_algorithm user_password_status host_ip login_tty login_type",
    integers="user_id user_group_id user_uid_signed user_group_id_signed user_is_hidden user_is_remote user_last_login "
    "user_auth_failed_count user_password_expiration_date user_password_inactive_days "
    "user_password_max_days_between_changes user_password_min_days_between_changes "
    "user_password_warning_days_before_expiration process_pid login_status",
    reals="user_created user_auth_failed_timestamp user_password_last_change",
)
user_groups = _scanned(
    "user_groups",
    "group_name",
    texts="group_description group_uuid group_users",
    integers="group_id group_id_signed group_is_hidden",
)
services = _scanned(
    "services",
    "item_id",
    texts="service_id service_name service_description service_type service_state service_sub_state service_enabled "
    "service_start_type service_restart service_starts_on_path_modified service_starts_on_not_empty_directory "
    "process_executable process_args process_user_name process_group_name process_working_directory "
    "process_root_directory file_path service_address log_file_path error_log_file_path service_following "
    "service_object_path service_target_type service_target_address",
    integers="service_frequency service_starts_on_mount service_inetd_compatibility process_pid service_exit_code "
    "service_win32_exit_code service_target_ephemeral_id",
)
browser_extensions = _scanned(
    "browser_extensions",
    "item_id",
    texts="browser_name user_id package_name package_id package_version package_description package_vendor "
    "package_build_version package_path browser_profile_name browser_profile_path package_reference "
    "package_permissions package_type package_installed file_hash_sha256",
    integers="package_enabled package_visible package_autoupdate package_persistent package_from_webstore "
    "browser_profile_referenced",
)

synchronizations = Table(
    "synchronizations",
    metadata,
    _agent_id(),
    _key("component"),
    Column("last_attempt", Integer, nullable=False),
    Column("last_completion", Integer, nullable=False),
    Column("n_attempts", Integer, nullable=False),
    Column("n_completions", Integer, nullable=False),
    Column("last_manager_checksum", Text, nullable=False),
    Column("last_agent_checksum", Text, nullable=False),
    sqlite_with_rowid=False,
)
"""The bookkeeping of a component (agent-data.md 2.6), by its name on the wire. Times are those of the agent's clock."""

fim_scans = Table(
    "fim_scans",
    metadata,
    _agent_id(),
    Column("start_scan", Integer, nullable=False),
    Column("end_scan", Integer, nullable=False),
)
"""The last scan for changed files (agent-data.md 3.7): seconds since 1970 by the agent's clock; 0: none."""

sca_policies = Table(
    "sca_policies",
    metadata,
    _agent_id(),
    _key("id"),
    *_columns(texts="name file description references hash_file"),
    sqlite_with_rowid=False,
)
sca_scans = Table(
    "sca_scans",
    metadata,
    _agent_id(),
    _key("policy_id"),
    *_columns(texts="hash", integers="scan_id start_scan end_scan pass fail invalid total_checks score"),
    sqlite_with_rowid=False,
)
sca_checks = Table(
    "sca_checks",
    metadata,
    _agent_id(),
    _key("policy_id"),
    Column("id", Integer, primary_key=True, autoincrement=False),
    *_columns(
        texts="title description rationale remediation file process directory registry command references result "
        "reason condition",
        integers="scan_id",
    ),
    Index("sca_results", "agent_id", "policy_id", "id", "result"),
    sqlite_with_rowid=False,
)
"""Check ids are unique in a policy only (agent-data.md 5.3)."""
sca_check_rules = Table(
    "sca_check_rules",
    metadata,
    _agent_id(),
    _key("policy_id"),
    Column("check_id", Integer, primary_key=True, autoincrement=False),
    _key("type"),
    _key("rule"),
    sqlite_with_rowid=False,
)
sca_check_compliance = Table(
    "sca_check_compliance",
    metadata,
    _agent_id(),
    _key("policy_id"),
    Column("check_id", Integer, primary_key=True, autoincrement=False),
    _key("key"),
    _key("value"),
    sqlite_with_rowid=False,
)

rootcheck_findings = Table(
    "rootcheck_findings",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("agent_id", Integer, nullable=False),
    Column("date_first", Integer, nullable=False),
    Column("date_last", Integer, nullable=False),
    Column("log", Text, nullable=False),
    *_columns(texts="pci_dss cis"),
    UniqueConstraint("agent_id", "log"),
    Index("rootcheck_findings_by_date", "agent_id", "date_last"),
)
"""Texts of rootcheck, its scan markers included. Times are those of the node."""

benchmark_results = Table(
    "benchmark_results",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("agent_id", Integer, nullable=False),
    *_columns(texts="scan_time benchmark profile", integers="scan_id pass fail error notchecked unknown score"),
    Index("benchmark_results_by_agent", "agent_id"),
)
"""Results of CIS-CAT: of the latest round of an agent only (agent-data.md 7.2)."""

vulnerabilities = Table(
    "vulnerabilities",
    metadata,
    _agent_id(),
    _key("reference"),
    _key("cve"),
    *_columns(
        texts="type status name version architecture severity external_references condition title published updated "
        "ecosystem",
        integers="detection_time solved_time",
        reals="cvss2_score cvss3_score",
    ),
    Index("vulnerabilities_solved", "solved_time", sqlite_where=text("solved_time IS NOT NULL")),
    sqlite_with_rowid=False,
)
"""Vulnerabilities of packages and systems (agent-data.md 9.2). ``reference``: the ``item_id`` of the package, or the
``reference`` of the system. ``external_references``: a JSON array. Times are those of the node."""
vulnerability_scans = Table(
    "vulnerability_scans",
    metadata,
    _agent_id(),
    Column("feeds", Text, nullable=False),
    Column("last_full", Integer, nullable=False),
    Column("last_partial", Integer, nullable=False),
    Column("requested", Integer, nullable=False),
)
"""What an agent was last compared with: ``feeds`` is a JSON object, digests of advisories by ecosystem. Times are those
of the node; ``requested``: when a client has asked for a scan, 0: none has since the last one."""
vulnerability_marks = Table(
    "vulnerability_marks",
    metadata,
    _agent_id(),
    _key("item"),
    Column("marked", Float, nullable=False),
    sqlite_with_rowid=False,
)
"""What has changed since the agent was last scanned: packages by ``item_id``; the empty text is for all that is not one
package that is there: the system, hotfixes, packages that were removed."""
pending_events = Table(
    "pending_events",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("event", LargeBinary, nullable=False),
)
"""Events of scans that are not yet in the journal for the analysis, encoded."""

reader_positions = Table(
    "reader_positions",
    metadata,
    _key("reader"),
    Column("next_message", Integer, nullable=False),
    Column("next_event", Integer, nullable=False),
)
"""How far a reader of the journal of agents' messages is; written together with what it has stored.

``next_message``: the number of the next message. ``next_event``: the number that the next event which it appends to its
own journal will have.
"""

row_refusals = Table(
    "row_refusals",
    metadata,
    _agent_id(),
    Column("day", Integer, nullable=False),
)
"""The last day, counted from 1970, on which it was reported that an agent has more rows than it may."""

SCANNED = (
    hardware,
    operating_systems,
    packages,
    hotfixes,
    processes,
    ports,
    network_interfaces,
    network_protocols,
    network_addresses,
    users,
    user_groups,
    services,
    browser_extensions,
)
"""The tables of the system inventory (agent-data.md 4.1)."""

SCHEMA = StoreSchema(
    metadata=metadata,
    version=2,
    migrations=Path(__file__).parent / "migrations",
    number="PRAGMA user_version",
    set_number="PRAGMA user_version = {}",
)
