"""Sections of ``agent.conf``: modules (manager.md 4.7)."""

from collections.abc import Mapping

from secmon.agents.agent_conf.shapes import (
    INTERVAL,
    SCHEDULE,
    SIZE,
    Branch,
    Leaf,
    Options,
    Section,
    check_schedule,
    leaves,
    pattern,
)
from secmon.config.values import BOOLEAN, HOST, NOT_EMPTY, PORT, choice, duration, integer

_DATE = pattern(r"[0-9]{4}-[a-z]{3}-[0-9]{2}", "a date as YYYY-MMM-DD", any_case=True)

_SYSCOLLECTOR: Options = {
    **leaves(BOOLEAN, "disabled", "scan_on_start", "hardware", "os", "network", "packages", "processes", "hotfixes"),
    "interval": Leaf(INTERVAL),
    "ports": Leaf(BOOLEAN, {"all": BOOLEAN}),
    "synchronization": Branch({"max_eps": Leaf(integer(0, 1_000_000))}),
}

_SCAN_CONTENT: Options = leaves(NOT_EMPTY, "profile", "xccdf-id", "datastream-id", "cpe", "oval-id")
_OPEN_SCAP: Options = {
    **SCHEDULE,
    **leaves(BOOLEAN, "disabled", "scan-on-start"),
    "timeout": Leaf(duration()),
    "content": Branch(
        _SCAN_CONTENT,
        {"type": choice("xccdf", "oval"), "path": NOT_EMPTY, "timeout": duration()},
        ("type", "path"),
    ),
}
_CIS_CAT: Options = {
    **SCHEDULE,
    **leaves(BOOLEAN, "disabled", "scan-on-start"),
    **leaves(NOT_EMPTY, "java_path", "ciscat_path", "ciscat_binary"),
    "timeout": Leaf(duration()),
    "content": Branch(
        {"profile": Leaf(NOT_EMPTY)},
        {"type": choice("xccdf", "oval"), "path": NOT_EMPTY, "timeout": duration()},
        ("type", "path"),
    ),
}
_OSQUERY: Options = {
    **leaves(BOOLEAN, "disabled", "run_daemon", "add_labels"),
    **leaves(NOT_EMPTY, "bin_path", "log_path", "config_path"),
    "pack": Leaf(NOT_EMPTY, {"name": NOT_EMPTY}, ("name",)),
}
_COMMAND: Options = {
    **SCHEDULE,
    **leaves(BOOLEAN, "disabled", "ignore_output", "run_on_start", "skip_verification"),
    "tag": Leaf(NOT_EMPTY),
    "command": Leaf(NOT_EMPTY),
    "timeout": Leaf(duration()),
    "verify_md5": Leaf(pattern("[0-9a-fA-F]{32}", "32 hexadecimal digits")),
    "verify_sha1": Leaf(pattern("[0-9a-fA-F]{40}", "40 hexadecimal digits")),
    "verify_sha256": Leaf(pattern("[0-9a-fA-F]{64}", "64 hexadecimal digits")),
}

_AWS_SOURCE: Options = {
    **leaves(NOT_EMPTY, "name", "access_key", "secret_key", "aws_profile", "iam_role_arn", "external_id"),
    **leaves(NOT_EMPTY, "aws_organization_id", "aws_account_id", "aws_account_alias", "path", "path_suffix", "regions"),
    **leaves(NOT_EMPTY, "aws_log_groups", "sts_endpoint", "service_endpoint", "sqs_name"),
    **leaves(BOOLEAN, "remove_log_streams", "remove_from_bucket"),
    "iam_role_duration": Leaf(integer(900, 3600)),
    "only_logs_after": Leaf(_DATE),
    "discard_regex": Leaf(NOT_EMPTY, {"field": NOT_EMPTY}),
}
_BUCKETS = choice(
    *("cloudtrail", "config", "vpcflow", "custom", "guardduty", "waf", "server_access", "alb", "clb", "nlb"),
    "cisco_umbrella",
)
_AWS: Options = {
    **SCHEDULE,
    **_AWS_SOURCE,
    **leaves(BOOLEAN, "disabled", "run_on_start", "skip_on_error"),
    "bucket": Branch(_AWS_SOURCE, {"type": _BUCKETS}, ("type",)),
    "service": Branch(_AWS_SOURCE, {"type": choice("inspector", "cloudwatchlogs")}, ("type",)),
    "subscriber": Branch(_AWS_SOURCE, {"type": choice("security_lake", "buckets")}, ("type",)),
}

_AZURE_REQUEST: Options = {
    **leaves(NOT_EMPTY, "tag", "query", "workspace"),
    "time_offset": Leaf(INTERVAL),
    "timeout": Leaf(duration()),
}
_AZURE_API = Branch(
    {
        **leaves(NOT_EMPTY, "application_id", "application_key", "auth_path", "tenantdomain"),
        "request": Branch(_AZURE_REQUEST),
    }
)
_AZURE: Options = {
    **SCHEDULE,
    **leaves(BOOLEAN, "disabled", "run_on_start"),
    "timeout": Leaf(duration()),
    "log_analytics": _AZURE_API,
    "graph": _AZURE_API,
    "storage": Branch(
        {
            **leaves(NOT_EMPTY, "account_name", "account_key", "auth_path", "tag"),
            "container": Branch(
                {
                    **leaves(NOT_EMPTY, "blobs", "path"),
                    "content_type": Leaf(choice("json_file", "json_inline", "text")),
                    "time_offset": Leaf(INTERVAL),
                    "timeout": Leaf(duration()),
                },
                {"name": NOT_EMPTY},
                ("name",),
            ),
        }
    ),
}
_DOCKER: Options = {
    **SCHEDULE,
    **leaves(BOOLEAN, "disabled", "run_on_start"),
    "attempts": Leaf(integer(1)),
}

_AGENT_UPGRADE: Options = {
    "enabled": Leaf(BOOLEAN),
    **leaves(duration(), "notification_wait_start", "notification_wait_max"),
    "notification_wait_factor": Leaf(pattern(r"[0-9]{1,4}(\.[0-9]{1,6})?", "a number")),
    "ca_verification": Branch({"enabled": Leaf(BOOLEAN), "ca_store": Leaf(NOT_EMPTY)}),
    "ca_store": Leaf(NOT_EMPTY),
}
_GCP: Options = {
    **SCHEDULE,
    "logging": Leaf(choice("disabled", "debug", "info", "warning", "error", "critical")),
}
_GCP_PUBSUB: Options = {
    **_GCP,
    **leaves(BOOLEAN, "enabled", "pull_on_start"),
    **leaves(NOT_EMPTY, "project_id", "subscription_name", "credentials_file"),
    **leaves(integer(1), "max_messages", "num_threads"),
}
_GCP_BUCKET: Options = {
    **_GCP,
    **leaves(BOOLEAN, "enabled", "run_on_start"),
    "bucket": Branch(
        {
            **leaves(NOT_EMPTY, "name", "credentials_file", "path"),
            "only_logs_after": Leaf(_DATE),
            "remove_from_bucket": Leaf(BOOLEAN),
        },
        {"type": choice("access_logs")},
        ("type",),
    ),
}
_CLOUD: Options = {
    **leaves(BOOLEAN, "enabled", "only_future_events"),
    "interval": Leaf(INTERVAL),
    "curl_max_size": Leaf(SIZE),
}
_GITHUB: Options = {
    **_CLOUD,
    "time_delay": Leaf(INTERVAL),
    "api_auth": Branch(leaves(NOT_EMPTY, "org_name", "api_token")),
    "api_parameters": Branch({"event_type": Leaf(choice("all", "web", "git"))}),
}
_OFFICE: Options = {
    **_CLOUD,
    "api_auth": Branch(
        {
            **leaves(NOT_EMPTY, "tenant_id", "client_id", "client_secret", "client_secret_path"),
            "api_type": Leaf(choice("commercial", "gcc", "gcc-high")),
        }
    ),
    "subscriptions": Branch({"subscription": Leaf(NOT_EMPTY)}),
}
_GRAPH: Options = {
    **SCHEDULE,
    **_CLOUD,
    "run_on_start": Leaf(BOOLEAN),
    "version": Leaf(choice("v1.0", "beta")),
    "api_auth": Branch(
        {
            **leaves(NOT_EMPTY, "client_id", "tenant_id", "secret_value"),
            "api_type": Leaf(choice("global", "gcc-high", "dod")),
        }
    ),
    "resource": Branch(leaves(NOT_EMPTY, "name", "relationship")),
}
_FLUENT: Options = {
    "enabled": Leaf(BOOLEAN),
    **leaves(NOT_EMPTY, "tag", "object_key", "socket_path", "shared_key", "ca_file", "user", "password"),
    "address": Leaf(HOST),
    "port": Leaf(PORT),
    **leaves(duration(), "timeout", "poll_interval"),
    "keepalive": Branch({"enabled": Leaf(BOOLEAN), **leaves(integer(), "count", "idle", "interval")}),
}

MODULE_SECTIONS: Mapping[str, Section] = {
    "agent-upgrade": Section(_AGENT_UPGRADE),
    "gcp-pubsub": Section(_GCP_PUBSUB, (), check_schedule),
    "gcp-bucket": Section(_GCP_BUCKET, (), check_schedule),
    "github": Section(_GITHUB),
    "office365": Section(_OFFICE),
    "ms-graph": Section(_GRAPH, (), check_schedule),
    "fluent-forward": Section(_FLUENT),
}
"""Modules with a section of their own name."""

MODULES: Mapping[str, Section] = {
    "syscollector": Section(_SYSCOLLECTOR),
    "open-scap": Section(_OPEN_SCAP, (), check_schedule),
    "cis-cat": Section(_CIS_CAT, (), check_schedule),
    "osquery": Section(_OSQUERY),
    "command": Section(_COMMAND, ("command",), check_schedule),
    "aws-s3": Section(_AWS, (), check_schedule),
    "azure-logs": Section(_AZURE, (), check_schedule),
    "docker-listener": Section(_DOCKER, (), check_schedule),
    "agent-upgrade": Section(_AGENT_UPGRADE),
}
"""Sections ``<wodle name="...">``."""

SERVER_MODULES = frozenset({"vulnerability-detector", "key-polling", "task-manager"})
"""Modules of a server, which agents ignore."""
