"""Texts of active responses and restarts, in all dialects (agent-link.md 9)."""

import json

import pytest

from secmon.agents.link.responses import Response, response_message, restart_message, shell_escaped

RESPONSE = Response(
    command="firewall-drop180", arguments=["-x", "it's $1"], alert={"data": {"srcip": "192.0.2.7", "n": [1, "`a`!"]}},
    node="node01",
)  # fmt: skip


def body(version: str) -> dict[str, object]:
    message = response_message(RESPONSE, version)
    assert message.startswith("#!-execd {")
    assert "\n" not in message
    found: dict[str, object] = json.loads(message.removeprefix("#!-execd "))
    return found


@pytest.mark.parametrize("version", ["Wazuh v4.2.5", "v4.8.2", "v5.0.0"])
def test_json(version: str) -> None:
    assert body(version) == {
        "version": 1,
        "origin": {"name": "node01", "module": "API"},
        "command": "firewall-drop180",
        "parameters": {"extra_args": ["-x", "it's $1"], "alert": {"data": {"srcip": "192.0.2.7", "n": [1, "`a`!"]}}},
    }


@pytest.mark.parametrize("version", ["v4.2.0", "Wazuh v4.2.4"])
def test_values_are_escaped_for_agents_that_use_a_shell(version: str) -> None:
    assert body(version)["parameters"] == {
        "extra_args": ["-x", r"it\x27s \x241"],
        "alert": {"data": {"srcip": "192.0.2.7", "n": [1, r"\x60a\x60\x21"]}},
    }
    assert r"it\\x27s" in response_message(RESPONSE, version)


def test_text() -> None:
    assert response_message(RESPONSE, "v4.1.5") == "#!-execd firewall-drop180 -x it\\'s \\$1"
    assert response_message(Response(command="!own"), "OSSEC HIDS v2.8") == "#!-execd !own - -"
    longest = Response(command="!own", arguments=["x" * (1023 - 5)])
    assert len(response_message(longest, "v4.1.5")) == 1023 + len("#!-execd ")
    with pytest.raises(ValueError, match="1023"):
        response_message(Response(command="!own", arguments=["x" * (1023 - 4)]), "v4.1.5")


def test_escaping() -> None:
    special = "\\\"'\t;`><|#*[]{}&$!:()"
    assert shell_escaped(special) == "".join(f"\\{sign}" for sign in special)
    assert shell_escaped("a-b c/d.e_f,1") == "a-b c/d.e_f,1"


@pytest.mark.parametrize(("version", "json_text"), [("Wazuh v4.2.0", True), ("Wazuh v4.1.5", False), (None, False)])
def test_restart(version: str | None, json_text: bool) -> None:
    modern = (
        '#!-execd {"version": 1, "origin": {"module": "API"}, "command": "restart-wazuh0", '
        '"parameters": {"extra_args": [], "alert": {}}} - null (from_the_server) (no_rule_id)'
    )
    old = "#!-execd restart-ossec0 - null (from_the_server) (no_rule_id)"
    assert restart_message(version) == (modern if json_text else old)
