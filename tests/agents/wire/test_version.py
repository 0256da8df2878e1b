"""Versions of agents."""

from typing import Any

import pytest

from secmon.agents.wire.version import MANAGER_VERSION, compare, parse, too_new
from secmon.config.agent_versions import HIGHEST_AGENT
from tests.agents.wire import vectors


@pytest.mark.parametrize("case", vectors.section("version_compare"), ids=str)
def test_compare(case: dict[str, Any]) -> None:
    assert compare(case["left"], case["right"], patch=case["with_patch"]) == case["result"]
    assert compare(case["right"], case["left"], patch=case["with_patch"]) == -case["result"]


def test_product_prefix_and_missing_parts() -> None:
    assert parse("OSSEC HIDS v2.9.3") == (2, 9, 3)
    assert parse("v4") == (4, -1, -1)
    assert parse(None) == parse("none") == (-1, -1, -1)


def test_patch_does_not_make_an_agent_too_new() -> None:
    assert not too_new(MANAGER_VERSION, HIGHEST_AGENT)
    assert not too_new("v4.14.7", HIGHEST_AGENT)
    assert not too_new("", HIGHEST_AGENT)
    assert too_new("v4.15.0", HIGHEST_AGENT)
    assert too_new("v5.0.0", HIGHEST_AGENT)
    assert not too_new("v4.15.0", "v4.15")
    assert not too_new("v5.0.0", None)
