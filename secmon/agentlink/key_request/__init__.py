"""Requests for the keys of refused agents, to a program or a socket of the operator (agent-link.md 2.5)."""
