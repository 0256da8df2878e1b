"""The analysis engine: from a line of a log to an alert (ruleset.md)."""
