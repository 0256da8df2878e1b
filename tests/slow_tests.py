"""The tests that ``make test-fast`` leaves out, beside whole folders: those that take longest (``slow.txt``)."""

from pathlib import Path

_LIST = Path(__file__).with_name("slow.txt")


def slow_tests() -> frozenset[str]:
    """Their ids below ``tests`` without parameters: 0.25 s of processor time or 0.6 s in all when last measured."""
    return frozenset(_LIST.read_text().split())
