"""Upgrade tasks of agents, on the master (agent-link.md 10.7)."""
