"""Rules: which decoded events matter, and how much (ruleset.md 6)."""
