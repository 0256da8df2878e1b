"""The policies and checks of an agent in the store (agent-data.md 5.6)."""

import hashlib
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

from sqlalchemy import BindParameter, ColumnElement, Select, Table, bindparam, func, select

from secmon.inventory.assessment.messages import Check, CheckMessage, Summary
from secmon.inventory.changes import Changes
from secmon.inventory.schema import sca_check_compliance, sca_check_rules, sca_checks, sca_policies, sca_scans

NOT_APPLICABLE = "not applicable"
"""The result of a check that could not be evaluated."""
MAX_ITEMS = 100
"""Rules, and requirements, of a check that are stored."""

_CHECK_TEXTS = tuple(name for name in Check.__struct_fields__ if name not in ("id", "result", "compliance", "rules"))
_RULE_TYPES = {
    "f": "file",
    "d": "directory",
    "r": "registry",
    "c": "command",
    "p": "process",
    "n": "numeric",
}
_RULE = re.compile(r"(?:not\s+)?([fdrcpn])")


def result_of(check: Check) -> str:
    """``passed``, ``failed`` or ``not applicable``."""
    return check.result or NOT_APPLICABLE


def hash_of(results: list[str]) -> str:
    """The hash of the results of a policy, which are in the order of the ids of the checks (agent-data.md 5.2)."""
    joined = ":".join("" if one == NOT_APPLICABLE else one for one in results)
    return hashlib.sha256(joined.encode()).hexdigest()


_AGENT: BindParameter[int] = bindparam("agent")
_POLICY: BindParameter[str] = bindparam("policy")
_CHECK: BindParameter[int] = bindparam("check")


def _policy_column(table: Table) -> ColumnElement[str]:
    return table.c.id if table is sca_policies else table.c.policy_id


def _select(column: ColumnElement[Any], table: Table) -> Select[Any]:
    """A column of a policy's rows."""
    return select(column).where(table.c.agent_id == _AGENT, _policy_column(table) == _POLICY)


def _count(table: Table) -> Select[Any]:
    return select(func.count()).select_from(table).where(table.c.agent_id == _AGENT)


_TABLES = (sca_policies, sca_scans, sca_checks, sca_check_compliance, sca_check_rules)
_RESULT = _select(sca_checks.c.result, sca_checks).where(sca_checks.c.id == _CHECK)
_RESULTS = _select(sca_checks.c.result, sca_checks).order_by(sca_checks.c.id)
_SCAN_HASH = _select(sca_scans.c.hash, sca_scans)
_FILE_HASH = _select(sca_policies.c.hash_file, sca_policies)
_COUNTS = {table: _count(table) for table in (sca_checks, sca_scans)}
_KNOWN = {
    table: select(_policy_column(table)).distinct().where(table.c.agent_id == _AGENT)
    for table in (sca_policies, sca_scans, sca_checks)
}
_CHECK_ROW = select(sca_checks).where(
    sca_checks.c.agent_id == _AGENT, sca_checks.c.policy_id == _POLICY, sca_checks.c.id == _CHECK
)


class StoredPolicies:
    """What the store has of one agent."""

    def __init__(self, changes: Changes, agent: int) -> None:
        self._changes, self._agent = changes, agent

    def result(self, policy: str, check: int) -> str | None:
        """The result of a check; None when it is not stored."""
        return self._text(sca_checks, _RESULT, policy=policy, check=check)

    def check_count(self) -> int:
        """The checks of all policies."""
        return self._count(sca_checks)

    def scan_count(self) -> int:
        """The policies with a scan."""
        return self._count(sca_scans)

    def scan_hash(self, policy: str) -> str | None:
        """The results hash of the last summary; None when no scan is stored."""
        return self._text(sca_scans, _SCAN_HASH, policy=policy)

    def file_hash(self, policy: str) -> str | None:
        """The hash of the policy's file; None when the policy is not stored."""
        return self._text(sca_policies, _FILE_HASH, policy=policy)

    def results_hash(self, policy: str) -> str | None:
        """The results hash of the stored checks; None when there are none."""
        found = self._changes.execute(sca_checks, _RESULTS, {"agent": self._agent, "policy": policy})
        results = [str(one) for one in found.scalars()]
        return hash_of(results) if results else None

    def add_check(self, found: CheckMessage) -> None:
        check, key = found.check, {"agent_id": self._agent, "policy_id": found.policy_id}
        row = {name: getattr(check, name) for name in _CHECK_TEXTS}
        self._changes.save(sca_checks, {**key, **row, "id": check.id, "result": result_of(check), "scan_id": found.id})
        for name, value in islice(compliance_of(check), MAX_ITEMS):
            self._changes.save(sca_check_compliance, {**key, "check_id": check.id, "key": name, "value": value})
        for kind, rule in islice(_rules_of(check), MAX_ITEMS):
            self._changes.save(sca_check_rules, {**key, "check_id": check.id, "type": kind, "rule": rule})

    def update_check(self, found: CheckMessage) -> None:
        """A stored check gets another scan, result and reason; its texts remain until the policy's file changes."""
        key = {"agent": self._agent, "policy": found.policy_id, "check": found.check.id}
        row = self._changes.execute(sca_checks, _CHECK_ROW, key).mappings().one()
        new = {"scan_id": found.id, "result": result_of(found.check), "reason": found.check.reason}
        self._changes.save(sca_checks, {**row, **new})

    def save_scan(self, summary: Summary) -> None:
        row = {
            "agent_id": self._agent,
            "policy_id": summary.policy_id,
            "scan_id": summary.scan_id,
            "start_scan": summary.start_time,
            "end_scan": summary.end_time,
            "pass": summary.passed,
            "fail": summary.failed,
            "invalid": summary.invalid,
            "total_checks": summary.total_checks,
            "score": int(summary.score),
            "hash": summary.hash,
        }
        self._changes.save(sca_scans, row)

    def save_policy(self, summary: Summary) -> None:
        row = {name: getattr(summary, name) for name in ("name", "file", "description", "references", "hash_file")}
        self._changes.save(sca_policies, {"agent_id": self._agent, "id": summary.policy_id, **row})

    def delete_policy(self, policy: str) -> None:
        """Delete the policy with its scan and its checks."""
        for table in _TABLES:
            self._changes.delete(table, self._agent, _policy_column(table) == _POLICY, policy=policy)

    def delete_other_policies(self, kept: set[str]) -> None:
        """Delete all policies but ``kept``, and checks of policies that no summary has named."""
        known: set[str] = set()
        for table, wanted in _KNOWN.items():
            known.update(self._changes.execute(table, wanted, {"agent": self._agent}).scalars())
        for policy in known - kept:
            self.delete_policy(policy)

    def delete_checks_of_other_scans(self, policy: str, scan: int) -> None:
        other = sca_checks.c.scan_id != bindparam("scan")
        self._changes.delete(
            sca_checks, self._agent, sca_checks.c.policy_id == _POLICY, other, policy=policy, scan=scan
        )
        left = _select(sca_checks.c.id, sca_checks)
        for table in (sca_check_compliance, sca_check_rules):
            orphaned = table.c.check_id.not_in(left)
            self._changes.delete(table, self._agent, table.c.policy_id == _POLICY, orphaned, policy=policy)

    def _text(self, table: Table, question: Select[Any], **values: object) -> str | None:
        found = self._changes.execute(table, question, {"agent": self._agent, **values}).scalar_one_or_none()
        return None if found is None else str(found)

    def _count(self, table: Table) -> int:
        return int(self._changes.execute(table, _COUNTS[table], {"agent": self._agent}).scalar_one())


def compliance_of(check: Check) -> Iterator[tuple[str, str]]:
    """Requirements by standard; several of one standard are joined with commas."""
    for name, value in check.compliance.items() if isinstance(check.compliance, dict) else ():
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            yield name, str(value)


def _rules_of(check: Check) -> Iterator[tuple[str, str]]:
    """Type and text of rules."""
    for rule in check.rules if isinstance(check.rules, list) else ():
        kind = _RULE.match(rule) if isinstance(rule, str) else None
        if kind is not None:
            yield _RULE_TYPES[kind[1]], rule
