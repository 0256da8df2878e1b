"""The highest version of agents, as configured."""

import pytest

from secmon.config.agent_versions import HIGHEST_AGENT, above_default, highest_agent
from secmon.config.main import parse_main_config


@pytest.mark.parametrize(
    ("remote", "highest"),
    [
        ("", HIGHEST_AGENT),
        ("<highest_version>4.15</highest_version>", "4.15"),
        ("<highest_version> v4.9 </highest_version>", "v4.9"),
        ("<highest_version>4.15.1</highest_version>", HIGHEST_AGENT),
        ("<highest_version>new</highest_version>", HIGHEST_AGENT),
    ],
)
def test_what_is_configured(remote: str, highest: str) -> None:
    text = f"<ossec_config><remote><agents>{remote}</agents></remote></ossec_config>"
    assert highest_agent(parse_main_config(text)) == highest


@pytest.mark.parametrize(
    ("text", "above"), [("4.14", False), ("v4.15", True), ("5.0", True), ("4.9", False), ("", False), ("x", False)]
)
def test_versions_above_the_default(text: str, above: bool) -> None:
    assert above_default(text) is above
