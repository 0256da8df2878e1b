"""The bytes that agents speak: keys, sealed messages, frames, counters, locations, keepalives (agent-link.md 4-6)."""
