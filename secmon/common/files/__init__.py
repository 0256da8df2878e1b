"""Replicated files: which they are, how they are found, compared and reached safely (cluster.md 4.2)."""
