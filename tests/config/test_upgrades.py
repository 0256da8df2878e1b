"""The sections of upgrades and their tasks (agent-link.md 10.1)."""

import pytest

from secmon.config.main import MainConfig, parse_main_config, validate_main_config
from secmon.config.upgrades import TaskSettings, UpgradeSettings, read_tasks, read_upgrades


def config(*sections: str) -> str:
    return f"<ossec_config>{''.join(sections)}</ossec_config>"


def parsed(*sections: str) -> MainConfig:
    return parse_main_config(config(*sections))


def test_defaults() -> None:
    assert read_upgrades(parsed()) == UpgradeSettings()
    assert read_tasks(parsed()) == TaskSettings(task_timeout=900, cleanup_time=604800)
    assert UpgradeSettings(max_threads=0).at_once >= 1
    assert UpgradeSettings().at_once == 8


def test_values() -> None:
    section = "<wpk_repository>packages.example/wpk</wpk_repository><chunk_size>512</chunk_size><enabled>no</enabled>"
    found = read_upgrades(parsed(f"<agent-upgrade>{section}<max_threads>300</max_threads></agent-upgrade>"))
    expected = UpgradeSettings(enabled=False, repository="packages.example/wpk", chunk_size=512, max_threads=256)
    assert found == expected
    assert found.active_configuration() == {
        "enabled": "no", "max_threads": 256, "chunk_size": 512, "wpk_repository": "packages.example/wpk",
    }  # fmt: skip
    tasks = "<task_timeout>2h</task_timeout><cleanup_time>1h</cleanup_time>"
    assert read_tasks(parsed(f"<task-manager>{tasks}</task-manager>")) == TaskSettings(
        task_timeout=7200, cleanup_time=7200
    )


@pytest.mark.parametrize(
    "section",
    [
        "<agent-upgrade><wpk_repository>https://packages.example:8443/4.x/wpk/</wpk_repository></agent-upgrade>",
        "<agent-upgrade><wpk_repository>/var/packages</wpk_repository><chunk_size>64</chunk_size></agent-upgrade>",
        "<agent-upgrade><notification_wait_factor>2.0</notification_wait_factor><ca_verification>"
        "<enabled>yes</enabled><ca_store>etc/wpk_root.pem</ca_store></ca_verification></agent-upgrade>",
        "<task-manager><task_timeout>15m</task_timeout><cleanup_time>7d</cleanup_time></task-manager>",
    ],
)
def test_valid_sections(section: str) -> None:
    assert validate_main_config(config(section)) == []


@pytest.mark.parametrize(
    ("section", "key"),
    [
        ("<agent-upgrade><chunk_size>63</chunk_size></agent-upgrade>", "chunk_size"),
        ("<agent-upgrade><chunk_size>40000</chunk_size></agent-upgrade>", "chunk_size"),
        ("<agent-upgrade><max_threads>257</max_threads></agent-upgrade>", "max_threads"),
        ("<agent-upgrade><wpk_repository>a b</wpk_repository></agent-upgrade>", "wpk_repository"),
        ("<agent-upgrade><threads>2</threads></agent-upgrade>", "threads"),
        ("<task-manager><task_timeout>0</task_timeout></task-manager>", "task_timeout"),
        ("<task-manager><cleanup_time>5m</cleanup_time></task-manager>", "cleanup_time"),
    ],
)
def test_refused_sections(section: str, key: str) -> None:
    [problem] = validate_main_config(config(section))
    assert problem.key == key
