"""Decoders: from the text of a log to fields (ruleset.md 5)."""
