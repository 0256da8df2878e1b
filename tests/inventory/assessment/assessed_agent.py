"""What an agent sends of its assessment (agent-data.md 5.1, 5.4)."""

import hashlib
from typing import Any

from secmon.inventory.message import AgentMessage
from tests.inventory.handled_messages import message_of

Body = dict[str, Any]
Results = dict[int, str | None]
"""Results by check, None: not applicable."""
FILE_HASH = "ab" * 32


def results_hash(results: Results) -> str:
    return hashlib.sha256(":".join(results[number] or "" for number in sorted(results)).encode()).hexdigest()


def check(number: int, result: str | None, *, scan: int = 1, policy: str = "demo", **members: Any) -> Body:
    body: Body = {"id": number, "title": f"Check {number}", **members}
    body |= {"status": "Not applicable", "reason": "no file"} if result is None else {"result": result}
    return {"type": "check", "id": scan, "policy": "Demo hardening", "policy_id": policy, "check": body}


def summary(results: Results, *, scan: int = 1, policy: str = "demo", **members: Any) -> Body:
    passed, failed, invalid = (list(results.values()).count(one) for one in ("passed", "failed", None))
    body = {
        "type": "summary",
        "scan_id": scan,
        "name": "Demo hardening",
        "policy_id": policy,
        "file": f"{policy}.yml",
        "description": "Demo policy",
        "passed": passed,
        "failed": failed,
        "invalid": invalid,
        "total_checks": len(results),
        "score": passed / (passed + failed) * 100 if passed + failed else 0,
        "start_time": 1714640000,
        "end_time": 1714640004,
        "hash": results_hash(results),
        "hash_file": FILE_HASH,
    }
    return body | members


def dump(results: Results, flag: str, *, scan: int = 1, policy: str = "demo", **members: Any) -> list[Body]:
    """The answer to a request with ``flag``."""
    end = {"type": "dump_end", "policy_id": policy, "elements_sent": len(results), "scan_id": scan}
    checks = [check(number, result, scan=scan, policy=policy) for number, result in results.items()]
    last = [summary(results, scan=scan, policy=policy, force_alert="1", **members)] if flag == "1" else []
    return [*checks, end, *last]


def sent(*bodies: Body, agent: int = 4) -> list[AgentMessage]:
    return [message_of("sca", body, agent=agent) for body in bodies]
