"""The handler of each type of messages (agent-data.md 1.1)."""

from secmon.inventory.changes import Handlers

HANDLERS: Handlers = {}
