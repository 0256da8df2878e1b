"""The engine's active configuration by section, as clients of analysis/... get it (manager.md 7.4)."""

from collections.abc import Mapping
from typing import Any

from secmon.config.main import MainConfig
from secmon.config.options import OPTIONS, InternalOptions
from secmon.engine.decoders.decoder import Decoder, Offset
from secmon.engine.input.local_files import followed
from secmon.engine.logtest.logtest_sessions import SessionSettings
from secmon.engine.memory.state import MEMORY_SIZE
from secmon.engine.output.outputs import OutputSettings
from secmon.engine.rules.rule import Rule
from secmon.engine.ruleset.compiled import Ruleset

_PREFIX = "analysisd."
_INTERNAL = (
    "debug", "default_timeframe", "stats_maxdiff", "stats_mindiff", "stats_percent_diff", "fts_list_size",
    "fts_min_size_for_str", "log_fw", "decoder_order_size", "label_cache_maxage", "show_hidden_labels", "rlimit_nofile",
    "min_rotate_interval",
)  # fmt: skip
_TEXTS = ("prelude_profile", "geoipdb", "zeromq_uri", "zeromq_server_cert", "zeromq_client_cert", "custom_alert_output")
_LOCATIONS = {
    "local": "REMOTE_AGENT", "server": "AS_ONLY", "defined-agent": "SPECIFIC_AGENT", "all": "ALL_AGENTS",
}  # fmt: skip


def active_config(
    config: MainConfig, options: InternalOptions, outputs: OutputSettings, sessions: SessionSettings, ruleset: Ruleset
) -> dict[str, Any]:
    """Sections by the name that clients ask for."""
    settings = ruleset.settings
    return {
        "global": _global(config, outputs),
        "active_response": [_response(each) for each in _sections(config, "active-response")],
        "alerts": {"email_alert_level": settings.mail_level, "log_alert_level": settings.alert_level},
        "command": [_command(each) for each in _sections(config, "command")],
        "rule_test": {
            "enabled": _yes(sessions.enabled),
            "threads": sessions.threads,
            "max_sessions": sessions.max_sessions,
            "session_timeout": sessions.timeout_seconds,
        },
        "internal": {
            "analysisd": {name: options.get(f"{_PREFIX}{name}") for name in _INTERNAL if _PREFIX + name in OPTIONS}
        },
        "rules": [_rule(rule) for rule in ruleset.rules.roots],
        "decoders": [_decoder(one) for one in (*ruleset.decoders.with_program, *ruleset.decoders.without_program)],
        "labels": [label for each in _sections(config, "labels") for label in _labels(each)],
        "logcollector/localfile": [_local_file(each) for each in _sections(config, "localfile") if followed(each)],
        "logcollector/socket": [],
        "logcollector/internal": {"logcollector": {}},
    }


def _global(config: MainConfig, outputs: OutputSettings) -> dict[str, Any]:
    def flag(name: str) -> str:
        return _yes(config.flag("global", name, default=False))

    def number(name: str, default: int) -> int:
        return config.integer("global", name, default=default)

    made: dict[str, Any] = {
        "email_notification": flag("email_notification"),
        "logall": _yes(outputs.archives_text),
        "logall_json": _yes(outputs.archives_json),
        "integrity_checking": number("integrity_checking", 8),
        "rootkit_detection": number("rootkit_detection", 8),
        "host_information": number("host_information", 8),
        "prelude_output": flag("prelude_output"),
        "zeromq_output": flag("zeromq_output"),
        "jsonout_output": _yes(outputs.alerts_json),
        "alerts_log": _yes(outputs.alerts_text),
        "stats": number("stats", 4),
        "memory_size": number("memory_size", MEMORY_SIZE),
        "white_list": _texts(config, "white_list"),
        "rotate_interval": outputs.rotate_seconds,
        "max_output_size": outputs.max_bytes,
        "eps": {
            "maximum": config.integer("global", "limits", "eps", "maximum", default=0),
            "timeframe": config.integer("global", "limits", "eps", "timeframe", default=10),
        },
    }
    return made | {name: text for name in _TEXTS if (text := config.text("global", name))}


def _sections(config: MainConfig, name: str) -> list[Mapping[str, Any]]:
    found = config.sections.get(name, [])
    return [each for each in (found if isinstance(found, list) else [found]) if isinstance(each, dict)]


def _texts(config: MainConfig, name: str) -> list[str]:
    found: Any = next((each.get(name) for each in _sections(config, "global") if name in each), [])
    return [str(each) for each in (found if isinstance(found, list) else [found])]


def _labels(section: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Labels of the manager; keys that begin with ``_`` are internal."""
    found = [one for one in section.get("label", []) if isinstance(one, dict) and one.get("key")]
    return [
        {"value": one.get("value") or "", "key": one["key"], "hidden": _yes(one.get("hidden") == "yes")}
        for one in found
        if not str(one["key"]).startswith("_")
    ]


def _local_file(section: Mapping[str, Any]) -> dict[str, Any]:
    return {"file": section["location"], "logformat": section.get("log_format", "syslog"), "target": ["agent"]}


def _response(section: Mapping[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {"command": section.get("command", "")}
    made |= {name: section[name] for name in ("agent_id", "rules_id", "rules_group") if name in section}
    return made | {
        "timeout": _number(section.get("timeout")),
        "level": _number(section.get("level")),
        "location": _LOCATIONS.get(str(section.get("location", "")), str(section.get("location", ""))),
    }


def _command(section: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": section.get("name", ""),
        "executable": section.get("executable", ""),
        "timeout_allowed": int(section.get("timeout_allowed") == "yes"),
    }


def _rule(rule: Rule) -> dict[str, Any]:
    """A loaded rule, without its patterns: these are compiled, and their texts are in the file."""
    made: dict[str, Any] = {"sigid": rule.id, "level": rule.level}
    one = rule.composite
    if one is not None:
        made |= {"frequency": one.frequency, "timeframe": one.timeframe}
        if one.sid is not None:
            made["if_matched_sid"] = one.sid
        if one.group is not None:
            made["if_matched_group"] = _text(one.group)
        made |= {f"same_{name}": "" for name in one.same} | {f"different_{name}": "" for name in one.different}
        made |= {"same_field": list(one.same_fields)} if one.same_fields else {}
        made |= {"different_field": list(one.different_fields)} if one.different_fields else {}
    if rule.ignore:
        made["ignore_time"] = rule.ignore
    made |= {"group": _text(rule.groups), "comment": _text(rule.description)}
    made |= {name: text for name, text in (("info", rule.info), ("cve", rule.cve)) if text is not None}
    made |= {"rule_file": rule.file, "category": rule.category}
    if rule.children:
        made["children"] = [_rule(child) for child in rule.children]
    return made


def _decoder(one: Decoder) -> dict[str, Any]:
    made: dict[str, Any] = {"id": one.id, "name": one.own_name or one.name}
    made |= {name: text for name, text in (("parent", one.parent), ("ftscomment", one.ftscomment)) if text is not None}
    if one.order:
        made["order"] = list(one.order)
    if one.children:
        made["children"] = [_decoder(child) for child in one.children]
    made |= {"use_own_name": str(one.use_own_name).lower(), "accumulate": _yes(one.accumulate)}
    for name, offset in (("prematch_offset", one.prematch_offset), ("regex_offset", one.regex_offset)):
        if offset is not Offset.NONE:
            made[name] = offset.value
    if one.fts:
        made["fts"] = list(one.fts)
    made["type"] = one.category
    return made | ({"plugin_decoder": one.plugin} if one.plugin is not None else {})


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _number(value: object) -> int:
    text = str(value)
    return int(text) if text.isascii() and text.isdecimal() else 0


def _text(value: bytes) -> str:
    return value.decode("utf-8", "backslashreplace")
