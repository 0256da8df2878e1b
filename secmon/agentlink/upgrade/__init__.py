"""Upgrades of agents: packages, their transfer, and the agents' reports (agent-link.md 10)."""
