"""The protocol by which agents compare their rows with those of the manager (docs/reference/agent-data.md 2)."""
