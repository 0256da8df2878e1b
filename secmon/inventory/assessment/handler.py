"""Stores the messages of configuration assessment and repairs what was lost (agent-data.md 5.3)."""

from secmon.inventory.assessment.events import check_event, summary_event
from secmon.inventory.assessment.messages import CheckMessage, DumpEnd, Policies, Summary, read_report
from secmon.inventory.assessment.stored_policies import StoredPolicies, result_of
from secmon.inventory.changes import Changes
from secmon.inventory.message import AgentMessage, MalformedMessage

MAX_POLICIES = 200
MAX_CHECKS = 10_000
"""Of an agent. Messages that would add more are dropped and counted as malformed."""


def handle_assessment(message: AgentMessage, changes: Changes) -> None:
    """A :data:`secmon.inventory.changes.Handler`."""
    report = read_report(message)
    stored = StoredPolicies(changes, message.agent)
    match report:
        case CheckMessage():
            _on_check(message, report, stored, changes)
        case Summary():
            _on_summary(message, report, stored, changes)
        case DumpEnd():
            _on_dump_end(message.agent, report, stored, changes)
        case Policies():
            stored.delete_other_policies({one for one in report.policies if isinstance(one, str)})


def _on_check(message: AgentMessage, found: CheckMessage, stored: StoredPolicies, changes: Changes) -> None:
    before = stored.result(found.policy_id, found.check.id)
    if before is not None:
        stored.update_check(found)
    elif stored.check_count() >= MAX_CHECKS:
        raise MalformedMessage(f"the agent has {MAX_CHECKS} checks already")
    else:
        stored.add_check(found)
    if before != result_of(found.check):
        changes.report(check_event(message, found, before))


def _on_summary(message: AgentMessage, found: Summary, stored: StoredPolicies, changes: Changes) -> None:
    policy, first, forced = found.policy_id, bool(found.first_scan), bool(found.force_alert)
    known = stored.scan_hash(policy)
    if known is None and stored.scan_count() >= MAX_POLICIES:
        raise MalformedMessage(f"the agent has {MAX_POLICIES} policies already")
    if forced or (not first and known != found.hash):
        changes.report(summary_event(message, found))
    stored.save_scan(found)
    at_once = first and known is None
    file_hash = stored.file_hash(policy)
    if file_hash is None:
        stored.save_policy(found)
    elif file_hash != found.hash_file:
        stored.delete_policy(policy)  # the summary after the dump brings it back
        at_once = True
    if at_once or stored.results_hash(policy) != found.hash:
        _request_dump(changes, message.agent, policy, at_once=at_once or first)


def _on_dump_end(agent: int, found: DumpEnd, stored: StoredPolicies, changes: Changes) -> None:
    policy = found.policy_id
    stored.delete_checks_of_other_scans(policy, found.scan_id)
    results, expected = stored.results_hash(policy), stored.scan_hash(policy)
    # Without a summary nothing is expected: that of the dump is on its way, or that of the next scan.
    if None not in (results, expected) and results != expected:
        _request_dump(changes, agent, policy, at_once=False)


def _request_dump(changes: Changes, agent: int, policy: str, *, at_once: bool) -> None:
    """Request all checks of a policy (agent-data.md 5.4), once in a transaction.

    ``at_once``: the agent waits 2 s only, and sends a summary at the end.
    """
    now, later = (agent, f"sca-dump:{policy}:1"), (agent, f"sca-dump:{policy}:0")
    if now in changes.answers:
        return
    if at_once and later in changes.answers:
        changes.answers.remove(later)
    if at_once or later not in changes.answers:
        changes.answer(*(now if at_once else later))
