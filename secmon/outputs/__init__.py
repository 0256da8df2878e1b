"""Outputs: alerts go to people and other systems, each output with a committed position of its own."""
