"""The handler of each type of messages (agent-data.md 1.1)."""

from secmon.inventory.assessment.handler import handle_assessment
from secmon.inventory.benchmark import handle_benchmark
from secmon.inventory.changes import Handlers
from secmon.inventory.integrity.handler import handle_integrity
from secmon.inventory.rootcheck import handle_rootcheck
from secmon.inventory.synchronization.messages import synchronize
from secmon.inventory.system.deltas import store_inventory

HANDLERS: Handlers = {
    "5": synchronize,
    "8": handle_integrity,
    "9": handle_rootcheck,
    "d": store_inventory,
    "e": handle_benchmark,
    "p": handle_assessment,
}
