"""Examines a node and its host: what is wrong, and what to do."""
