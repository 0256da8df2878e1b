"""Measurements: every figure stands beside its floor, what the same machine can do at best (docs/benchmarks.md)."""
