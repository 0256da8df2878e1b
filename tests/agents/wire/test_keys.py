"""Keys and values derived from them, against the vectors."""

from typing import Any

import pytest

from secmon.agents.wire.keys import agent_id, derive, enrolment_hash, export_key
from tests.agents.wire import vectors


@pytest.mark.parametrize("case", vectors.section("key_derivation"), ids=lambda case: case["agent"])
def test_derivation(case: dict[str, Any]) -> None:
    key = vectors.agent(case["agent"])
    assert derive(key) == case["cipher_key_ascii"].encode()
    assert derive(key)[:32] == case["aes256_key_ascii"].encode()
    assert enrolment_hash(key) == case["enrolment_key_sha1"]
    assert key.line == case["client_keys_line"]
    assert export_key(key) == case["api_key_base64"]


def test_ids_have_at_least_three_digits() -> None:
    assert [agent_id(number) for number in (0, 7, 123, 1024)] == ["000", "007", "123", "1024"]
