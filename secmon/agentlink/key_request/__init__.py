"""Keys of refused agents, asked of a program or a socket of the operator (agent-link.md 2.5)."""
