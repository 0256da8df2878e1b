"""Lists that are renewed from feeds: block lists and indicators (ruleset.md 7)."""
