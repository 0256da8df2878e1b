"""The rule language row by row (rbac.md 11)."""

import json
from pathlib import Path
from typing import Any

from secmon.security.rbac.context_rules import evaluate
from tests.offenders import Offenders

_TABLE = json.loads(Path(__file__).with_name("truth_table.json").read_text())
_CONTEXTS: dict[str, dict[str, Any]] = _TABLE["contexts"]
_ROWS: list[list[Any]] = _TABLE["rows"]


def test_every_row_holds_or_not() -> None:
    with Offenders() as offenders:
        for name, context, rule, holds in _ROWS:
            with offenders.row(name, context, rule):
                assert evaluate(rule, _CONTEXTS[context]) is holds


def test_the_table_is_whole() -> None:
    assert [row[0] for row in _ROWS] == [f"T{n}" for n in range(1, 122)] + [f"D{n}" for n in range(1, 36)]
