"""The agents' wire format: keys, encrypted messages, frames, counters, locations, keepalives (agent-link.md 4-6)."""
