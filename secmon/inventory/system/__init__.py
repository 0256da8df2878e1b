"""The system inventory ("syscollector"; docs/reference/agent-data.md 4)."""
