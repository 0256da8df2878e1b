"""The policies and checks of an agent in the store (agent-data.md 5.6)."""

import hashlib
import re
from collections.abc import Iterator
from itertools import islice

from sqlalchemy import ColumnElement, Table, delete, func, select, update

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


class StoredPolicies:
    """What the store has of one agent."""

    def __init__(self, changes: Changes, agent: int) -> None:
        self._changes, self._agent = changes, agent

    def result(self, policy: str, check: int) -> str | None:
        """The result of a check; None when it is not stored."""
        wanted = self._of(sca_checks, policy) & (sca_checks.c.id == check)
        found = self._changes.execute(sca_checks, select(sca_checks.c.result).where(wanted)).scalar_one_or_none()
        return None if found is None else str(found)

    def check_count(self) -> int:
        """The checks of all policies."""
        counted = select(func.count()).select_from(sca_checks).where(sca_checks.c.agent_id == self._agent)
        return int(self._changes.execute(sca_checks, counted).scalar_one())

    def scan_count(self) -> int:
        counted = select(func.count()).select_from(sca_scans).where(sca_scans.c.agent_id == self._agent)
        return int(self._changes.execute(sca_scans, counted).scalar_one())

    def scan_hash(self, policy: str) -> str | None:
        """The results hash of the last summary; None when no scan is stored."""
        wanted = select(sca_scans.c.hash).where(self._of(sca_scans, policy))
        found = self._changes.execute(sca_scans, wanted).scalar_one_or_none()
        return None if found is None else str(found)

    def file_hash(self, policy: str) -> str | None:
        """The hash of the policy's file; None when the policy is not stored."""
        wanted = select(sca_policies.c.hash_file).where(self._of(sca_policies, policy))
        found = self._changes.execute(sca_policies, wanted).scalar_one_or_none()
        return None if found is None else str(found)

    def results_hash(self, policy: str) -> str | None:
        """The results hash of the stored checks; None when there are none."""
        wanted = select(sca_checks.c.result).where(self._of(sca_checks, policy)).order_by(sca_checks.c.id)
        results = [str(one) for one in self._changes.execute(sca_checks, wanted).scalars()]
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
        check = found.check
        values = {"scan_id": found.id, "result": result_of(check), "reason": check.reason}
        wanted = self._of(sca_checks, found.policy_id) & (sca_checks.c.id == check.id)
        self._changes.execute(sca_checks, update(sca_checks).where(wanted).values(values))

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
        for table in (sca_policies, sca_scans, sca_checks, sca_check_compliance, sca_check_rules):
            self._changes.execute(table, delete(table).where(self._of(table, policy)))

    def delete_other_policies(self, kept: set[str]) -> None:
        """Delete all policies but ``kept``, and checks of policies that no summary has named."""
        known: set[str] = set()
        for table in (sca_policies, sca_scans, sca_checks):
            wanted = select(_policy_column(table)).distinct().where(table.c.agent_id == self._agent)
            known.update(self._changes.execute(table, wanted).scalars())
        for policy in known - kept:
            self.delete_policy(policy)

    def delete_checks_of_other_scans(self, policy: str, scan: int) -> None:
        gone = self._of(sca_checks, policy) & (sca_checks.c.scan_id != scan)
        self._changes.execute(sca_checks, delete(sca_checks).where(gone))
        left = select(sca_checks.c.id).where(self._of(sca_checks, policy))
        for table in (sca_check_compliance, sca_check_rules):
            orphaned = self._of(table, policy) & table.c.check_id.not_in(left)
            self._changes.execute(table, delete(table).where(orphaned))

    def _of(self, table: Table, policy: str) -> ColumnElement[bool]:
        return (table.c.agent_id == self._agent) & (_policy_column(table) == policy)


def _policy_column(table: Table) -> ColumnElement[str]:
    return table.c.id if table is sca_policies else table.c.policy_id


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
