"""Upgrades of agents: packages, their way to the agents, and what these report (agent-link.md 10)."""
