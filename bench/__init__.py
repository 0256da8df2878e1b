"""Measurements: every figure is compared with its floor, the best that the same machine can do (docs/benchmarks.md)."""
