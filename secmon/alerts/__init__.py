"""Alerts of this node: the reader of their files, and the store in which they are searched."""
