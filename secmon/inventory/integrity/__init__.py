"""Integrity of files and of the registry ("FIM", "syscheck"; docs/reference/agent-data.md 3)."""
