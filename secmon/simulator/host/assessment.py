"""The configuration assessment of a host by one policy (agent-data.md 5)."""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from hashlib import sha256
from random import Random
from typing import Any

Report = Mapping[str, Any]
"""The body of a message of type p."""
POLICY = "example_linux"
_NAME = "Example hardening"
_NOT_APPLICABLE = "not applicable"


class Assessment:
    """Checks with their results. ``now`` is the host's clock."""

    def __init__(self, random: Random, now: Callable[[], datetime], checks: int = 20) -> None:
        self._random, self._now = random, now
        self.results = {9000 + number: self._result() for number in range(checks)}
        self._scan = 0
        self._first = True

    def scan(self) -> Iterator[Report]:
        """A scan: the checks whose results are new, the summary, the policies."""
        began, self._scan = int(self._now().timestamp()), self._random.randrange(1, 1 << 31)
        changed = [] if self._first else self._random.sample(sorted(self.results), 2)
        for check in changed:
            result = self._result()
            if result != self.results[check]:
                self.results[check] = result
                yield self._check(check)
        yield self._summary(began) | ({"first_scan": 1} if self._first else {})
        yield {"type": "policies", "policies": [POLICY]}
        self._first = False

    def dump(self, *, first: bool) -> Iterator[Report]:
        """What a request for all results leads to; ``first``: the summary follows (agent-data.md 5.4)."""
        for check in self.results:
            yield self._check(check)
        count = len(self.results)
        yield {"type": "dump_end", "policy_id": POLICY, "elements_sent": count, "scan_id": self._scan}
        if first:
            yield self._summary(int(self._now().timestamp())) | {"force_alert": "1"}

    def _result(self) -> str:
        return self._random.choices(("passed", "failed", _NOT_APPLICABLE), (6, 3, 1))[0]

    def _check(self, number: int) -> Report:
        result = self.results[number]
        found = {"status": "Not applicable", "reason": "the command could not be run"}
        check = {
            "id": number,
            "title": f"Setting {number} is as it should be",
            "rationale": "It keeps others out",
            "compliance": {"pci_dss": "2.2.4", "tsc": "CC6.3"},
            "rules": [f"f:/etc/example/setting{number}.conf -> r:^on"],
            "condition": "all",
            "file": f"/etc/example/setting{number}.conf",
        } | (found if result == _NOT_APPLICABLE else {"result": result})
        return {"type": "check", "id": self._scan, "policy": _NAME, "policy_id": POLICY, "check": check}

    def _summary(self, began: int) -> dict[str, Any]:
        results = list(self.results.values())
        passed, failed = results.count("passed"), results.count("failed")
        text = ":".join("" if each == _NOT_APPLICABLE else each for each in results)
        return {
            "type": "summary", "scan_id": self._scan, "name": _NAME, "policy_id": POLICY, "file": f"{POLICY}.yml",
            "description": "Settings of the example hosts", "references": "https://example.org/hardening",
            "passed": passed, "failed": failed, "invalid": results.count(_NOT_APPLICABLE),
            "total_checks": len(results), "score": 100 * passed / (passed + failed) if passed + failed else 0,
            "start_time": began, "end_time": int(self._now().timestamp()),
            "hash": sha256(text.encode()).hexdigest(), "hash_file": sha256(POLICY.encode()).hexdigest(),
        }  # fmt: skip
