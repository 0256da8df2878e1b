"""The handler of each type of messages (agent-data.md 1.1)."""

from secmon.inventory.assessment.handler import handle_assessment
from secmon.inventory.benchmark import handle_benchmark
from secmon.inventory.changes import Handlers
from secmon.inventory.integrity.handler import handle_integrity
from secmon.inventory.rootcheck import handle_rootcheck

HANDLERS: Handlers = {
    "8": handle_integrity,
    "9": handle_rootcheck,
    "e": handle_benchmark,
    "p": handle_assessment,
}
